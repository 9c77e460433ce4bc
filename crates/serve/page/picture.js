// The tree as a picture: a canvas that shows the visible part of a larger, natively scrolled extent.
//
// Every branch is a strip, one token after the other, coloured by entropy. The strips of a frame are computed pixel by pixel
// into one small image, a line for each branch, and each line is then stretched to the height of its strip. That costs one
// look at each visible token and one call for each branch, however far out the view is. Words appear when there is room.

import { Spots } from "./spots.js";

const GUTTER = 30;
const PADDING = 18;
const CLOSEST = 72;
// Pixels of a token from which single characters can be read.
const READABLE = 5.7;
const CHARACTER = 0.602;
const MOST_WORDS = 5000;

// Tokens that are only white space, or a mark of the model's, should be seen for what they are.
export function visibleText(text) {
  return text.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replace(/^ | $/g, "·").replace(/^ +$/, "·");
}

export class Picture {
  constructor(elements, { onSpot, onTick }) {
    Object.assign(this, elements, { onTick });
    this.context = this.canvas.getContext("2d");
    this.strips = document.createElement("canvas");
    this.stripContext = this.strips.getContext("2d", { willReadFrequently: true });
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.scale = 10;
    this.chosen = null;
    this.tree = null;
    this.readColours();
    this.spots = new Spots(this, onSpot);
    new ResizeObserver(() => this.wake()).observe(this.scroller);
    this.scroller.addEventListener("scroll", () => this.wake(), { passive: true });
    this.dark.addEventListener("change", () => {
      this.readColours();
      this.wake();
    });
  }

  show(tree) {
    this.tree = tree;
    this.chosen = null;
    this.scale = 0;
    this.spots.clear();
    this.scroller.scrollTo(0, 0);
    this.wake();
  }

  readColours() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    this.colours = Object.fromEntries(["surface", "ink", "muted", "line", "accent", "on-hot", "right", "wrong"].map((n) => [n, colour(`--${n}`)]));
    const stops = ["--cold", "--warm", "--hot"].map((name) => rgb(colour(name)));
    const surface = rgb(colour("--surface"));
    this.ramp = new Uint32Array(256);
    this.dimmed = new Uint32Array(256);
    for (let shade = 0; shade < 256; shade++) {
      const t = shade / 255;
      const full = t < 0.5 ? mix(stops[0], stops[1], t * 2) : mix(stops[1], stops[2], t * 2 - 1);
      this.ramp[shade] = packed(full);
      this.dimmed[shade] = packed(mix(full, surface, 0.62));
    }
  }

  // Draws as long as something moves, and not otherwise.
  wake() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame((now) => this.frame(now));
  }

  frame(now) {
    this.pending = false;
    if (!this.tree || this.scroller.clientWidth === 0) {
      this.last = undefined;
      return;
    }
    const seconds = Math.min(0.1, (now - (this.last ?? now)) / 1000);
    let moving;
    if (this.still.matches) {
      this.tree.showAll();
      moving = false;
    } else {
      moving = this.tree.advance(seconds);
    }
    moving = this.measure(seconds) || moving;
    this.draw();
    this.onTick(moving);
    this.last = moving ? now : undefined;
    if (moving) this.wake();
  }

  // Scale, rows and the size of the whole. Returns whether they are still on their way.
  measure(seconds) {
    const { tree, scroller } = this;
    const width = scroller.clientWidth;
    this.labels = this.labelWidth(width);
    const ease = this.still.matches || seconds === 0 ? 1 : 1 - Math.exp(-seconds * 9);
    const live = tree.branches.filter((branch) => tree.visible(branch));
    this.longest = live.reduce((most, branch) => Math.max(most, branch.front), 0);
    this.fit = Math.min(16, (width - GUTTER - this.labels) / Math.max(this.longest, 16));
    const scale = Math.max(this.fit, this.chosen ?? 0);
    let moving = false;
    const toward = (from, to) => {
      const next = Number.isFinite(from) && Math.abs(to - from) > 0.002 * to ? from + (to - from) * ease : to;
      moving ||= next !== to;
      return next;
    };
    this.scale = this.chosen ? scale : toward(this.scale || scale, scale);
    const count = Math.max(1, tree.branches.length);
    // Words appear when a good part of them has room; below that there would only be dots.
    this.wordy = this.scale >= Math.max(READABLE, 4.5 * tree.meanLength);
    const roomy = this.wordy ? 22 : 9;
    this.lane = Math.max(roomy, Math.min(30, 560 / count));
    for (const branch of tree.branches) {
      const from = Number.isFinite(branch.y) ? branch.y : (branch.parent?.y ?? NaN);
      branch.y = toward(from, PADDING + (branch.row + 0.5) * this.lane);
    }
    const wide = GUTTER + this.longest * this.scale + this.labels;
    const high = 2 * PADDING + count * this.lane;
    this.extent.style.width = this.scale > this.fit * 1.001 ? `${Math.ceil(wide)}px` : "100%";
    this.extent.style.height = `${high}px`;
    scroller.style.height = `${Math.min(high, Math.max(280, innerHeight * 0.68))}px`;
    return moving;
  }

  // Room for what stands at the ends of the lines.
  labelWidth(width) {
    const longest = this.tree.branches.reduce((most, branch) => Math.max(most, endLabel(branch).length), 8);
    return Math.min(width * 0.34, 16 + 7.2 * longest);
  }

  x(at) {
    return GUTTER + at * this.scale - this.scroller.scrollLeft;
  }

  // The inverse of `x`: a position with a fraction.
  position(x) {
    return (x + this.scroller.scrollLeft - GUTTER) / this.scale;
  }

  y(branch) {
    return branch.y - this.scroller.scrollTop;
  }

  draw() {
    const { canvas, context, scroller } = this;
    const density = Math.min(2, devicePixelRatio || 1);
    const [width, height] = [scroller.clientWidth, scroller.clientHeight];
    if (canvas.width !== Math.round(width * density) || canvas.height !== Math.round(height * density)) {
      canvas.width = Math.round(width * density);
      canvas.height = Math.round(height * density);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    context.setTransform(density, 0, 0, density, 0, 0);
    context.clearRect(0, 0, width, height);
    const near = (branch) => {
      const y = this.y(branch);
      return y > -this.lane && y < height + this.lane && this.tree.visible(branch);
    };
    const visible = this.tree.rows.filter(near);
    const path = this.spots.current ? this.tree.path(this.spots.current.branch) : null;
    this.drawElbows(width, height, path);
    this.drawStrips(visible, width, density, path);
    this.drawWords(visible, width);
    this.drawForks(width, height);
    visible.forEach((branch) => this.drawEnd(branch, path));
    this.drawSpot();
  }

  // Lines from the prompt to the roots and from forks to their branches.
  drawElbows(width, height, path) {
    const { context, tree, colours } = this;
    const on = new Set(path?.map((part) => part.branch));
    const roots = tree.branches.filter((branch) => branch.parent === null);
    const middle = roots.reduce((sum, root) => sum + this.y(root), 0) / Math.max(1, roots.length);
    context.lineWidth = 1.5;
    for (const branch of tree.branches) {
      if (!tree.visible(branch)) continue;
      const [x, y] = [this.x(branch.at), this.y(branch)];
      const from = branch.parent ? this.y(branch.parent) : middle;
      if (x < -8 || x > width + 8 || Math.max(y, from) < -8 || Math.min(y, from) > height + 8) continue;
      const lit = !path || on.has(branch);
      context.strokeStyle = path && lit ? colours.accent : colours.muted;
      context.globalAlpha = lit ? 1 : 0.35;
      context.beginPath();
      if (branch.parent) {
        const bend = Math.min(7, Math.abs(y - from) / 2) * Math.sign(y - from);
        context.moveTo(x, from);
        context.lineTo(x, y - bend);
        context.quadraticCurveTo(x, y, x + Math.min(Math.abs(bend), 4), y);
      } else {
        const begin = x - GUTTER + 12;
        context.moveTo(begin, from);
        context.bezierCurveTo(begin + 10, from, begin + 2, y, x, y);
      }
      context.stroke();
    }
    context.globalAlpha = 1;
    if (roots.length) {
      context.fillStyle = colours.ink;
      context.beginPath();
      context.arc(this.x(0) - GUTTER + 12, middle, 4, 0, 7);
      context.fill();
    }
  }

  drawStrips(visible, width, density, path) {
    if (visible.length === 0) return;
    const { strips, context } = this;
    const columns = Math.ceil(width * density);
    if (strips.width < columns || strips.height < visible.length) {
      strips.width = Math.max(strips.width, columns);
      strips.height = Math.max(strips.height, visible.length, 16);
      this.painted = null;
    }
    this.paintStrips(visible, columns, density, path);
    context.imageSmoothingEnabled = false;
    const thick = this.thickness();
    visible.forEach((branch, line) => {
      context.drawImage(strips, 0, line, columns, 1, 0, this.y(branch) - thick / 2, columns / density, thick);
    });
  }

  // Brings the small image up to date, unless it still is: pointing along one branch changes nothing in it.
  paintStrips(visible, columns, density, path) {
    const { stripContext } = this;
    const fronts = visible.map((branch) => `${branch.id}:${branch.front}`);
    const state = [this.scale, this.position(0), columns, density, path?.at(-1).branch.id, this.dark.matches, ...fronts].join(" ");
    if (state === this.painted && this.paintedTree === this.tree) return;
    Object.assign(this, { painted: state, paintedTree: this.tree });
    const image = stripContext.createImageData(columns, visible.length);
    const pixels = new Uint32Array(image.data.buffer);
    // The first token of each column of pixels, and of the one after the last.
    const starts = new Int32Array(columns + 1);
    const perPixel = 1 / (this.scale * density);
    const offset = this.position(0);
    for (let column = 0; column <= columns; column++) starts[column] = Math.floor(offset + column * perPixel);
    const ends = new Map(path?.map((part) => [part.branch, part.to]));
    visible.forEach((branch, line) => {
      const lit = path ? (ends.get(branch) ?? 0) : Infinity;
      fill(pixels.subarray(line * columns, (line + 1) * columns), starts, branch, lit, this.ramp, this.dimmed);
    });
    stripContext.putImageData(image, 0, 0);
  }

  thickness() {
    return this.wordy ? this.lane * 0.74 : Math.max(4, this.lane * 0.5);
  }

  drawWords(visible, width) {
    const { context, scale, colours } = this;
    const first = Math.max(0, Math.floor(this.position(0)));
    const last = Math.ceil(this.position(width));
    if (!this.wordy || (last - first) * visible.length > MOST_WORDS) return;
    const size = Math.min(12.5, scale / CHARACTER);
    const most = Math.max(1, Math.floor((scale + 1) / (Math.max(9.5, size) * CHARACTER)));
    context.font = `${Math.max(9.5, size)}px ${MONO}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (const branch of visible) {
      const y = this.y(branch) + 0.5;
      const to = Math.min(last, branch.front);
      for (let at = Math.max(first, branch.at); at < to; at++) {
        const text = (branch.drawn[at - branch.at] ??= visibleText(branch.text[at - branch.at]));
        if (text === "") continue;
        context.fillStyle = branch.shade[at - branch.at] > 150 ? colours["on-hot"] : colours.ink;
        context.fillText(text.length > most ? `${text.slice(0, most - 1)}…` : text, this.x(at + 0.5), y);
      }
    }
  }

  drawForks(width, height) {
    const { context, tree, colours, lane } = this;
    const radius = Math.min(4.5, Math.max(2.5, lane * 0.2));
    // Where there are words the mark lies on the edge of the strip, so as not to hide them.
    const aside = this.wordy ? this.thickness() / 2 : 0;
    context.lineWidth = 1.75;
    context.strokeStyle = colours.accent;
    context.fillStyle = colours.surface;
    for (const branch of tree.branches) {
      if (!branch.parent || !tree.visible(branch)) continue;
      const toward = Math.sign(this.y(branch) - this.y(branch.parent));
      const [x, y] = [this.x(branch.at), this.y(branch.parent) + aside * toward];
      if (x < -9 || x > width + 9 || y < -9 || y > height + 9) continue;
      context.beginPath();
      context.arc(x, y, radius, 0, 7);
      context.fill();
      context.stroke();
    }
  }

  // Where a line ends: its answer, or a dot while it grows.
  drawEnd(branch, path) {
    const { context, tree, colours } = this;
    const [x, y] = [this.x(branch.front), this.y(branch)];
    const on = !path || path.at(-1).branch === branch;
    if (!tree.ended(branch)) {
      if (tree.stopped) return;
      context.fillStyle = colours.accent;
      context.beginPath();
      context.arc(x + 2, y, Math.min(3.5, this.lane * 0.28), 0, 7);
      context.fill();
      return;
    }
    const leaders = tree.votes.filter((vote, at) => at === 0 || vote.tied);
    const leads = branch.finish.answer !== null && leaders.some((vote) => vote.branches.includes(branch.id));
    const size = Math.min(12.5, Math.max(9, this.lane * 0.62));
    context.font = `${leads ? 600 : 400} ${size}px ${SANS}`;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.globalAlpha = on ? 1 : 0.45;
    const { correct } = branch.finish;
    context.fillStyle = correct === true ? colours.right : correct === false ? colours.wrong : leads ? colours.ink : colours.muted;
    context.fillText(endLabel(branch), x + 7, y + 0.5, this.labels - 10);
    context.globalAlpha = 1;
  }

  drawSpot() {
    const spot = this.spots.current;
    if (!spot) return;
    const { context, colours } = this;
    const owner = this.tree.owner(spot.branch, spot.at);
    const wide = Math.max(3, this.scale);
    const thick = this.thickness() + 5;
    context.strokeStyle = colours.ink;
    context.lineWidth = 1.75;
    context.beginPath();
    context.roundRect(this.x(spot.at + 0.5) - wide / 2 - 1, this.y(owner) - thick / 2, wide + 2, thick, 3);
    context.stroke();
  }

  // Changes the scale, keeping the token under a place of the visible part where it is. Rows grow when words appear.
  zoom(factor, x = this.scroller.clientWidth / 2, y = this.scroller.clientHeight / 2) {
    if (!this.tree) return;
    const at = this.position(x);
    const row = (y + this.scroller.scrollTop - PADDING) / this.lane;
    const wanted = Math.min(Math.max(CLOSEST, this.fit), this.scale * factor);
    this.chosen = wanted <= this.fit ? null : wanted;
    this.measure(0);
    this.scroller.scrollLeft = GUTTER + at * this.scale - x;
    this.scroller.scrollTop = PADDING + row * this.lane - y;
    this.wake();
  }

  zoomFit() {
    this.chosen = null;
    this.wake();
  }

  // Scrolls so that a token can be seen.
  reveal({ branch, at }) {
    const { scroller } = this;
    const [x, y] = [this.x(at), this.y(this.tree.owner(branch, at))];
    const margin = Math.min(80, scroller.clientWidth / 4);
    if (x < margin) scroller.scrollLeft += x - margin;
    if (x > scroller.clientWidth - margin) scroller.scrollLeft += x - scroller.clientWidth + margin;
    if (y < this.lane) scroller.scrollTop += y - this.lane;
    if (y > scroller.clientHeight - this.lane) scroller.scrollTop += y - scroller.clientHeight + this.lane;
    this.wake();
  }
}

const MONO = 'ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';
const SANS = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

// How branches end that do not stop by themselves.
export const ENDS = { length: "ran out of tokens", halted: "given up", cut: "cut short" };

function endLabel({ finish: end }) {
  if (!end) return "";
  const mark = end.correct === true ? "✓ " : end.correct === false ? "✗ " : "";
  // Whoever was given up has no vote, whatever it said until then.
  const answer = end.finish === "halted" ? null : end.answer;
  const text = mark + (answer ?? (end.finish === "stop" ? "no answer" : (ENDS[end.finish] ?? end.finish)));
  return text.length > 22 ? `${text.slice(0, 21)}…` : text;
}

// One line of pixels: in each column the highest shade of its tokens. From `lit` on it is dimmed.
function fill(line, starts, branch, lit, ramp, dimmed) {
  const { at, front, shade } = branch;
  for (let column = 0; column < line.length; column++) {
    const from = Math.max(starts[column], at);
    if (from >= front) {
      if (starts[column] >= front) break;
      continue;
    }
    const to = Math.min(Math.max(starts[column + 1], starts[column] + 1), front);
    if (to <= at) continue;
    let most = 0;
    for (let token = from - at; token < to - at; token++) if (shade[token] > most) most = shade[token];
    line[column] = from < lit ? ramp[most] : dimmed[most];
  }
}

function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function mix(a, b, t) {
  return a.map((value, i) => value + (b[i] - value) * t);
}

// A pixel as it lies in memory on the machines that browsers run on, lowest byte first.
function packed([r, g, b]) {
  return ((255 << 24) | (Math.round(b) << 16) | (Math.round(g) << 8) | Math.round(r)) >>> 0;
}
