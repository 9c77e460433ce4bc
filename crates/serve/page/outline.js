// The tree as a nested list, for those who do not see the picture and those who would rather read. It follows the pattern of a
// tree widget: one stop for the tab key, arrows inside. What a branch is doing changes often while it grows; only forks and ends
// are told, so that nobody is talked over.

import { element, percent, plural } from "./elements.js";
import { visibleText } from "./picture.js";
import { endWords } from "./panels.js";

export class Outline {
  constructor(list, onChoose) {
    Object.assign(this, { list, onChoose, items: new Map(), tree: null, drawn: "" });
    list.addEventListener("keydown", (event) => this.key(event));
    list.addEventListener("click", (event) => {
      const item = event.target.closest("[role=treeitem]");
      if (item) this.choose(item);
    });
  }

  show(tree) {
    this.tree = tree;
    this.drawn = "";
    this.update();
  }

  // Draws again what has forked or ended since the last time. The item that has the focus keeps it.
  update() {
    const { tree, list } = this;
    if (!tree) return;
    const visible = tree.branches.filter((branch) => tree.visible(branch));
    const state = visible.map((branch) => `${branch.id}${tree.ended(branch) ? "." : ""}`).join(" ");
    if (state === this.drawn) return;
    this.drawn = state;
    const focused = list.contains(document.activeElement) ? document.activeElement.dataset.branch : null;
    const tabbed = list.querySelector('[tabindex="0"]')?.dataset.branch;
    this.items.clear();
    list.replaceChildren(...visible.filter((branch) => branch.parent === null).map((branch) => this.item(branch, 1)));
    const first = this.items.get(Number(focused ?? tabbed)) ?? list.firstElementChild;
    first?.setAttribute("tabindex", "0");
    if (focused !== null) first?.focus({ preventScroll: true });
  }

  item(branch, level) {
    const children = branch.children.filter((child) => this.tree.visible(child)).toSorted((a, b) => a.at - b.at);
    const attributes = { role: "treeitem", tabindex: "-1", "aria-level": level, "data-branch": branch.id, "aria-selected": "false" };
    if (children.length) attributes["aria-expanded"] = "true";
    const name = `branch-${branch.id}`;
    const item = element("li", { ...attributes, "aria-labelledby": name }, element("span", { id: name, class: "line" }, ...words(this.tree, branch)));
    if (children.length) item.append(element("ul", { role: "group" }, ...children.map((child) => this.item(child, level + 1))));
    this.items.set(branch.id, item);
    return item;
  }

  // Marks a branch that was chosen elsewhere.
  mark(branch) {
    this.list.querySelector('[aria-selected="true"]')?.setAttribute("aria-selected", "false");
    if (branch) this.items.get(branch.id)?.setAttribute("aria-selected", "true");
  }

  choose(item) {
    this.moveTo(item);
    this.onChoose(this.tree.byId.get(Number(item.dataset.branch)));
  }

  moveTo(item) {
    if (!item) return;
    this.list.querySelectorAll('[tabindex="0"]').forEach((other) => other.setAttribute("tabindex", "-1"));
    item.setAttribute("tabindex", "0");
    item.focus();
  }

  key(event) {
    const item = event.target.closest("[role=treeitem]");
    if (!item) return;
    const shown = [...this.list.querySelectorAll("[role=treeitem]")].filter((one) => one.offsetParent !== null);
    const here = shown.indexOf(item);
    const expanded = item.getAttribute("aria-expanded");
    const moves = {
      ArrowDown: () => this.moveTo(shown[here + 1]),
      ArrowUp: () => this.moveTo(shown[here - 1]),
      Home: () => this.moveTo(shown[0]),
      End: () => this.moveTo(shown.at(-1)),
      ArrowRight: () => (expanded === "false" ? item.setAttribute("aria-expanded", "true") : expanded && this.moveTo(shown[here + 1])),
      ArrowLeft: () => (expanded === "true" ? item.setAttribute("aria-expanded", "false") : this.moveTo(item.parentElement.closest("[role=treeitem]"))),
      Enter: () => this.choose(item),
      " ": () => this.choose(item),
    };
    if (!moves[event.key]) return;
    moves[event.key]();
    event.preventDefault();
  }
}

// A branch in a line: where it comes from, how long it is, what it ends in.
function words(tree, branch) {
  const parts = [element("b", {}, `Branch ${branch.id}`)];
  if (branch.fork) {
    const [first, second] = branch.fork.candidates;
    const way = ({ text, p }) => `${text === "" ? "another token" : `“${visibleText(text)}”`} (${percent(p)})`;
    parts.push(` forks from branch ${branch.parent.id} at token ${branch.at + 1}: ${way(second)} instead of ${way(first)}`);
  } else {
    parts.push(" begins at the question");
  }
  if (tree.ended(branch)) parts.push(`; ${plural(branch.length, "token")} of its own; `, element("span", { class: "end" }, endWords(branch)));
  else parts.push(tree.stopped ? "; stopped" : "; still growing");
  return parts;
}
