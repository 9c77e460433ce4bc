// A tree of 64 branches with 4,000 tokens each, made up: does it stay smooth while it grows and while one moves in it?
//
// The tree comes from a server that passes everything on to the real one but plays the tree itself, over some seconds, in the
// events that the real one would send. The bounds are wide, for machines that have other things to do; the figures are printed.

import assert from "node:assert/strict";
import http from "node:http";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { BASE, ask, launch, visit } from "./browser.mjs";

const BRANCHES = 64;
const LENGTH = 4000;
const STEP = 50;
const PAUSE_MS = 80;

// Repeatable noise.
let state = 1;
const random = () => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state / 2 ** 32;
};

function* recording() {
  yield ["start", { model: "made up", method: "eager-init", theta: 1.5, cap: BRANCHES, seed: 0, temperature: 0.6, max_tokens: LENGTH, prompt_tokens: 20 }];
  yield ["root", { branch: 0 }];
  const lengths = [0];
  let decoded = 0;
  const words = [" the", " sum", " of", " 12", "\n", " so", " we", " have", "=", " wait"];
  const fork = (at) => {
    const parent = Math.floor(random() * lengths.length);
    const branch = lengths.length;
    lengths.push(at);
    const way = (branch) => ({ branch, text: words[branch % words.length], p: 0.3 });
    return ["fork", { branch, parent, at, entropy: 1.8, candidates: [way(parent), way(branch)] }];
  };
  for (let at = 0; at < LENGTH; at += STEP) {
    // All have come as far as `at`; a few new ones begin here.
    if (at > 0) for (let i = 0; i < 4 && lengths.length < BRANCHES; i++) yield fork(at - 1);
    for (const [branch, from] of lengths.entries()) {
      const count = at + STEP - from;
      decoded += count;
      const list = (make) => Array.from({ length: count }, make);
      yield ["tokens", { branch, at: from, text: list(() => words[Math.floor(random() * words.length)]), entropy: list(() => 2.5 * random() ** 6), p: list(random), forced: [] }];
      lengths[branch] = at + STEP;
    }
    yield null;
  }
  const ids = [...lengths.keys()];
  for (const branch of ids) yield ["finish", { branch, finish: "stop", tokens: LENGTH, answer: String(branch % 5), correct: null }];
  const vote = (answer) => ({ answer: String(answer), count: 1, weight: 1, branches: ids.filter((id) => id % 5 === answer) });
  yield ["votes", { votes: [0, 1, 2, 3, 4].map(vote) }];
  yield ["end", { decoded, full_parallel: BRANCHES * LENGTH, shared: 0.5, sequences: BRANCHES, forks: BRANCHES - 1, answer: "0", cut: null, seconds: 8 }];
}

async function play(response) {
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  for (const event of recording()) {
    if (event === null) await sleep(PAUSE_MS);
    else response.write(`event: ${event[0]}\ndata: ${JSON.stringify(event[1])}\n\n`);
  }
  response.end();
}

function pass(request, response) {
  const { hostname, port, host } = new URL(BASE);
  const onward = http.request({ hostname, port, path: request.url, headers: { ...request.headers, host } }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  request.pipe(onward);
}

let browser;
let player;
before(async () => {
  browser = await launch();
  player = http.createServer((request, response) => (request.url === "/eager/grow" ? play(response) : pass(request, response)));
  await new Promise((done) => player.listen(0, "127.0.0.1", done));
});
after(async () => {
  await browser?.close();
  player?.closeAllConnections();
  player?.close();
});

// Times between frames while something is done, in milliseconds, and how long scripts ran for each.
async function frames(page, act) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const scripts = async () => (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "ScriptDuration").value;
  await page.evaluate(() => {
    globalThis.times = [];
    const note = (now) => {
      globalThis.times.push(now);
      globalThis.noting = requestAnimationFrame(note);
    };
    globalThis.noting = requestAnimationFrame(note);
  });
  const before = await scripts();
  await act();
  const script = (await scripts()) - before;
  const times = await page.evaluate(() => {
    cancelAnimationFrame(globalThis.noting);
    return globalThis.times;
  });
  const gaps = times.slice(1).map((time, i) => time - times[i]).sort((a, b) => a - b);
  const at = (share) => gaps[Math.min(gaps.length - 1, Math.floor(share * gaps.length))];
  return { frames: gaps.length, median: at(0.5), p95: at(0.95), script: (1000 * script) / times.length };
}

test(`${BRANCHES} branches of ${LENGTH} tokens stay smooth`, (context) =>
  visit(browser, { base: `http://127.0.0.1:${player.address().port}` }, async (page) => {
    const wheel = async (count, x, y) => {
      for (let i = 0; i < count; i++) {
        await page.mouse.wheel(x, y);
        await sleep(16);
      }
    };
    const measured = {};
    measured.growing = await frames(page, async () => {
      await ask(page, { question: "anything", n: BRANCHES });
      await page.waitForSelector("#replay:not([hidden])", { timeout: 120_000 });
    });
    assert.equal(await page.locator("#outline [role=treeitem]").count(), BRANCHES);
    assert.match(await page.textContent("#status"), new RegExp(` ${await page.textContent("#decoded")} tokens`));
    assert.equal(await page.textContent("#parallel"), (BRANCHES * LENGTH).toLocaleString("en"));
    const box = await page.locator("#scroller").boundingBox();
    const middle = [box.x + box.width / 2, box.y + Math.min(box.height, 500) / 2];
    measured.pointing = await frames(page, async () => {
      for (let i = 0; i < 120; i++) await page.mouse.move(box.x + 60 + i * 8, middle[1] + 40 * Math.sin(i / 9));
    });
    measured.zooming = await frames(page, async () => {
      await page.mouse.move(...middle);
      await page.keyboard.down("Control");
      await wheel(60, 0, -20);
      await page.keyboard.up("Control");
    });
    measured.scrolling = await frames(page, () => wheel(90, 60, 0));
    for (const [what, { frames, median, p95, script }] of Object.entries(measured)) {
      context.diagnostic(`${what}: ${frames} frames, median ${median.toFixed(1)} ms, 95% within ${p95.toFixed(1)} ms, scripts ${script.toFixed(1)} ms a frame`);
      assert.ok(median < 60, `${what}: a median of ${median} ms`);
      assert.ok(p95 < 400, `${what}: 95% within ${p95} ms`);
    }
  }));
