// Runs on disk: the list, one run with its tables and figures, some side by side, and the tree of one problem.

import { Told, get, getText } from "./api.js";
import { Choice, problemTable } from "./compare.js";
import { count, duration, element, percent, plural } from "./elements.js";
import { mark } from "./panels.js";
import { Tree } from "./tree.js";
import { say } from "./viewer.js";

const METHODS = {
  "full-parallel": "Full parallel",
  "eager-init": "EAGer-init",
  esc: "ESC",
  deepconf: "DeepConf",
  "until-right": "Until right",
  "two-stage": "Two-stage",
};

const methodName = (method) => METHODS[method] ?? method.replace(/^eager/, "EAGer");
const path = (names) => names.map((name) => `/${encodeURIComponent(name)}`).join("");
const address = (...names) => `#/runs${path(names)}`;
const endpoint = (...names) => `/eager/runs${path(names)}`;

export class Runs {
  constructor(place, viewer) {
    Object.assign(this, { place, viewer, asked: 0, wanted: "" });
  }

  // Shows the list, a run, or a problem of a run.
  show([run, problem]) {
    return this.read(() => (problem !== undefined ? this.problem(run, problem) : run !== undefined ? this.run(run) : this.list()));
  }

  // Shows some runs side by side.
  compare(names) {
    return this.read(() => this.sideBySide(names));
  }

  async read(view) {
    const asked = ++this.asked;
    this.place.replaceChildren(element("p", { class: "quiet" }, "Reading."));
    try {
      const content = await view();
      // Whoever has clicked on in the meantime wants something else.
      if (asked === this.asked) content();
    } catch (error) {
      if (asked !== this.asked) return;
      this.place.replaceChildren(element("h1", {}, "Runs"));
      throw error;
    }
  }

  async list() {
    const { runs } = await get("/eager/runs").catch((error) => {
      if (error.status === 404) throw new Told(`${error.message} A run is what eager bench leaves.`);
      throw error;
    });
    return () => {
      document.title = "Runs · eager";
      const intro = element("p", { class: "lead" }, "A run is one method over a set of problems. Open one to see its tables, and any of its problems as a tree. Choose two or more of one suite to see them side by side.");
      const empty = element("p", {}, "There are no runs in the folder yet. ", element("code", {}, "eager bench"), " makes some.");
      const choice = new Choice(runs, (names) => (location.hash = `#/compare${path(names)}`));
      const table = runTable(runs, (run) => choice.box(run));
      const content = runs.length ? [this.filter(table), choice.form(table)] : [empty];
      this.place.replaceChildren(element("h1", {}, "Runs"), intro, ...content);
    };
  }

  // A field that leaves only the runs in which all of its words occur. Those that were chosen stay in sight.
  filter(table) {
    const rows = [...table.querySelectorAll("tbody tr")];
    const input = element("input", { id: "filter", type: "search", placeholder: "name, model, suite or method", autocomplete: "off", spellcheck: "false" });
    const told = element("p", { class: "told", role: "status" });
    const update = () => {
      this.wanted = input.value;
      const words = input.value.toLowerCase().split(/\s+/);
      const fits = (row) => words.every((word) => row.dataset.words.includes(word));
      for (const row of rows) row.hidden = !fits(row) && !row.querySelector(":checked");
      told.textContent = input.value.trim() ? `${count(rows.filter((row) => !row.hidden).length)} of ${plural(rows.length, "run")}` : "";
    };
    input.value = this.wanted;
    input.addEventListener("input", update);
    update();
    return element("div", { class: "filter", role: "search" }, element("label", { for: "filter" }, "Filter"), input, told);
  }

  async run(name) {
    const data = await get(endpoint(name));
    const figures = await this.figures(name);
    return () => {
      document.title = `${name} · eager`;
      const parts = [crumbs([["Runs", address()], [name]]), element("h1", {}, name)];
      if (data.headline.length) parts.push(element("p", { class: "lead" }, data.headline.join(" ")));
      if (data.warnings.length) parts.push(warningList(data.warnings));
      parts.push(...data.tables.map(reportTable));
      parts.push(element("h2", {}, "Problems"), problemList(name, data.problems));
      if (figures.length) parts.push(element("h2", {}, "Figures"), element("div", { class: "figures" }, ...figures));
      this.place.replaceChildren(...parts);
    };
  }

  async sideBySide(names) {
    const data = await get(`/eager/compare?${names.map((name) => `run=${encodeURIComponent(name)}`).join("&")}`);
    return () => {
      document.title = `${names.length} runs of ${data.suite} · eager`;
      const parts = [crumbs([["Runs", address()], ["Side by side"]]), element("h1", {}, `${names.length} runs of ${data.suite}, side by side`)];
      if (data.headline.length) parts.push(element("p", { class: "lead" }, data.headline.join(" ")));
      if (data.warnings.length) parts.push(warningList(data.warnings));
      parts.push(runTable(data.runs), ...data.tables.map(reportTable), element("h2", {}, "Problems"));
      parts.push(...problemTable(data, (run, id) => address(run, id), wide));
      this.place.replaceChildren(...parts);
    };
  }

  // The figures of the run's report. They are drawn once, there, and taken from its page.
  async figures(name) {
    const html = await getText(`${endpoint(name)}/report`);
    const begin = html.indexOf('<section id="figures"');
    if (begin < 0) return [];
    // The rest of that page has styles of its own, which this page's policy would complain about.
    const section = html.slice(begin, html.indexOf("</section>", begin)).replaceAll(/ style="[^"]*"/g, "");
    const report = new DOMParser().parseFromString(section, "text/html");
    return [...report.querySelectorAll("figure")].map((figure) => {
      const title = figure.querySelector("h4, h3")?.textContent ?? "";
      const caption = figure.querySelector("figcaption")?.textContent;
      const pictures = [...figure.querySelectorAll("svg")].map((svg) => document.importNode(svg, true));
      return element("figure", {}, element("h3", {}, title), ...pictures, caption ? element("figcaption", {}, caption) : null);
    });
  }

  async problem(run, id) {
    const data = await get(endpoint(run, "problems", id));
    return () => {
      document.title = `${id} · ${run} · eager`;
      const facts = `${methodName(data.method)}${data.theta === null ? "" : `, θ ${round(data.theta)}`}, at most ${plural(data.cap, "branch", "branches")}`;
      const gold = data.gold === null || data.gold === undefined ? null : element("p", { class: "quiet" }, "Right answer: ", element("b", {}, data.gold));
      this.place.replaceChildren(
        crumbs([["Runs", address()], [run, address(run)], [id]]),
        element("h1", { class: "problem" }, data.problem ?? id),
        element("p", { class: "quiet" }, `${facts}. `),
        ...(gold ? [gold] : []),
      );
      const { end } = data;
      this.viewer.show(Tree.finished(data));
      const spelled = data.branches.every((branch) => branch.text !== null);
      const note = spelled ? "" : " The run was made with another model than this server has, so single tokens have no text here.";
      say(`${plural(end.sequences, "attempt")}, ${plural(end.decoded, "token")}, ${plural(end.forks, "fork")}, decoded in ${duration(end.seconds)}.${note}`);
    };
  }
}

const warningList = (warnings) => element("ul", { class: "warnings" }, ...warnings.map((warning) => element("li", {}, warning)));
const round = (number) => String(Math.round(number * 1000) / 1000);

function crumbs(steps) {
  const step = ([text, to]) => element("li", {}, to ? element("a", { href: to }, text) : element("span", { "aria-current": "page" }, text));
  return element("nav", { class: "crumbs", "aria-label": "Where this is" }, element("ol", {}, ...steps.map(step)));
}

// A table that scrolls by itself where the screen is narrow; on a phone every row becomes a small list (see `data-label` in
// the style).
function wide(label, table) {
  return element("div", { class: "wide", role: "region", tabindex: "0", "aria-label": label }, table);
}

// Runs with their metrics. Where there is a box for each, people may choose.
function runTable(runs, box = null) {
  const heads = ["Run", "Model", "Suite", "Method", "θ", "pass@k", "cons@k", "Sequences", "Tokens"];
  const row = (run) => {
    const metrics = Object.values(run.metrics ?? {})[0] ?? {};
    const cell = (at, ...inside) => element("td", { "data-label": heads[at], class: at > 3 ? "number" : null }, ...inside);
    const number = (at, value, show) => cell(at, value === undefined || value === null ? "–" : show(value));
    return element(
      "tr",
      { "data-words": [run.name, run.model, run.suite, run.method, methodName(run.method)].join(" ").toLowerCase() },
      box && element("td", {}, box(run)),
      element("th", { scope: "row" }, element("a", { href: address(run.name) }, run.name)),
      cell(1, run.model),
      cell(2, `${run.suite} `, element("span", { class: "quiet" }, `(${count(run.problems)})`)),
      cell(3, methodName(run.method)),
      number(4, run.theta, round),
      number(5, metrics.pass_at_k, percent),
      number(6, metrics.cons_at_k, percent),
      number(7, metrics.sequences, count),
      number(8, metrics.tokens, count),
    );
  };
  const choose = box && element("th", { scope: "col" }, element("span", { class: "unseen" }, "Compare"));
  const head = element("thead", {}, element("tr", {}, choose, ...heads.map((text, i) => element("th", { scope: "col", class: i > 3 ? "number" : null }, text))));
  return wide("Runs", element("table", {}, head, element("tbody", {}, ...runs.map(row))));
}

function reportTable(table) {
  const column = ({ name, meaning, words }) => element("th", { scope: "col", title: meaning, class: words ? null : "number" }, name);
  const entry = ({ text, interval, best }, i) => {
    const attributes = { "data-label": table.columns[i]?.name, class: table.columns[i]?.words ? null : best ? "number best" : "number" };
    const inside = [text, interval ? element("small", {}, interval) : null];
    return i === 0 ? element("th", { ...attributes, scope: "row" }, ...inside) : element("td", attributes, ...inside);
  };
  const row = ({ heading, entries }) =>
    heading ? element("tr", {}, element("th", { scope: "rowgroup", colspan: table.columns.length }, heading)) : element("tr", {}, ...entries.map(entry));
  const made = element(
    "table",
    {},
    element("caption", {}, table.title),
    element("thead", {}, element("tr", {}, ...table.columns.map(column))),
    element("tbody", {}, ...table.rows.map(row)),
  );
  const note = table.note ? element("p", { class: "quiet" }, table.note) : null;
  return element("div", {}, wide(table.title, made), note);
}

function problemList(run, problems) {
  const row = (problem) => {
    const share = problem.sequences > 0 ? problem.right / problem.sequences : 0;
    const right = element("span", { class: "score" }, mark(problem.right > 0), `${count(problem.right)} of ${count(problem.sequences)}`);
    const bar = element("span", { class: "share", "aria-hidden": "true" }, element("i"));
    bar.firstChild.style.setProperty("width", `${100 * share}%`);
    const facts = element("span", { class: "quiet" }, `${problem.answer === null ? "no answer" : `voted ${problem.answer}${problem.tied ? " (tie)" : ""}`} · ${plural(problem.tokens, "token")}`);
    return element("li", {}, element("a", { href: address(run, problem.id) }, problem.problem ?? problem.id), right, bar, facts);
  };
  return element("ul", { class: "problems" }, ...problems.map(row));
}
