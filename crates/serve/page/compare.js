// Runs side by side: choosing them, and what each made of every problem.

import { count, element, plural } from "./elements.js";
import { mark } from "./panels.js";

const MOST = 8;

// Which runs are chosen. The first decides the suite: others were asked something else.
export class Choice {
  constructor(runs, compare) {
    Object.assign(this, { runs, compare, boxes: new Map() });
    this.told = element("p", { class: "told", role: "status" });
    this.button = element("button", { class: "primary" }, "Compare");
  }

  box(run) {
    const box = element("input", { type: "checkbox", "aria-label": `Compare ${run.name}` });
    box.addEventListener("change", () => this.update());
    this.boxes.set(run, box);
    return box;
  }

  form(table) {
    const form = element("form", { class: "choice" }, table, element("div", { class: "choose" }, this.button, this.told));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.chosen().length >= 2) this.compare(this.chosen().map((run) => run.name));
    });
    this.update();
    return form;
  }

  chosen() {
    return this.runs.filter((run) => this.boxes.get(run)?.checked);
  }

  update() {
    const chosen = this.chosen();
    for (const [run, box] of this.boxes) {
      const other = chosen.length > 0 && run.suite_hash !== chosen[0].suite_hash;
      box.disabled = !box.checked && (other || chosen.length >= MOST);
    }
    // It stays where the keyboard can find it, and says itself why nothing happens.
    this.button.setAttribute("aria-disabled", String(chosen.length < 2));
    this.told.textContent = told(chosen);
  }
}

function told(chosen) {
  if (chosen.length === 0) return "Choose at least two runs of one suite.";
  if (chosen.length === 1) return `One run of ${chosen[0].suite}. Choose another of the same problems.`;
  return `${plural(chosen.length, "run")} of ${chosen[0].suite}.`;
}

// A row for each problem and a column for each run; and a box that leaves only the rows that tell them apart.
export function problemTable({ runs, problems }, address, wide) {
  const column = (run) => element("th", { scope: "col" }, run.name);
  const head = element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Problem"), ...runs.map(column)));
  const made = ({ id, problem, runs: outcomes }) => {
    const name = element("th", { scope: "row" }, element("span", { class: "asked" }, problem ?? id));
    const row = element("tr", {}, name, ...outcomes.map((outcome, i) => cell(outcome, runs[i].name, address(runs[i].name, id))));
    return { row, apart: solvedByOnlySome(outcomes) };
  };
  const rows = problems.map(made);
  const apart = rows.filter((made) => made.apart).length;
  const only = element("input", { type: "checkbox" });
  only.addEventListener("change", () => rows.forEach((made) => (made.row.hidden = only.checked && !made.apart)));
  const table = element("table", { class: "outcomes" }, head, element("tbody", {}, ...rows.map((made) => made.row)));
  const label = element("label", { class: "only" }, only, `Only the ${plural(apart, "problem")} that one run solves and another does not`);
  return [apart > 0 ? label : null, wide("Problems", table)].filter((part) => part !== null);
}

function solvedByOnlySome(outcomes) {
  const solved = outcomes.filter((outcome) => outcome !== null).map((outcome) => outcome.right > 0);
  return solved.includes(true) && solved.includes(false);
}

function cell(outcome, run, to) {
  const attributes = { "data-label": run };
  if (outcome === null) return element("td", { ...attributes, class: "quiet" }, "not reached");
  const { right, sequences, tokens } = outcome;
  const score = element("a", { href: to, class: "score" }, mark(right > 0), `${count(right)} of ${count(sequences)}`);
  return element("td", attributes, score, element("small", {}, plural(tokens, "token")));
}
