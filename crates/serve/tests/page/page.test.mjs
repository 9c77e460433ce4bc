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
    const counts = (await page.locator("#votes .count").allTextContents()).map(Number);
    assert.deepEqual(counts, answer.eager.votes[0].map((vote) => vote.count));
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
    assert.match(await alert.textContent(), /^Full eager .*\.$/);
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
  "a run": async (page) => {
    await page.goto(`${BASE}/#/runs/first%2Feager-init`);
    await page.waitForSelector(".figures svg");
  },
  "a problem": async (page) => {
    await page.goto(`${BASE}/#/runs/first%2Feager-init/c2-2`);
    await page.waitForSelector("#viewer:not([hidden])");
  },
};

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
