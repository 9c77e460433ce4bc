// The viewer: one tree with everything around it, growing or grown.

import { byId, element } from "./elements.js";
import { Outline } from "./outline.js";
import { showCost, showSpot, showVotes, tipFor } from "./panels.js";
import { Picture } from "./picture.js";

// Panels are brought up to date this often while the tree grows, in milliseconds.
const PANELS_EVERY = 120;

export class Viewer {
  constructor() {
    const elements = { scroller: byId("scroller"), extent: byId("extent"), canvas: byId("canvas") };
    this.tree = null;
    this.refreshed = 0;
    this.onSettled = null;
    this.picture = new Picture(elements, { onSpot: (spot, kept) => this.spot(spot, kept), onTick: (moving) => this.tick(moving) });
    this.outline = new Outline(byId("outline"), (branch) => {
      this.picture.spots.keep({ branch, at: branch.at }, true);
    });
    byId("zoom-in").addEventListener("click", () => this.picture.zoom(1.6));
    byId("zoom-out").addEventListener("click", () => this.picture.zoom(1 / 1.6));
    byId("zoom-fit").addEventListener("click", () => this.picture.zoomFit());
    byId("replay").addEventListener("click", () => this.replay());
  }

  // Shows a tree. `settled` is called once, when it has ended and all of it is shown.
  show(tree, settled = null) {
    Object.assign(this, { tree, onSettled: settled });
    byId("viewer").hidden = tree === null;
    byId("replay").hidden = true;
    byId("votes").dataset.state = "";
    warn(tree?.told?.notice);
    this.picture.show(tree);
    this.outline.show(tree);
    if (tree) this.refresh();
  }

  // There is something new in the tree.
  wake() {
    this.picture.wake();
  }

  replay() {
    this.tree.hideAll();
    this.picture.spots.clear();
    byId("replay").hidden = true;
    this.wake();
  }

  tick(moving) {
    const now = performance.now();
    if (moving && now - this.refreshed < PANELS_EVERY) return;
    this.refreshed = now;
    this.refresh();
    const done = this.tree.end !== null || this.tree.stopped;
    if (moving || !done) return;
    byId("replay").hidden = this.picture.still.matches || this.tree.branches.length === 0;
    this.onSettled?.();
    this.onSettled = null;
  }

  refresh() {
    showCost(this.tree);
    showVotes(this.tree);
    this.outline.update();
  }

  spot(spot, kept) {
    const tip = byId("tip");
    if (kept) {
      showSpot(this.tree, spot);
      this.outline?.mark(spot?.branch ?? null);
    }
    const forTip = spot && (!kept || document.activeElement === byId("scroller")) ? spot : null;
    tip.hidden = forTip === null;
    if (!forTip) return;
    tip.replaceChildren(...tipFor(this.tree, forTip));
    this.placeTip(tip, forTip);
  }

  placeTip(tip, { branch, at }) {
    const { picture } = this;
    const [x, y] = [picture.x(at), picture.y(this.tree.owner(branch, at))];
    const room = picture.scroller;
    const left = Math.max(4, Math.min(x - tip.offsetWidth / 2, room.clientWidth - tip.offsetWidth - 4));
    const below = y + picture.lane / 2 + 10;
    const above = y - picture.lane / 2 - 10 - tip.offsetHeight;
    tip.style.setProperty("left", `${left}px`);
    tip.style.setProperty("top", `${above < -60 ? below : above}px`);
  }
}

// A word of warning about the tree that is shown.
export function warn(text) {
  byId("notice").hidden = !text;
  byId("notice").textContent = text ?? "";
}

export function say(text) {
  byId("status").textContent = text;
}

export function complain(error) {
  const place = byId("problem");
  place.hidden = error === null;
  place.replaceChildren(error === null ? "" : element("span", {}, error.message));
}
