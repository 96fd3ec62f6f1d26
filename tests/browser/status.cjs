// Checks the status page in a browser; `run` starts the program.
"use strict";

const { execFileSync } = require("node:child_process");
const assert = require("node:assert");
const { chromium } = require("playwright-core");

const { PAGE, PROGRAM, CHROMIUM, KUBECTL, SCREENSHOT } = process.env;

async function main() {
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  const page = await browser.newPage({ viewport: { width: 1200, height: 760 }, colorScheme: "light" });
  const problems = [];
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(String(error)));
  let navigations = 0;
  page.on("framenavigated", () => navigations++);

  await page.goto(PAGE);
  const row = (key) => page.locator("tr", { has: page.locator(`td:first-child:text-is("${key}")`) });
  await row("default/lemon").locator(".bad").waitFor();
  assert.match(await row("default/lemon").innerText(), /is not controlled by/);
  await row("default/peach").locator(".bad").waitFor();
  assert.match(await row("default/peach").innerText(), /<b>peach<\/b>/, "an error is not markup");
  await page.getByText("icecreams.controller.nicoleh.io").first().waitFor();
  const border = await row("default/lemon").locator("td").first().evaluate((cell) => getComputedStyle(cell).fontFamily);
  assert.match(border, /mono/, "the style sheet is loaded");

  // It renews itself, without a navigation, and keeps what is being typed.
  const search = page.getByRole("searchbox");
  await search.fill("default/mi");
  const mint = { apiVersion: "controller.nicoleh.io/v1alpha1", kind: "IceCream", metadata: { name: "mint" } };
  mint.spec = { deploymentName: "mint", replicas: 1 };
  execFileSync(KUBECTL, ["apply", "--filename", "-"], { input: JSON.stringify(mint) });
  await row("default/mint").waitFor();
  assert.strictEqual(await search.inputValue(), "default/mi");
  assert.strictEqual(navigations, 1);
  if (SCREENSHOT) {
    await search.fill("");
    await search.blur();
    await page.screenshot({ path: SCREENSHOT, fullPage: true });
  }

  // What is selected stays.
  const title = page.locator("h2").first();
  await title.evaluate((element) => {
    getSelection().selectAllChildren(element);
    element.dataset.kept = "yes";
  });
  await page.waitForTimeout(5000);
  assert.strictEqual(await title.getAttribute("data-kept"), "yes", "it replaced what is selected");
  await page.evaluate(() => getSelection().removeAllRanges());
  await page.waitForFunction(() => !document.querySelector("[data-kept]"));

  // The search finds a key, and shows what it waits for.
  await search.fill("default/mi");
  await search.press("Enter");
  await page.getByText("Keys that contain the search").waitFor();
  assert.strictEqual(await row("default/lemon").count(), 0);
  assert.match(await row("default/mint").innerText(), /waits for a change|runs|waited/);
  await search.fill("default/absent");
  await search.press("Enter");
  await page.getByText("default/absent is not in the cache").waitFor();

  // Its policy forbids scripts of others.
  assert.deepStrictEqual(problems, []);
  const violated = await page.evaluate(async () => {
    const violation = new Promise((done) => document.addEventListener("securitypolicyviolation", done));
    const element = document.createElement("div");
    element.innerHTML = '<img src="x" onerror="window.injected = true">';
    document.body.append(element);
    const directive = (await violation).violatedDirective;
    element.remove();
    return [directive, window.injected];
  });
  assert.ok(/^(img|script)-src/.test(violated[0]) && violated[1] === undefined, String(violated));

  // It shows that the program has ended.
  process.kill(Number(PROGRAM), "SIGTERM");
  await page.locator("body.stale").waitFor({ timeout: 30_000 });
  await browser.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
