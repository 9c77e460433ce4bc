// The tree as a list, for those who do not see the picture and those who would rather read. It follows the pattern of a
// tree widget: one stop for the tab key, arrows inside. What a branch is doing changes often while it grows; only forks and ends
// are told, so that nobody is talked over.

import { element, percent, plural } from "./elements.js";
import { visibleText } from "./picture.js";
import { endOf } from "./panels.js";

// Deeper branches are not indented any further.
const DEEPEST = 10;

export class Outline {
  constructor(list, onChoose) {
    Object.assign(this, { list, onChoose, items: new Map(), folded: new Set(), tree: null, drawn: "", marked: null });
    list.addEventListener("keydown", (event) => this.key(event));
    list.addEventListener("click", (event) => {
      const item = event.target.closest("[role=treeitem]");
      if (item) this.choose(item);
    });
  }

  show(tree) {
    Object.assign(this, { tree, drawn: "", marked: null });
    this.folded.clear();
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
    this.place(visible.filter((branch) => branch.parent === null), 1);
    list.replaceChildren(...this.items.values());
    this.fold();
    const first = this.items.get(Number(focused ?? tabbed)) ?? list.firstElementChild;
    first?.setAttribute("tabindex", "0");
    if (focused !== null) first?.focus({ preventScroll: true });
  }

  // Makes the items of branches and of all that grew from them, in reading order. The list is flat and the levels are told by
  // attributes: an item that held its children would have all of them in its name.
  place(branches, level) {
    branches.forEach((branch, index) => {
      const children = branch.children.filter((child) => this.tree.visible(child)).toSorted((a, b) => a.at - b.at);
      const folded = this.folded.has(branch.id);
      const item = element(
        "li",
        {
          role: "treeitem",
          tabindex: "-1",
          "data-branch": branch.id,
          "aria-level": level,
          "aria-posinset": index + 1,
          "aria-setsize": branches.length,
          "aria-selected": String(branch.id === this.marked),
          "aria-expanded": children.length ? String(!folded) : null,
        },
        ...words(this.tree, branch),
      );
      item.style.setProperty("--level", Math.min(level - 1, DEEPEST));
      this.items.set(branch.id, item);
      this.place(children, level + 1);
    });
  }

  // Hides what lies below folded items.
  fold() {
    for (const [id, item] of this.items) {
      let above = this.tree.byId.get(id).parent;
      while (above && !this.folded.has(above.id)) above = above.parent;
      item.hidden = above !== null;
    }
  }

  expand(item, open) {
    const id = Number(item.dataset.branch);
    if (open) this.folded.delete(id);
    else this.folded.add(id);
    item.setAttribute("aria-expanded", String(open));
    this.fold();
  }

  // Marks a branch that was chosen elsewhere.
  mark(branch) {
    this.items.get(this.marked)?.setAttribute("aria-selected", "false");
    this.marked = branch?.id ?? null;
    this.items.get(this.marked)?.setAttribute("aria-selected", "true");
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
    const shown = [...this.items.values()].filter((one) => !one.hidden);
    const here = shown.indexOf(item);
    const expanded = item.getAttribute("aria-expanded");
    const { parent } = this.tree.byId.get(Number(item.dataset.branch));
    const moves = {
      ArrowDown: () => this.moveTo(shown[here + 1]),
      ArrowUp: () => this.moveTo(shown[here - 1]),
      Home: () => this.moveTo(shown[0]),
      End: () => this.moveTo(shown.at(-1)),
      ArrowRight: () => (expanded === "false" ? this.expand(item, true) : expanded && this.moveTo(shown[here + 1])),
      ArrowLeft: () => (expanded === "true" ? this.expand(item, false) : this.moveTo(this.items.get(parent?.id))),
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
  if (tree.ended(branch)) parts.push(`; ${plural(branch.length, "token")} of its own; `, endOf(branch));
  else parts.push(tree.stopped ? "; stopped" : "; still growing");
  return parts;
}
