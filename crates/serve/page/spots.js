// Which token of the picture is meant: by pointing, by touch, by keys.
//
// A spot is a branch and a position on its path. The position may lie before the branch began; the token is then its parent's.
// Pointing shows a spot while it lasts; a click, a touch or a key keeps it.

// How near to a fork counts as pointing at it, in pixels.
const REACH = 7;

export class Spots {
  constructor(picture, onSpot) {
    Object.assign(this, { picture, onSpot, kept: null, hovered: null });
    const { scroller } = picture;
    this.pointers = new Map();
    scroller.addEventListener("pointermove", (event) => this.move(event));
    scroller.addEventListener("pointerleave", (event) => this.leave(event));
    scroller.addEventListener("pointerdown", (event) => this.press(event));
    for (const name of ["pointerup", "pointercancel"]) {
      scroller.addEventListener(name, (event) => this.pointers.delete(event.pointerId));
    }
    scroller.addEventListener("click", (event) => this.keep(this.find(event, 4)));
    scroller.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    scroller.addEventListener("keydown", (event) => this.key(event));
  }

  get current() {
    return this.hovered ?? this.kept;
  }

  clear() {
    this.kept = this.hovered = null;
    this.tell();
  }

  // Keeps a spot, or with `null` none.
  keep(spot, reveal = false) {
    this.kept = spot;
    this.hovered = null;
    if (spot && reveal) this.picture.reveal(spot);
    this.tell();
  }

  tell() {
    this.onSpot(this.current, this.hovered === null);
    this.picture.wake();
  }

  move(event) {
    if (event.pointerType === "touch") {
      this.pinch(event);
      return;
    }
    const found = this.find(event);
    if (found?.branch === this.hovered?.branch && found?.at === this.hovered?.at) return;
    this.hovered = found;
    this.tell();
  }

  leave(event) {
    this.pointers.delete(event.pointerId);
    if (!this.hovered) return;
    this.hovered = null;
    this.tell();
  }

  press(event) {
    if (event.pointerType === "touch") this.pointers.set(event.pointerId, event.clientX);
  }

  // Two fingers zoom. One scrolls, which the browser does.
  pinch(event) {
    if (!this.pointers.has(event.pointerId)) return;
    const spread = () => {
      const [a, b] = [...this.pointers.values()];
      return Math.abs(a - b);
    };
    const before = this.pointers.size === 2 ? spread() : 0;
    this.pointers.set(event.pointerId, event.clientX);
    if (before < 10) return;
    const [a, b] = [...this.pointers.values()];
    const left = this.picture.scroller.getBoundingClientRect().left;
    this.picture.zoom(spread() / before, (a + b) / 2 - left);
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const { left, top } = this.picture.scroller.getBoundingClientRect();
    this.picture.zoom(Math.exp(-event.deltaY / 150), event.clientX - left, event.clientY - top);
  }

  // The token at a place, or the fork next to it. `slack` makes rows that much taller for blunt pointers.
  find(event, slack = 0) {
    const { picture } = this;
    const { tree, scroller } = picture;
    if (!tree) return null;
    const box = scroller.getBoundingClientRect();
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    const fork = this.forkAt(x, y);
    if (fork) return { branch: fork, at: fork.at };
    const reach = picture.lane / 2 + slack;
    const near = (branch) => tree.visible(branch) && branch.shown >= 1 && Math.abs(picture.y(branch) - y) <= reach;
    const at = Math.floor(picture.position(x));
    const distance = (branch) => Math.abs(picture.y(branch) - y);
    const rows = tree.rows.filter(near).sort((a, b) => distance(a) - distance(b));
    const row = rows.find((branch) => at >= branch.at && x < picture.x(branch.front) + picture.labels);
    return row ? { branch: row, at: Math.min(at, row.front - 1) } : null;
  }

  forkAt(x, y) {
    const { picture } = this;
    const close = (branch) => {
      if (!branch.parent || branch.shown < 1) return false;
      const dx = Math.abs(picture.x(branch.at) - x);
      const dy = Math.abs(picture.y(branch.parent) - y);
      return dx <= REACH && dy <= Math.max(REACH, picture.lane / 2);
    };
    return picture.tree.branches.find(close) ?? null;
  }

  key(event) {
    const { picture } = this;
    const { tree } = picture;
    if (!tree?.rows?.length || event.altKey || event.ctrlKey || event.metaKey) return;
    const spot = this.kept ?? { branch: tree.rows.find((branch) => branch.parent === null), at: 0 };
    const stride = event.shiftKey ? 10 : 1;
    const along = (at) => ({ branch: spot.branch, at: Math.max(0, Math.min(at, spot.branch.front - 1)) });
    const moves = {
      ArrowLeft: () => along(spot.at - stride),
      ArrowRight: () => along(spot.at + (this.kept ? stride : 0)),
      Home: () => along(0),
      End: () => along(Infinity),
      ArrowUp: () => this.beside(spot, -1),
      ArrowDown: () => this.beside(spot, 1),
      f: () => this.nextFork(spot, 1),
      F: () => this.nextFork(spot, -1),
      Escape: () => null,
    };
    const place = [picture.x(spot.at), picture.y(tree.owner(spot.branch, spot.at))];
    if (event.key === "+" || event.key === "=") picture.zoom(1.5, ...place);
    else if (event.key === "-") picture.zoom(1 / 1.5, ...place);
    else if (event.key === "0") picture.zoomFit();
    else if (moves[event.key]) this.keep(moves[event.key](), true);
    else return;
    event.preventDefault();
  }

  beside(spot, step) {
    const rows = this.picture.tree.rows.filter((branch) => branch.shown >= 1);
    const next = rows[rows.indexOf(spot.branch) + step] ?? spot.branch;
    return { branch: next, at: Math.min(Math.max(spot.at, next.at), next.front - 1) };
  }

  // Along the path of a branch, the next or last token where it left its parent or another left it.
  nextFork(spot, step) {
    const { tree } = this.picture;
    const forks = tree.path(spot.branch).flatMap(({ branch, from, to }) => {
      const left = branch.children.map((child) => child.at).filter((at) => at < to);
      return branch.parent ? [from, ...left] : left;
    });
    const beyond = forks.filter((at) => (at - spot.at) * step > 0).sort((a, b) => (a - b) * step);
    return { branch: spot.branch, at: beyond[0] ?? spot.at };
  }
}

// The branch that a spot's fork made, or null where nothing forked.
export function forkOf(tree, { branch, at }) {
  if (branch.at === at && branch.parent) return branch;
  const owner = tree.owner(branch, at);
  return owner.children.find((child) => child.at === at && child.shown >= 1) ?? (owner.at === at && owner.parent ? owner : null);
}
