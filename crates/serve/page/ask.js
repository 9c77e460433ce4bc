// Asking: the form, and the tree that it grows.

import { Told, get, grow, useKey } from "./api.js";
import { byId, count, duration, element, percent, plural } from "./elements.js";
import { Tree } from "./tree.js";
import { complain, say } from "./viewer.js";

const METHODS = {
  "eager-init": "Begins with one branch and forks it wherever the model is unsure. An easy question stays one branch.",
  "eager-adapt": "The same, and then spends what is left of the branches where the attempts do not agree.",
  eager: "The same, and then spends what is left where no attempt is right. It needs the right answer, under More.",
  "full-parallel": "All branches start from the question and share nothing: what others do, for comparison.",
  esc: "Starts full branches in small groups, and stops when a group agrees.",
  deepconf: "Starts full branches, and gives up those that turn out less sure than the first ones were.",
  "until-right": "One full branch after the other, until one is right. It needs the right answer, under More.",
};
const FORKING = ["eager-init", "eager-adapt", "eager"];

// Until the server knows where its model forks.
const FINDING = "The server has just begun and is finding theta for its model. It takes questions in two minutes at most.";

const EXAMPLES = [
  ["an easy one", "Using each of 13, 22, 10 exactly once, make 66."],
  ["a harder one", "Using each of 3, 7, 11, 20 exactly once, make 64."],
  ["a long one", "Using each of 5, 8, 30, 43, 28 exactly once, make 68."],
];

export class Ask {
  constructor(viewer) {
    this.viewer = viewer;
    this.form = byId("form");
    this.running = null;
    this.tree = null;
    this.said = "";
    this.complaint = null;
    // Whether this is the view that one sees; a tree grows on when it is not.
    this.present = false;
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.start();
    });
    byId("stop").addEventListener("click", () => this.running?.abort());
    byId("method").addEventListener("change", () => this.told());
    byId("theta").addEventListener("input", () => this.told());
    byId("key").addEventListener("change", (event) => {
      useKey(event.target.value);
      this.greet();
    });
    byId("question").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.form.requestSubmit();
      }
    });
    const example = ([name, question]) => {
      const button = element("button", { type: "button", class: "link" }, name);
      button.addEventListener("click", () => {
        byId("question").value = question;
        this.form.requestSubmit();
      });
      return button;
    };
    byId("examples").append(...EXAMPLES.map(example));
    byId("question").placeholder = EXAMPLES[0][1];
    byId("theta").value = 0.3;
    byId("temperature").value = 0.6;
    this.told();
  }

  // Learns what the server has by default.
  async greet() {
    try {
      const { data } = await get("/v1/models");
      const { id, eager } = data[0];
      byId("model").textContent = id;
      const finding = eager.theta === null;
      if (finding || this.finding) this.say(finding ? FINDING : "");
      this.finding = finding;
      if (finding) {
        setTimeout(() => this.greet(), 2000);
        return;
      }
      byId("theta").value = Math.round(eager.theta * 100) / 100;
      byId("temperature").value = Math.round(eager.temperature * 100) / 100;
      byId("n").max = eager.max_n;
      byId("method").value = eager.method.split("/")[0];
      this.told();
      this.complain(null);
    } catch (error) {
      if (!(error instanceof Told)) throw error;
      if (error.status === 401) this.form.querySelector("details").open = true;
      this.complain(error);
    }
  }

  told() {
    const method = byId("method").value;
    byId("method-told").textContent = METHODS[method];
    byId("theta").disabled = !FORKING.includes(method);
    byId("theta-value").textContent = FORKING.includes(method) ? Number(byId("theta").value).toFixed(2) : "never";
  }

  body() {
    const fields = new FormData(this.form);
    const method = fields.get("method");
    const body = {
      messages: [{ role: "user", content: fields.get("question").trim() }],
      n: Number(fields.get("n")),
      temperature: Number(fields.get("temperature")),
      eager: { method },
    };
    if (FORKING.includes(method)) body.eager.theta = Number(byId("theta").value);
    if (fields.get("answer")) body.eager.answer = fields.get("answer");
    if (fields.get("seed")) body.seed = Number(fields.get("seed"));
    if (fields.get("tokens")) body.max_tokens = Number(fields.get("tokens"));
    return body;
  }

  async start() {
    this.running?.abort();
    const running = (this.running = new AbortController());
    const before = this.tree;
    this.complain(null);
    this.busy(true);
    this.say("Waiting for the first token.");
    try {
      await grow(this.body(), running.signal, (name, data) => this.hear(name, data, running));
    } catch (error) {
      if (this.running !== running) return;
      this.fail(error, this.tree !== before);
    } finally {
      if (this.running === running) this.busy(false);
    }
  }

  hear(name, data, running) {
    if (this.running !== running) return;
    if (name === "start") {
      this.tree = new Tree(data);
      this.say("Growing.");
      if (!this.present) return;
      this.viewer.show(this.tree, () => this.settled());
      byId("status").scrollIntoView({ block: "start", behavior: this.viewer.picture.still.matches ? "auto" : "smooth" });
      return;
    }
    this.tree.hear(name, data);
    this.viewer.wake();
  }

  // It did not come to an end; `begun` says whether there is something of a tree.
  fail(error, begun) {
    if (error.name !== "AbortError" && !(error instanceof Told)) throw error;
    if (begun) {
      this.tree.stopped = true;
      this.viewer.wake();
    }
    if (error.name === "AbortError") this.say(begun ? "Stopped. What had grown until then is below." : "Stopped before the first token.");
    else {
      this.say("");
      this.complain(error);
    }
  }

  settled() {
    const { end } = this.tree;
    if (!end) return;
    const cost = end.forks > 0 ? `, ${percent(end.shared)} fewer than the same attempts would have cost one by one` : "";
    const tied = this.tree.votes.filter((vote) => vote.tied).length;
    const says = end.sequences === 1 ? "The answer is" : tied > 1 ? `${count(tied)} answers tie; the first is` : "The vote goes to";
    const answer = end.answer === null ? "No attempt came to an answer" : `${says} ${end.answer}`;
    const unsure = end.sequences === 1 && this.tree.told.theta !== null ? " The model was sure all the way, so nothing forked." : "";
    const cut = end.cut ? " Time was up before all of them were done." : "";
    this.say(`${answer}: ${plural(end.sequences, "attempt")}, ${plural(end.decoded, "token")}${cost}, decoded in ${duration(end.seconds)}.${unsure}${cut}`);
  }

  say(text) {
    this.said = text;
    if (this.present) say(text);
  }

  complain(error) {
    this.complaint = error;
    if (this.present) complain(error);
  }

  // Comes back to what was asked last.
  show() {
    this.present = true;
    this.viewer.show(this.tree, () => this.settled());
    say(this.said);
    complain(this.complaint);
  }

  leave() {
    this.present = false;
  }

  busy(busy) {
    byId("stop").hidden = !busy;
    byId("grow").hidden = busy;
    if (busy) byId("stop").focus({ preventScroll: true });
    else if (document.activeElement === document.body) byId("grow").focus({ preventScroll: true });
  }
}
