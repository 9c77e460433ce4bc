// The page as people use it: asking, watching, pointing, reading, looking at runs.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { BASE, DESKTOP, PHONE, ask, barriers, grown, launch, visit } from "./browser.mjs";

const HARD = "Using each of 3, 7, 11, 20 exactly once, make 64.";
const LONG = "Using each of 5, 8, 30, 43, 28 exactly once, make 68.";
const ASKED = { question: HARD, n: 12, seed: 1 };

let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

const number = async (page, id) => Number((await page.textContent(`#${id}`)).replaceAll(",", ""));
const branches = (page) => page.locator("#outline [role=treeitem]");

// What the API says about the same question and seed.
async function told() {
  const body = { messages: [{ role: "user", content: HARD }], n: 12, seed: 1, temperature: 0.6, eager: { method: "eager-init", theta: 0.3 } };
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(`${BASE}/v1/chat/completions`, { method: "POST", headers, body: JSON.stringify(body) });
  return response.json();
}

// Moves the mouse over the picture until it meets a fork.
async function hoverFork(page) {
  const box = await page.locator("#scroller").boundingBox();
  for (let y = 8; y < box.height; y += 6) {
    for (let x = 20; x < box.width / 2; x += 6) {
      await page.mouse.move(box.x + x, box.y + y);
      if ((await page.locator("#tip:not([hidden]) .tip-title").allTextContents())[0]?.startsWith("Fork")) return;
    }
  }
  assert.fail("no fork found");
}

test("a question grows into a tree, and the counts are those of the API", () =>
  visit(browser, {}, async (page) => {
    await ask(page, ASKED);
    await page.waitForFunction(() => document.querySelectorAll("#outline [role=treeitem]").length >= 3);
    await grown(page);
    const answer = await told();
    assert.equal(await branches(page).count(), answer.choices.length);
    assert.equal(await number(page, "branches"), answer.choices.length);
    assert.equal(await number(page, "decoded"), answer.eager.tokens_decoded);
    assert.equal(await number(page, "parallel"), answer.eager.tokens_full_parallel);
    assert.equal(await number(page, "forks"), answer.eager.forks);
    const percent = async (id) => Number((await page.textContent(`#${id}`)).replace("%", ""));
    assert.equal(await percent("shared"), Math.round(100 * answer.eager.shared));
    assert.equal(await percent("saved"), Math.round(100 * answer.eager.saved));
    // Against n full samples more is saved, unless there are n sequences.
    assert.equal(answer.eager.saved > answer.eager.shared, answer.choices.length < ASKED.n);
    const counts = (await page.locator("#votes .count").allTextContents()).map(Number);
    assert.deepEqual(counts, answer.eager.votes[0].map((vote) => vote.count));
  }));

test("a tie is shown as a tie", () =>
  visit(browser, {}, async (page) => {
    await ask(page, { question: "What is 9432 * 3104?", n: 2, seed: 0 });
    await grown(page);
    assert.equal(await page.locator("#votes li").count(), 2);
    assert.equal(await page.locator("#votes .tie").count(), 2);
    assert.equal(await page.locator("#votes .leads").count(), 2);
    assert.match(await page.textContent("#status"), /^2 answers tie; the first is /);
  }));

test("a fork shows its two candidates and their probabilities", () =>
  visit(browser, {}, async (page) => {
    await ask(page, ASKED);
    await grown(page);
    await page.locator("#scroller").scrollIntoViewIfNeeded();
    await hoverFork(page);
    assert.equal(await page.locator("#tip .ways li").count(), 2);
    for (const p of await page.locator("#tip .ways .p").allTextContents()) assert.match(p, /^<?\d+%$/);
  }));

test("the picture and the list can be walked with keys", () =>
  visit(browser, {}, async (page) => {
    await ask(page, ASKED);
    await grown(page);
    const spot = () => page.textContent("#spot");
    await page.focus("#scroller");
    await page.keyboard.press("ArrowRight");
    assert.match(await spot(), /^Branch 0, token 1: /);
    await page.keyboard.press("ArrowRight");
    assert.match(await spot(), /^Branch 0, token 2: /);
    await page.keyboard.press("f");
    assert.match(await page.textContent("#fork"), /forks from branch 0 here/);
    await page.keyboard.press("End");
    const last = await spot();
    await page.keyboard.press("ArrowDown");
    assert.notEqual(await spot(), last);

    await page.locator("#outline [tabindex='0']").focus();
    const focused = () => page.evaluate(() => document.activeElement.dataset.branch);
    assert.equal(await focused(), "0");
    await page.keyboard.press("ArrowDown");
    const second = await focused();
    assert.notEqual(second, "0");
    await page.keyboard.press("Enter");
    assert.match(await spot(), new RegExp(`^Branch ${second}, `));
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowLeft");
    assert.equal(await page.locator("#outline [role=treeitem]:visible").count(), 1, "the root is folded");
  }));

test("zooming in shows one part, and Fit all of it", () =>
  visit(browser, {}, async (page) => {
    await ask(page, ASKED);
    await grown(page);
    const width = () => page.locator("#scroller").evaluate((scroller) => [scroller.scrollWidth, scroller.clientWidth]);
    for (let i = 0; i < 4; i++) await page.click("#zoom-in");
    const [zoomed, visible] = await width();
    assert.ok(zoomed > 2 * visible, `${zoomed} of ${visible}`);
    await page.click("#zoom-fit");
    await page.waitForFunction(() => document.getElementById("scroller").scrollWidth === document.getElementById("scroller").clientWidth);
  }));

test("Stop stops, and the page is ready again", () =>
  visit(browser, {}, async (page) => {
    await ask(page, { question: LONG, n: 128, method: "full-parallel" });
    await page.waitForFunction(() => Number(document.getElementById("decoded").textContent.replace(",", "")) > 100);
    await page.click("#stop");
    await page.waitForFunction(() => document.getElementById("status").textContent.startsWith("Stopped."));
    await ask(page, { question: HARD, n: 4, method: "eager-init" });
    await grown(page);
    assert.ok((await branches(page).count()) <= 4);
  }));

test("what the server refuses is told in a sentence", () =>
  visit(browser, { refused: true }, async (page) => {
    await ask(page, { question: HARD, method: "eager" });
    const alert = page.locator("#problem:not([hidden])");
    await alert.waitFor();
    assert.match(await alert.textContent(), /^Eager\/regrow decides by the right answer: .*\.$/);
    await ask(page, { answer: "64" });
    await grown(page);
    assert.equal(await alert.count(), 0);
    assert.ok((await page.locator("#votes .right, #votes .wrong").count()) > 0, "answers are marked");
  }));

test("an easy question is one branch, one click away", () =>
  visit(browser, {}, async (page) => {
    await page.click("#examples button >> nth=0");
    await grown(page);
    assert.equal(await branches(page).count(), 1);
    assert.match(await page.textContent("#status"), /The model was sure all the way/);
  }));

test("with reduced motion everything is there at once", () =>
  visit(browser, { options: { ...DESKTOP, reducedMotion: "reduce" } }, async (page) => {
    await ask(page, ASKED);
    await grown(page);
    assert.equal(await page.locator("#replay:not([hidden])").count(), 0);
    assert.ok((await number(page, "decoded")) > 0);
  }));

test("a replay ends where the tree had ended", () =>
  visit(browser, {}, async (page) => {
    await ask(page, ASKED);
    await page.waitForSelector("#replay:not([hidden])");
    const decoded = await number(page, "decoded");
    await page.click("#replay");
    await page.waitForFunction((all) => Number(document.getElementById("decoded").textContent.replace(",", "")) < all, decoded);
    await page.waitForSelector("#replay:not([hidden])");
    assert.equal(await number(page, "decoded"), decoded);
  }));

test("a finished run opens, down to the tree of a problem", () =>
  visit(browser, {}, async (page) => {
    await page.click("nav a[data-view=runs]");
    const { runs } = await (await fetch(`${BASE}/eager/runs`)).json();
    await page.waitForSelector("#runs tbody tr");
    assert.equal(await page.locator("#runs tbody tr").count(), runs.length);
    await page.click("#runs tbody a:text('first/eager-init')");
    await page.waitForSelector(".problems li");
    const { problems } = await (await fetch(`${BASE}/eager/runs/first%2Feager-init`)).json();
    assert.equal(await page.locator(".problems li").count(), problems.length);
    const right = problems.filter((problem) => problem.right > 0).length;
    assert.equal(await page.locator(".problems .right").count(), right);
    assert.equal(await page.locator(".problems .wrong").count(), problems.length - right);
    assert.ok((await page.locator(".figures svg").count()) > 0, "the figures of the report");
    const forked = problems.find((problem) => problem.sequences >= 3);
    await page.click(`.problems a[href$="/${forked.id}"]`);
    await page.waitForSelector("#viewer:not([hidden])");
    assert.equal(await branches(page).count(), forked.sequences);
    assert.equal(await number(page, "decoded"), forked.tokens);
    await page.focus("#scroller");
    await page.keyboard.press("f");
    assert.match(await page.textContent("#fork"), /forks from branch 0 here/);
    assert.equal(await page.locator("#fork .ways li").count(), 2);
    await page.keyboard.press("End");
    assert.match(await page.textContent("#reading"), /boxed/);
    await page.goBack();
    await page.waitForSelector(".problems li");
    assert.equal(await page.locator("#viewer:not([hidden])").count(), 0);
  }));

test("runs of one suite are chosen and seen side by side", () =>
  visit(browser, { path: "/#/runs" }, async (page) => {
    const box = (name) => page.getByRole("checkbox", { name: `Compare ${name}` });
    await box("first/eager-init").waitFor();
    const told = () => page.textContent("form.choice [role=status]");
    const button = page.getByRole("button", { name: "Compare" });
    assert.equal(await button.getAttribute("aria-disabled"), "true");
    await button.press("Enter");
    assert.match(page.url(), /#\/runs$/, "nothing is chosen, and nothing happens");
    await box("first/eager-init").press("Space");
    assert.ok(await box("second").isDisabled(), "another suite");
    assert.match(await told(), /^One run of acorn/);
    await box("first/full-parallel").press("Space");
    assert.match(await told(), /^2 runs of acorn/);
    await box("wild").press("Space");
    assert.match(await told(), /^3 runs of acorn/);
    await button.press("Enter");
    await page.waitForSelector(".outcomes tbody tr");

    const names = await page.locator(".outcomes thead th").allTextContents();
    assert.deepEqual(names, ["Problem", "first/eager-init", "first/full-parallel", "wild"]);
    const runs = await Promise.all(names.slice(1).map(async (name) => (await fetch(`${BASE}/eager/runs/${encodeURIComponent(name)}`)).json()));
    const shown = await page.locator("[aria-label=Runs] tbody tr").count();
    assert.equal(shown, 3, "their metrics in one table");
    const rows = await page.locator(".outcomes tbody tr").all();
    assert.equal(rows.length, runs[0].problems.length);
    let apart = 0;
    for (const row of rows) {
      const links = await row.locator("td a").all();
      const id = decodeURIComponent((await links[0].getAttribute("href")).split("/").at(-1));
      const solved = new Set();
      for (const i of links.keys()) {
        const problem = runs[i].problems.find((problem) => problem.id === id);
        solved.add(problem.right > 0);
        const said = await row.locator("td").nth(i).innerText();
        assert.match(said.replaceAll(",", ""), new RegExp(`${problem.right > 0 ? "right" : "wrong"}:\\s*${problem.right} of ${problem.sequences}\\s+${problem.tokens} tokens`));
      }
      if (solved.size === 2) apart++;
    }
    assert.ok(apart > 0 && apart < rows.length, `${apart} of ${rows.length} tell them apart`);
    await page.getByRole("checkbox", { name: `Only the ${apart} problem` }).press("Space");
    assert.equal(await page.locator(".outcomes tbody tr:visible").count(), apart);
    await page.locator(".outcomes tbody tr:visible td a").first().click();
    await page.waitForSelector("#viewer:not([hidden])");
    await page.goBack();
    await page.waitForSelector(".outcomes tbody tr");
  }));

test("the list of runs can be filtered", () =>
  visit(browser, { path: "/#/runs" }, async (page) => {
    const rows = page.locator("[aria-label=Runs] tbody tr:visible");
    await rows.first().waitFor();
    const all = await rows.count();
    const filter = page.getByRole("searchbox", { name: "Filter" });
    await filter.fill("FIRST/ init");
    assert.deepEqual(await rows.locator("th").allTextContents(), ["first/eager-init"]);
    assert.equal(await page.textContent(".filter [role=status]"), `1 of ${all} runs`);
    // What is chosen stays in sight, whatever the filter says.
    await page.getByRole("checkbox", { name: "Compare first/eager-init" }).press("Space");
    await filter.fill("full parallel");
    assert.deepEqual((await rows.locator("th").allTextContents()).sort(), ["first/eager-init", "first/full-parallel", "wild"]);
    // Whoever comes back finds what they had looked for.
    await page.getByRole("link", { name: "wild" }).click();
    await page.waitForSelector(".problems li");
    await page.goBack();
    await rows.first().waitFor();
    assert.deepEqual((await rows.locator("th").allTextContents()).sort(), ["first/full-parallel", "wild"]);
    await filter.fill("");
    assert.equal(await rows.count(), all);
  }));

test("right and wrong differ in colour and sign", () =>
  visit(browser, {}, async (page) => {
    await page.goto(`${BASE}/#/compare/first%2Feager-init/wild`);
    await page.waitForSelector(".outcomes .wrong");
    const look = (name) => page.locator(`.outcomes .${name}`).first().evaluate((mark) => [getComputedStyle(mark).color, mark.textContent.trim()[0]]);
    const [right, wrong] = [await look("right"), await look("wrong")];
    assert.deepEqual([right[1], wrong[1]], ["✓", "✗"]);
    const plain = await page.evaluate(() => getComputedStyle(document.querySelector(".outcomes td small")).color);
    assert.equal(new Set([right[0], wrong[0], plain]).size, 3, `${right}, ${wrong}, ${plain}`);
    await page.goto(`${BASE}/#/`);
    await ask(page, { ...ASKED, answer: "3*7+(20-11)*4" });
    await grown(page);
    const ends = await page.locator("#outline .end").allTextContents();
    assert.ok(ends.every((end) => /^[✓✗] (right|wrong): (answer|no answer)/.test(end)), ends.join("\n"));
  }));

test("a question that the model does not know is told", () =>
  visit(browser, {}, async (page) => {
    await ask(page, { question: "What is the capital of France?", n: 2, seed: 1 });
    await grown(page);
    assert.match(await page.textContent("#notice:not([hidden])"), /^acorn knows three kinds of question.*--model/);
    await ask(page, ASKED);
    await grown(page);
    assert.equal(await page.locator("#notice:visible").count(), 0);
  }));

test("runs that were asked different things are not compared", () =>
  visit(browser, { path: "/#/compare/first%2Feager-init/second", refused: true }, async (page) => {
    await page.waitForSelector("#problem:not([hidden])");
    assert.match(await page.textContent("#problem"), /different suites/);
  }));

test("a tree grows on while one looks at the runs", () =>
  visit(browser, {}, async (page) => {
    await ask(page, { question: LONG, n: 32, method: "full-parallel" });
    await page.waitForFunction(() => document.getElementById("status").textContent === "Growing.");
    await page.click("nav a[data-view=runs]");
    await page.waitForSelector("#runs tbody tr");
    assert.equal(await page.locator("#viewer:not([hidden])").count(), 0);
    await page.click("nav a[data-view=ask]");
    await grown(page);
    assert.equal(await branches(page).count(), 32);
  }));

test("a run that is not there is told in a sentence", () =>
  visit(browser, { path: "/#/runs/nowhere", refused: true }, async (page) => {
    await page.waitForSelector("#problem:not([hidden])");
    assert.equal(await page.textContent("#problem"), "There is no such run.");
  }));

test("a server that asks for a key gets it from the page", () =>
  visit(browser, { base: process.env.PAGE_LOCKED, refused: true }, async (page) => {
    await page.waitForSelector("#problem:not([hidden])");
    assert.match(await page.textContent("#problem"), /asks for a key/);
    await page.fill("#key", process.env.PAGE_KEY);
    await page.press("#key", "Tab");
    await page.waitForFunction(() => document.getElementById("model").textContent === "acorn");
    assert.equal(await page.locator("#problem:not([hidden])").count(), 0);
    await ask(page, ASKED);
    await grown(page);
    assert.ok((await branches(page).count()) >= 3);
    await page.click("nav a[data-view=runs]");
    await page.waitForSelector("#runs tbody tr");
  }));

const VIEWS = {
  "the form": async () => {},
  "a tree": async (page) => {
    await ask(page, ASKED);
    await grown(page);
    await page.focus("#scroller");
    await page.keyboard.press("f");
  },
  "the runs": async (page) => {
    await page.goto(`${BASE}/#/runs`);
    await page.waitForSelector("#runs tbody tr");
  },
  "runs side by side": async (page) => {
    await page.goto(`${BASE}/#/compare/first%2Feager-init/first%2Ffull-parallel/wild`);
    await page.waitForSelector(".outcomes tbody tr");
  },
  "a run": async (page) => {
    await page.goto(`${BASE}/#/runs/first%2Feager-init`);
    await page.waitForSelector(".figures svg");
  },
  "a problem": async (page) => {
    await page.goto(`${BASE}/#/runs/first%2Feager-init/c2-2`);
    await page.waitForSelector("#viewer:not([hidden])");
  },
};

// Elements that show less than there is in them, and those that lie beside the window. What scrolls may: the picture and the text
// of a branch.
function cutOff() {
  const scrolls = (one) => one !== document.body && (["auto", "scroll"].includes(getComputedStyle(one).overflowX) || scrolls(one.parentElement));
  const seen = [...document.querySelectorAll("body *")].filter((one) => one.checkVisibility() && !one.closest("svg, .unseen, .skip, thead, canvas"));
  const cut = (one) => {
    const { left, right, width } = one.getBoundingClientRect();
    const { overflowX, overflowY, textOverflow } = getComputedStyle(one);
    const hides = [overflowX, overflowY].some((overflow) => ["hidden", "clip"].includes(overflow)) && one.textContent.trim() !== "";
    const clipped = hides && (one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 2);
    const sideways = one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0 && scrolls(one) && one.querySelector("table, p, li") !== null;
    const beside = width > 0 && (left < -1 || right > innerWidth + 1) && !scrolls(one);
    return clipped || sideways || beside || textOverflow === "ellipsis";
  };
  return seen.filter(cut).map((one) => `${one.tagName}.${one.className} ${one.textContent.slice(0, 40)}`);
}

test("nothing is cut off at 360 pixels", async () => {
  const options = { ...PHONE, viewport: { width: 360, height: 780 } };
  for (const [view, open] of Object.entries(VIEWS)) {
    await visit(browser, { options }, async (page) => {
      await open(page);
      assert.deepEqual(await page.evaluate(cutOff), [], view);
    });
  }
});

for (const [device, options] of Object.entries({ desktop: DESKTOP, phone: PHONE })) {
  for (const colorScheme of ["light", "dark"]) {
    test(`axe finds nothing serious on a ${device}, ${colorScheme}`, async () => {
      for (const [view, open] of Object.entries(VIEWS)) {
        await visit(browser, { options: { ...options, colorScheme } }, async (page) => {
          await open(page);
          assert.deepEqual(await barriers(page), [], view);
          const wide = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
          assert.ok(wide <= 0, `${view} is ${wide} pixels too wide`);
        });
      }
    });
  }
}
