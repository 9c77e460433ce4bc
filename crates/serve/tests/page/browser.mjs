// A browser on the page, and what must hold whatever one does there: no error on the console, no request elsewhere.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(`${process.env.PAGE_PACKAGES}/`);
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const BASE = process.env.PAGE_BASE;
export const DESKTOP = { viewport: { width: 1280, height: 900 } };
export const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 3, isMobile: true, hasTouch: true };

// Chromium's own sandbox needs rights that a container's root does not have.
export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM, args: process.getuid() === 0 ? ["--no-sandbox"] : [] });

// Opens the page, does something there, and sees that it was quiet. `refused`: the server is expected to say no to something,
// which browsers write on the console whatever the page does about it.
export async function visit(browser, { options = DESKTOP, base = BASE, path = "/", refused = false } = {}, act) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const faults = [];
  page.on("console", (message) => {
    const expected = refused && message.text().startsWith("Failed to load resource");
    if (["error", "warning"].includes(message.type()) && !expected) faults.push(message.text());
  });
  page.on("pageerror", (error) => faults.push(String(error.stack)));
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol !== "data:" && url.origin !== new URL(base).origin) faults.push(`request to ${url}`);
  });
  page.setDefaultTimeout(60_000);
  try {
    await page.goto(base + path);
    await act(page);
    assert.deepEqual(faults, []);
  } finally {
    await context.close();
  }
}

// Asks a question on the page. Fields are named by their ids.
export async function ask(page, fields) {
  await page.locator("details.more").evaluate((details) => (details.open = true));
  for (const [id, value] of Object.entries(fields)) {
    if (id === "method") await page.selectOption("#method", value);
    else await page.fill(`#${id}`, String(value));
  }
  await page.click("#grow");
}

// The tree has grown and all of it is shown.
export const grown = (page) => page.waitForFunction(() => /attempts?, /.test(document.getElementById("status").textContent) && document.getElementById("stop").hidden);

// What axe finds that keeps people out.
export async function barriers(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  return serious.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.target} ${node.failureSummary}`).join("; ")}`);
}
