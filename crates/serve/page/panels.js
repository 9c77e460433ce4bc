// What stands around the picture: the count of tokens, the votes, and one spot close up.

import { byId, count, element, percent } from "./elements.js";
import { ENDS, visibleText } from "./picture.js";
import { forkOf } from "./spots.js";

export function showCost(tree) {
  const cost = tree.cost();
  const share = cost.parallel > 0 ? cost.decoded / cost.parallel : 1;
  byId("decoded").textContent = count(cost.decoded);
  byId("parallel").textContent = count(cost.parallel);
  byId("shared").textContent = percent(1 - share);
  byId("saved").textContent = percent(cost.samples > 0 ? 1 - cost.decoded / cost.samples : 0);
  byId("branches").textContent = count(cost.branches);
  byId("forks").textContent = count(cost.forks);
  byId("meter").style.setProperty("width", `${100 * share}%`);
}

// Draws the votes if they have changed.
export function showVotes(tree) {
  const votes = tree.counted();
  const list = byId("votes");
  const state = JSON.stringify(votes.map(({ answer, count, tied, correct }) => [answer, count, tied, correct]));
  if (list.dataset.state === state) return;
  list.dataset.state = state;
  const most = votes[0]?.count ?? 1;
  list.replaceChildren(...votes.map((vote, at) => ballot(vote, most, at === 0 || vote.tied)));
  byId("votes-none").hidden = votes.length > 0;
  const none = tree.end && tree.branches.every((branch) => branch.caughtUp);
  byId("votes-none").textContent = none ? "No attempt came to an answer." : "No attempt has come to an answer yet.";
}

function ballot(vote, most, leads) {
  const bar = element("span", { class: "bar", "aria-hidden": "true" });
  bar.style.setProperty("width", `${(100 * vote.count) / most}%`);
  const right = vote.correct === null ? null : mark(vote.correct);
  const tie = vote.tied ? element("span", { class: "quiet tie" }, " tie") : null;
  return element("li", { class: leads ? "leads" : "" }, element("span", { class: "answer" }, right, vote.answer, tie), element("span", { class: "count" }, `${count(vote.count)}`), bar);
}

export function mark(right) {
  const said = element("span", { class: "unseen" }, right ? "right: " : "wrong: ");
  return element("span", { class: right ? "right" : "wrong" }, element("span", { "aria-hidden": "true" }, right ? "✓ " : "✗ "), said);
}

// A spot in words; `where` also tells the branch.
function describe(tree, spot) {
  const owner = tree.owner(spot.branch, spot.at);
  const own = spot.at - owner.at;
  const forced = owner.forced.has(spot.at) ? ", chosen by the method" : "";
  const text = owner.text[own];
  const token = !owner.hasText ? "" : text === "" ? "(no text) " : `“${visibleText(text)}” `;
  return {
    token,
    where: `Branch ${spot.branch.id}, token ${spot.at + 1}`,
    numbers: `entropy ${owner.entropy[own].toFixed(2)}, probability ${percent(owner.p[own])}${forced}`,
  };
}

// The two ways from a fork, as bars.
function ways(fork) {
  const way = ({ branch, text, p }) => {
    const bar = element("span", { class: "bar" });
    bar.style.setProperty("width", `${Math.max(2, 100 * p)}%`);
    const token = element("code", {}, text === "" ? "?" : visibleText(text));
    return element("li", {}, token, element("span", { class: "track", "aria-hidden": "true" }, bar), element("span", { class: "p" }, percent(p)), element("span", { class: "to" }, `branch ${branch}`));
  };
  return element("ul", { class: "ways" }, ...fork.candidates.map(way));
}

export function tipFor(tree, spot) {
  const { token, where, numbers } = describe(tree, spot);
  const fork = forkOf(tree, spot)?.fork;
  const lines = [element("div", { class: "tip-title" }, fork ? "Fork" : token, element("span", {}, where)), element("div", {}, fork ? `entropy ${fork.entropy.toFixed(2)}: two ways from here` : numbers)];
  if (fork) lines.push(ways(fork));
  return lines;
}

// The kept spot: its numbers, its fork if it has one, and the text of the branch.
export function showSpot(tree, spot) {
  const empty = spot === null || tree === null;
  byId("reading").hidden = empty;
  byId("fork").replaceChildren();
  if (empty) {
    byId("spot").textContent = "Point at a token or a fork; click to keep it here.";
    return;
  }
  const { token, where, numbers } = describe(tree, spot);
  byId("spot").textContent = `${where}: ${token}${numbers}`;
  const fork = forkOf(tree, spot)?.fork;
  if (fork) byId("fork").append(element("p", {}, `Branch ${fork.branch} forks from branch ${fork.parent} here, at entropy ${fork.entropy.toFixed(2)}:`), ways(fork));
  byId("reading").replaceChildren(...reading(tree, spot));
  byId("reading").querySelector("mark")?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

const LEVELS = 6;

// The whole text of a branch. Tokens of about one shade share an element, so that long texts stay light.
function reading(tree, spot) {
  const parts = [];
  let [run, level, shared] = ["", -1, null];
  const close = () => {
    if (run) parts.push(element("span", { class: `e${level}${shared ? " shared" : ""}` }, run));
    run = "";
  };
  for (const { branch, from, to } of tree.path(spot.branch)) {
    if (!branch.hasText) {
      close();
      parts.push(element("span", { class: "e0" }, branch.ownText));
      continue;
    }
    for (let at = from; at < to; at++) {
      const text = branch.text[at - branch.at];
      const next = Math.min(LEVELS - 1, Math.floor((branch.shade[at - branch.at] / 256) * LEVELS));
      const before = branch !== spot.branch;
      if (at === spot.at) {
        close();
        parts.push(element("mark", {}, text === "" ? "▯" : text.replaceAll("\n", "⏎\n")));
        continue;
      }
      if (next !== level || before !== shared) close();
      [level, shared] = [next, before];
      run += text;
    }
  }
  close();
  return parts;
}

// What a branch ends in: a sign and a colour where it is known to be right or wrong.
export function endOf(branch) {
  const { answer, correct, finish } = branch.finish;
  const how = finish === "stop" ? "" : `, ${ENDS[finish] ?? finish}`;
  const said = `${answer === null ? "no answer" : `answer ${answer}`}${how}`;
  return element("span", { class: "end" }, typeof correct === "boolean" ? mark(correct) : null, said);
}
