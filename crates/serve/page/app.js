// The page: which view the address asks for.

import { Told } from "./api.js";
import { Ask } from "./ask.js";
import { byId } from "./elements.js";
import { Runs } from "./runs.js";
import { Viewer, complain, say } from "./viewer.js";

const viewer = new Viewer();
const ask = new Ask(viewer);
const runs = new Runs(byId("runs"), viewer);

// `#/` asks; `#/runs`, `#/runs/RUN`, `#/runs/RUN/PROBLEM` and `#/compare/RUN/RUN` look at what lies in the folder of runs.
async function route() {
  const [view = "", ...names] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const asking = view !== "runs" && view !== "compare";
  byId("ask").hidden = !asking;
  byId("runs").hidden = asking;
  for (const link of document.querySelectorAll("[data-view]")) {
    const here = (link.dataset.view === "ask") === asking;
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  complain(null);
  say("");
  if (asking) {
    document.title = "eager";
    ask.show();
    return;
  }
  ask.leave();
  viewer.show(null);
  try {
    await (view === "compare" ? runs.compare(names) : runs.show(names));
  } catch (error) {
    if (!(error instanceof Told)) throw error;
    complain(error);
  }
}

addEventListener("hashchange", async () => {
  if (location.hash === "#main") return;
  await route();
  byId("main").focus({ preventScroll: true });
  scrollTo(0, 0);
});
ask.greet();
route();
