"use strict";
// Sorting of tables, and the problems with their trees. Text from runs only ever becomes text nodes.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const LEVELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const LISTED = 100;

  // An element with attributes and children; strings become text.
  const el = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "onclick" || key === "oninput") node[key] = value;
      else if (value !== null && value !== undefined) node.setAttribute(key, value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  };
  const draw = (name, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  const plural = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
  const round = (value) => Math.round(value * 10) / 10;
  // Entropy: small models may be very sure.
  const nats = (value) => (value === 0 || value >= 0.01 ? value.toFixed(2) : value.toPrecision(2));
  const verdict = (correct) => (correct === null ? "" : correct ? "right" : "wrong");
  const sign = (correct) => (correct === null ? "" : correct ? "\u2713" : "\u2717");

  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
    heads.forEach((head, column) => {
      const sort = () => {
        const down = head.getAttribute("aria-sort") === "descending" ? 1 : -1;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down === 1 ? "ascending" : "descending");
        const key = (row) => row.cells[column].dataset.value;
        const order = (a, b) => {
          const [x, y] = [key(a), key(b)];
          if (x === undefined && y === undefined) {
            return down * a.cells[column].textContent.localeCompare(b.cells[column].textContent);
          }
          return x === undefined ? 1 : y === undefined ? -1 : down * (x - y);
        };
        table.tBodies[0].append(...[...table.tBodies[0].rows].sort(order));
      };
      const label = head.textContent;
      head.replaceChildren(el("button", { type: "button", onclick: sort, title: head.title }, label));
    });
  }

  const browser = document.getElementById("browser");
  if (!browser) return;
  const state = { subject: 0, search: "", filter: "all", shown: LISTED, seed: null };

  const filters = {
    all: ["all problems", () => true],
    trees: ["with trees", (p) => p.trees.length > 0],
    differ: ["methods disagree", (p) => {
      const solved = p.scores.filter((s) => s !== null).map((s) => s[1] > 0);
      return solved.includes(true) && solved.includes(false);
    }],
    unsolved: ["nobody solved", (p) => p.scores.every((s) => s === null || s[1] === 0)],
    minority: ["solved, but outvoted", (p) => p.scores.some((s) => s !== null && s[1] > 0 && s[3] < 1)],
  };

  // Sequences of each method as a column, the right ones solid.
  const bars = (subject, problem) => {
    const most = Math.max(1, ...problem.scores.map((s) => (s ? s[0] : 0)));
    const said = subject.methods.map((m, i) => {
      const s = problem.scores[i];
      return s ? `${m.name}: ${round(s[1])} of ${round(s[0])} right` : `${m.name}: not run`;
    });
    const column = (m, i) => {
      const s = problem.scores[i] || [0, 0];
      const part = (share) => el("i", { style: `height:${(100 * share) / most}%;background:var(${m.colour})` });
      return el("span", {}, part(s[0]), part(s[1]));
    };
    return el("span", { class: "bars", role: "img", "aria-label": said.join("; "), title: said.join("\n") },
      ...subject.methods.map(column));
  };

  const listed = () => {
    const wanted = state.search.trim().toLowerCase();
    const found = (p) => !wanted || p.id.toLowerCase().includes(wanted) || (p.problem || "").toLowerCase().includes(wanted);
    return data.subjects[state.subject].problems.map((p, i) => [p, i]).filter(([p]) => found(p) && filters[state.filter][1](p));
  };

  const list = el("ul", { class: "problems" });
  const count = el("p", { class: "note", role: "status" });
  const more = el("button", { type: "button", class: "plain more", onclick: () => { state.shown += LISTED; fill(); } }, "Show more");
  const fill = () => {
    const subject = data.subjects[state.subject];
    const found = listed();
    list.replaceChildren(...found.slice(0, state.shown).map(([p, i]) => el("li", {},
      el("button", { type: "button", class: "problem", onclick: () => { location.hash = `problem=${state.subject}/${i}`; } },
        el("span", { class: "id" }, p.id),
        el("span", { class: "asked" }, (p.problem || "").replace(/\s+/g, " ").slice(0, 160)),
        bars(subject, p)))));
    count.textContent = `${plural(found.length, "problem")}. Columns: sequences of each method; solid are right.`;
    more.hidden = found.length <= state.shown;
  };

  const legend = el("ul", { class: "legend" });
  const choose = (label, options, chosen, change) => el("label", {}, label,
    el("select", { oninput: (e) => { change(e.target.value); state.shown = LISTED; fill(); } },
      ...options.map(([value, text]) => el("option", { value, ...(value === chosen ? { selected: "" } : {}) }, text))));
  const showLegend = () => legend.replaceChildren(...data.subjects[state.subject].methods.map((m) => el("li", {},
    el("i", { class: "swatch", style: `background:var(${m.colour})` }), m.name)));
  const overview = el("div", {},
    el("div", { class: "tools" },
      data.subjects.length > 1 ? choose("Model and suite", data.subjects.map((s, i) => [String(i), s.name]), "0",
        (value) => { state.subject = Number(value); showLegend(); }) : null,
      el("label", {}, "Search", el("input", { type: "search", placeholder: "id or text",
        oninput: (e) => { state.search = e.target.value; state.shown = LISTED; fill(); } })),
      choose("Show", Object.entries(filters).map(([key, [text]]) => [key, text]), "all", (value) => { state.filter = value; })),
    legend, count, list, more);

  // Children follow their parent, those that left last first: no line then crosses another.
  const order = (sequences) => {
    const rows = [];
    const visit = (at) => {
      rows.push(at);
      sequences.map((s, i) => [s, i]).filter(([s]) => s.parent === at)
        .sort(([a, i], [b, j]) => b.fork_at - a.fork_at || i - j).forEach(([, i]) => visit(i));
    };
    sequences.forEach((s, i) => { if (s.parent === null) visit(i); });
    return rows;
  };

  const WIDTH = 1000, HEIGHT = 24;
  const strips = (tree, rows, theta) => {
    const longest = Math.max(1, ...tree.sequences.map((s) => s.fork_at + s.tokens));
    const x = (position) => (position / longest) * WIDTH;
    const place = new Map(rows.map((at, row) => [at, row]));
    const links = rows.map(() => []);
    tree.sequences.forEach((s, at) => {
      if (s.parent === null) return;
      const [from, to] = [place.get(s.parent), place.get(at)];
      for (let row = from; row <= to; row += 1) {
        links[row].push([x(s.fork_at), row === from ? HEIGHT - 3 : 0, row === to ? HEIGHT - 3 : HEIGHT]);
      }
    });
    return rows.map((at, row) => {
      const s = tree.sequences[at];
      const [from, to] = [x(s.fork_at), x(s.fork_at + s.tokens)];
      const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
      const line = (x1, y1, x2, y2, kind) => svg.append(draw("line", { x1, y1, x2, y2, class: kind, "vector-effect": "non-scaling-stroke" }));
      const base = HEIGHT - 3, high = HEIGHT - 6;
      if (s.entropy.length > 0) {
        const step = (to - from) / s.entropy.length;
        const points = [...s.entropy].map((level, i) => {
          const y = base - (LEVELS.indexOf(level) / 63) * high;
          return `${from + i * step},${y} ${from + (i + 1) * step},${y}`;
        });
        svg.append(draw("polygon", { points: `${from},${base} ${points.join(" ")} ${to},${base}`, class: "strip-entropy" }));
      }
      if (theta !== null && tree.top >= theta) {
        const y = base - (theta / tree.top) * high;
        line(from, y, to, y, "strip-theta");
      }
      links[row].forEach(([at, y1, y2]) => line(at, y1, at, y2, "strip-link"));
      line(from, base, to, base, `strip-line ${verdict(s.correct)}`);
      return svg;
    });
  };

  const votes = (tree) => {
    const cast = new Map();
    for (const s of tree.sequences) {
      // A vote without weight is none.
      if (s.answer === null || (s.weight !== null && s.weight <= 0)) continue;
      const known = cast.get(s.answer) || { weight: 0, count: 0, correct: s.correct };
      known.weight += s.weight === null ? 1 : s.weight;
      known.count += 1;
      cast.set(s.answer, known);
    }
    const sorted = [...cast].sort(([, a], [, b]) => b.weight - a.weight);
    const top = sorted.length > 0 ? sorted[0][1].weight : 1;
    const tied = sorted.filter(([, v]) => v.weight === top).length > 1;
    const weighted = tree.sequences.some((s) => s.weight !== null);
    const rows = sorted.slice(0, 8).map(([answer, v]) => el("li", {},
      el("span", { class: "answer", title: answer }, answer),
      el("span", { class: `bar ${verdict(v.correct)}`, style: `width:${(100 * v.weight) / top}%` }),
      el("span", { class: verdict(v.correct) },
        `${plural(v.count, "vote")}${weighted ? ` (${round(v.weight)})` : ""}${tied && v.weight === top ? ", tie" : ""} ${sign(v.correct)}`)));
    const silent = tree.sequences.filter((s) => s.answer === null).length;
    const rest = [];
    if (sorted.length > 8) rest.push(plural(sorted.length - 8, "other answer"));
    if (silent > 0) rest.push(`${plural(silent, "sequence")} without an answer`);
    return [el("ul", { class: "votes", "aria-label": "Votes" }, ...rows), rest.length > 0 ? el("p", { class: "note" }, rest.join("; ")) : null];
  };

  const panel = (tree, at, open) => {
    const s = tree.sequences[at];
    const visible = (text) => JSON.stringify(text).slice(1, -1);
    const told = [`${plural(s.tokens, "token")} of its own`];
    if (s.parent !== null) {
      told.push(`left #${s.parent} at token ${s.fork_at}`);
      if (s.forked_at_entropy !== null) told.push(`entropy ${nats(s.forked_at_entropy)}`);
      if (s.ways) told.push(`there \u201c${visible(s.ways[0])}\u201d, here \u201c${visible(s.ways[1])}\u201d`);
    }
    const ended = { stop: "ended by the model", length: "cut off at the length limit", halted: "given up by the method" };
    told.push(s.finish === null ? "not finished" : ended[s.finish]);
    const piece = (p) => {
      if (typeof p === "string") return p;
      if (Array.isArray(p)) return el("span", { class: "cut" }, ` [\u2026 ${plural(p[0], "character")} \u2026] `);
      const child = tree.sequences[p];
      const h = child.forked_at_entropy;
      return el("button", { type: "button", class: "fork", onclick: () => open(p),
        title: `#${p} forks off here with \u201c${child.ways ? visible(child.ways[1]) : ""}\u201d${h === null ? "" : `, entropy ${nats(h)}`}` }, `\u21b3#${p}`, h === null ? null : el("small", {}, nats(h)));
    };
    return el("div", { class: "text" }, el("p", {}, told.join(" \u00b7 ")),
      s.before ? el("span", { class: "before" }, s.before) : null, ...s.text.map(piece));
  };

  const treeView = (method, tree) => {
    const rows = order(tree.sequences);
    const view = el("div", { class: "tree" });
    const buttons = new Map();
    const toggle = (at, show) => {
      const button = buttons.get(at);
      const shown = button.getAttribute("aria-expanded") === "true";
      if (shown && !show) button.nextSibling.remove();
      if (!shown) button.after(panel(tree, at, (child) => { toggle(child, true); buttons.get(child).focus(); }));
      button.setAttribute("aria-expanded", String(!shown || show));
    };
    const drawn = strips(tree, rows, method.theta);
    rows.forEach((at, row) => {
      const s = tree.sequences[at];
      const said = `sequence ${at}${s.parent === null ? "" : `, forked off ${s.parent} at token ${s.fork_at}`}, answer ${s.answer === null ? "none" : s.answer}, ${verdict(s.correct) || "not graded"}`;
      const button = el("button", { type: "button", class: "branch", "aria-expanded": "false", "aria-label": said, onclick: () => toggle(at, false) },
        el("span", { class: "number" }, `#${at}`), drawn[row],
        el("span", { class: "answer", title: s.answer }, s.answer === null ? "\u2013" : s.answer),
        el("span", { class: verdict(s.correct) }, sign(s.correct)));
      buttons.set(at, button);
      view.append(button);
    });
    if (rows.length > 0) toggle(rows[0], true);
    return view;
  };

  const detail = (subjectAt, problemAt) => {
    const subject = data.subjects[subjectAt];
    const problem = subject.problems[problemAt];
    const pane = el("div");
    // Which of a method's seeds: the one that was looked at last, or else the first with a tree.
    const seedOf = (i) => {
      const last = subject.methods[i].seeds.indexOf(state.seed);
      return last >= 0 ? last : Math.max((problem.trees[i] || []).findIndex((t) => t), 0);
    };
    const seeds = (i, chosen) => {
      const button = (seed, k) => {
        const tree = (problem.trees[i] || [])[k];
        const right = tree ? `${tree.sequences.filter((q) => q.correct).length} of ${tree.sequences.length} right` : tree === null ? "not run yet" : "not in the page";
        return el("button", { type: "button", class: "plain", "aria-pressed": String(k === chosen),
          onclick: () => { state.seed = seed; show(i); pane.querySelector("[aria-pressed=true]").focus(); } },
        `seed ${seed} `, el("small", {}, right));
      };
      return el("div", { class: "tools seeds", role: "group", "aria-label": "Seed" }, ...subject.methods[i].seeds.map(button));
    };
    const show = (i) => {
      tabs.forEach((tab, j) => tab.setAttribute("aria-pressed", String(i === j)));
      const method = subject.methods[i], k = seedOf(i), tree = (problem.trees[i] || [])[k];
      const choice = method.seeds.length > 1 && problem.trees.length > 0 ? seeds(i, k) : null;
      if (!tree) {
        const why = !problem.scores[i] ? "Not run." : tree === null ? "The run with this seed has not come to this problem."
          : "This tree is not in the page; it is in the run's samples.jsonl.";
        pane.replaceChildren(...[choice, el("p", {}, why)].filter((v) => v !== null));
        return;
      }
      const right = tree.sequences.filter((q) => q.correct).length;
      const tokens = tree.sequences.reduce((sum, q) => sum + q.tokens, 0);
      pane.replaceChildren(...[
        choice,
        // On paper there are no buttons to say which tree this is.
        el("p", {}, `${method.name}, seed ${method.seeds[k]}: ${plural(tree.sequences.length, "sequence")}, ${right} right, ${plural(tokens, "token")} decoded`),
        ...votes(tree),
        el("p", { class: "note" }, "A row is a sequence, from left to right its tokens; it begins where it left the one above it. "
          + `Height is entropy, up to ${nats(tree.top)}${method.theta === null ? "" : `; dashed is \u03b8 = ${Number(method.theta.toPrecision(3))}`}. Open a row to read it.`),
        treeView(method, tree)].filter((v) => v !== null));
    };
    const tabs = subject.methods.map((m, i) => el("button", { type: "button", class: "plain", onclick: () => show(i) },
      el("i", { class: "swatch", style: `background:var(${m.colour})` }), m.name));
    const go = (to, text) => el("button", { type: "button", class: "plain",
      ...(subject.problems[to] ? {} : { disabled: "" }), onclick: () => { location.hash = `problem=${subjectAt}/${to}`; } }, text);
    const view = el("div", {},
      el("div", { class: "tools" },
        el("button", { type: "button", class: "plain", onclick: () => { location.hash = "problems"; } }, "All problems"),
        go(problemAt - 1, "Previous"), go(problemAt + 1, "Next")),
      el("h3", { tabindex: "-1" }, `${problem.id}${data.subjects.length > 1 ? `, ${subject.name}` : ""}`),
      problem.problem === null ? el("p", { class: "note" }, "The text of this problem was not written down.")
        : el("div", { class: "asked-text" }, problem.problem),
      problem.gold === null ? null : el("p", {}, "Right answer: ", el("b", {}, problem.gold)),
      el("div", { class: "tools", role: "group", "aria-label": "Method" }, ...tabs), pane);
    // What is most worth seeing: the last method whose tree has forks.
    const forked = problem.trees.map((seeds) => seeds.some((t) => t && t.sequences.some((s) => s.parent !== null)));
    const first = Math.max(forked.lastIndexOf(true), 0);
    show(first);
    return view;
  };

  const route = () => {
    const found = /^#problem=(\d+)\/(\d+)$/.exec(location.hash);
    const subject = found && data.subjects[Number(found[1])];
    if (subject && subject.problems[Number(found[2])]) {
      const view = detail(Number(found[1]), Number(found[2]));
      browser.replaceChildren(view);
      document.getElementById("problems").scrollIntoView();
      view.querySelector("h3").focus({ preventScroll: true });
    } else if (!overview.isConnected) {
      browser.replaceChildren(overview);
    }
  };
  showLegend();
  fill();
  window.addEventListener("hashchange", route);
  route();
})();
