// The tree as far as it is known, and how much of it is shown.
//
// Numbers live in typed arrays that grow by doubling, because a tree may have a quarter of a million tokens and all of them
// are looked at whenever the picture is drawn. What a branch shows may lag behind what it has: a small model decodes a whole
// tree in less time than it takes to look up, and nobody would see it grow. `advance` lets every branch catch up at one pace,
// each from where its parent has let it go, so that a replay and a live tree look alike.

const TOKENS_PER_SECOND = 30;
const LONGEST_SECONDS = 5;

class Branch {
  constructor(id, parent, at, fork) {
    Object.assign(this, { id, parent, at, fork, children: [], finish: null, ownText: "", hasText: true });
    this.length = 0;
    this.shown = 0;
    this.text = [];
    // The same as it is drawn, once it has been.
    this.drawn = [];
    this.entropy = new Float32Array(64);
    this.p = new Float32Array(64);
    this.shade = new Uint8Array(64);
    this.forced = new Set();
    this.row = 0;
    this.y = NaN;
  }

  get end() {
    return this.at + this.length;
  }

  // Where its line ends in the picture.
  get front() {
    return this.at + Math.floor(this.shown);
  }

  get caughtUp() {
    return this.shown >= this.length;
  }

  reserve(length) {
    if (length <= this.entropy.length) return;
    const size = Math.max(length, this.entropy.length * 2);
    for (const [name, type] of [["entropy", Float32Array], ["p", Float32Array], ["shade", Uint8Array]]) {
      const larger = new type(size);
      larger.set(this[name]);
      this[name] = larger;
    }
  }
}

export class Tree {
  constructor(told = {}) {
    this.told = told;
    this.branches = [];
    this.byId = new Map();
    this.votes = [];
    this.end = null;
    // Entropy that has the full colour: well above where forks happen, so that forks stand out but are not the limit.
    this.hottest = Math.max(1, 1.5 * (told.theta ?? 0));
    this.characters = 0;
    this.tokens = 0;
  }

  hear(name, data) {
    switch (name) {
      case "root":
        this.add(data.branch, null, 0, null);
        break;
      case "fork":
        this.add(data.branch, data.parent, data.at, data);
        break;
      case "tokens":
        this.append(this.byId.get(data.branch), data);
        break;
      case "finish":
        this.byId.get(data.branch).finish = data;
        break;
      case "votes":
        this.votes = data.votes;
        break;
      case "end":
        this.end = data;
        break;
    }
  }

  // A tree from the file of a run.
  static finished(data) {
    const tree = new Tree(data);
    const forks = new Map(data.forks.map((fork) => [fork.branch, fork]));
    for (const told of data.branches) {
      const branch = tree.add(told.branch, told.parent, told.at, forks.get(told.branch) ?? null);
      branch.hasText = told.text !== null;
      branch.ownText = told.own_text;
      tree.append(branch, { ...told, text: told.text ?? told.entropy.map(() => "") });
      branch.finish = told;
      branch.shown = branch.length;
    }
    tree.votes = data.votes;
    tree.end = data.end;
    return tree;
  }

  add(id, parent, at, fork) {
    const from = parent === null ? null : this.byId.get(parent);
    const branch = new Branch(id, from, at, fork);
    from?.children.push(branch);
    this.branches.push(branch);
    this.byId.set(id, branch);
    this.arrange();
    return branch;
  }

  append(branch, { text, entropy, p, forced }) {
    const begin = branch.length;
    branch.reserve(begin + entropy.length);
    branch.entropy.set(entropy, begin);
    branch.p.set(p, begin);
    for (let i = 0; i < entropy.length; i++) {
      branch.text.push(text[i]);
      this.characters += text[i].length;
      branch.shade[begin + i] = this.shadeOf(entropy[i]);
    }
    forced.forEach((at) => branch.forced.add(at));
    branch.length += entropy.length;
    this.tokens += entropy.length;
  }

  // Characters of a token, on average.
  get meanLength() {
    return this.characters / Math.max(1, this.tokens);
  }

  // The power lifts small entropies, of which there are many, off the ground.
  shadeOf(entropy) {
    return Math.round(255 * Math.min(1, Math.max(0, entropy) / this.hottest) ** 0.65);
  }

  // Gives every branch a row. Children lie on both sides of their parent by turns, and on each side the later a child left,
  // the nearer it lies: so no line down to a branch ever crosses another branch.
  arrange() {
    let row = 0;
    const place = (branch) => {
      const byTime = branch.children.toSorted((a, b) => a.at - b.at || a.id - b.id);
      const above = byTime.filter((_, i) => i % 2 === 1);
      const below = byTime.filter((_, i) => i % 2 === 0);
      above.forEach(place);
      branch.row = row++;
      below.reverse().forEach(place);
    };
    this.branches.filter((branch) => branch.parent === null).forEach(place);
    this.rows = this.branches.toSorted((a, b) => a.row - b.row);
  }

  // Shows more of what there is. Returns whether anything is still hidden.
  advance(seconds) {
    const longest = this.branches.reduce((most, branch) => Math.max(most, branch.end), 0);
    const step = seconds * Math.max(TOKENS_PER_SECOND, longest / LONGEST_SECONDS);
    let hidden = false;
    // A parent comes before its children, so in one round both can move.
    for (const branch of this.branches) {
      if (branch.caughtUp) continue;
      if (this.visible(branch)) branch.shown = Math.min(branch.length, branch.shown + step);
      hidden ||= !branch.caughtUp;
    }
    return hidden;
  }

  // A branch is there once its parent has come to the fork.
  visible(branch) {
    return branch.parent === null || branch.shown > 0 || (branch.parent.front > branch.at && this.visible(branch.parent));
  }

  showAll() {
    this.branches.forEach((branch) => (branch.shown = branch.length));
  }

  hideAll() {
    this.branches.forEach((branch) => (branch.shown = 0));
  }

  // What has been decoded of what is shown, what it would have cost without sharing, and what as many whole attempts as the cap
  // allows would have.
  cost() {
    const cost = { decoded: 0, parallel: 0, branches: 0, forks: 0 };
    for (const branch of this.branches) {
      if (!this.visible(branch)) continue;
      cost.decoded += Math.floor(branch.shown);
      cost.parallel += branch.front;
      cost.branches += 1;
      cost.forks += branch.parent ? 1 : 0;
    }
    cost.samples = (cost.parallel / Math.max(1, cost.branches)) * (this.told.cap ?? cost.branches);
    return cost;
  }

  ended(branch) {
    return branch.finish !== null && branch.caughtUp;
  }

  // The votes of the branches whose end is shown, most first.
  counted() {
    const count = ({ branches, ...vote }) => {
      const ended = branches.filter((id) => this.ended(this.byId.get(id)));
      const right = ended.some((id) => this.byId.get(id).finish.correct === true);
      const known = ended.some((id) => typeof this.byId.get(id).finish.correct === "boolean");
      return { ...vote, count: ended.length, branches: ended, correct: known ? right : null };
    };
    const votes = this.votes.map(count).filter((vote) => vote.count > 0);
    // The order of the whole is the server's, which may weigh votes; of a part only their number is known.
    const whole = this.end && this.branches.every((branch) => branch.caughtUp);
    const ordered = whole ? votes : votes.sort((a, b) => b.count - a.count);
    const leads = ordered.filter((vote) => (whole ? vote.tied : vote.count === ordered[0].count));
    return ordered.map((vote) => ({ ...vote, tied: leads.length > 1 && leads.includes(vote) }));
  }

  // From the root to a branch, with where each part ends.
  path(branch) {
    const parts = [];
    for (let [at, end] = [branch, Infinity]; at; [at, end] = [at.parent, at.at]) {
      parts.unshift({ branch: at, from: at.at, to: Math.min(end, at.front) });
    }
    return parts;
  }

  // The branch that decoded a position of a path.
  owner(branch, at) {
    while (branch.parent && at < branch.at) branch = branch.parent;
    return branch;
  }
}
