// Checks the status page in a browser; `run` starts the program.
//
// The page replaces its content every two seconds, and the controller is at work: a check waits until it
// holds, or reads everything that it compares in one step.
"use strict";

const { execFileSync } = require("node:child_process");
const assert = require("node:assert");
const { chromium } = require("playwright-core");

const { PAGE, PROGRAM, CHROMIUM, KUBECTL, SCREENSHOT } = process.env;

function signal(name) {
  process.kill(Number(PROGRAM), name);
}

async function main() {
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  const page = await browser.newPage({ viewport: { width: 1200, height: 760 }, colorScheme: "light" });
  page.setDefaultTimeout(60_000);
  const problems = [];
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(String(error)));
  let navigations = 0;
  page.on("framenavigated", () => navigations++);
  let renewals = 0;
  page.on("request", (request) => request.resourceType() === "fetch" && renewals++);

  await page.clock.install();
  await page.goto(PAGE);
  // A key is in the table of running calls, too, while its call runs.
  const keys = page.locator("table", { has: page.locator("caption", { hasText: /^Keys/ }) });
  const row = (key) => keys.locator("tr", { has: page.locator(`td:first-child:text-is("${key}")`) });
  await row("default/lemon").locator(".bad").getByText("is not controlled by").waitFor();
  // An error is not markup.
  await row("default/peach").locator(".bad").getByText("<b>peach</b>").waitFor();
  assert.strictEqual(await page.locator("td b").count(), 0);
  await page.getByText("icecreams.controller.nicoleh.io").first().waitFor();
  // The style sheet is loaded.
  await page.waitForFunction(() => getComputedStyle(document.querySelector("main td")).fontFamily.includes("mono"));

  // The last ten minutes are lines, with other colours in the dark.
  const line = page.locator(".lines path").first();
  await line.waitFor({ state: "attached" });
  const colour = () => line.evaluate((path) => getComputedStyle(path).stroke);
  const light = await colour();
  await page.emulateMedia({ colorScheme: "dark" });
  assert.notStrictEqual(await colour(), light);
  await page.emulateMedia({ colorScheme: "light" });

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

  // What is selected stays, although a renewal is on its way.
  let arrive, release;
  const arrived = new Promise((done) => (arrive = done));
  const released = new Promise((done) => (release = done));
  const hold = async (route) => {
    arrive();
    await released;
    await route.continue();
  };
  await page.route(PAGE, hold, { times: 1 });
  await arrived;
  const answered = page.waitForResponse(PAGE);
  await page.evaluate(() => {
    const title = document.querySelector("h2");
    getSelection().selectAllChildren(title);
    title.dataset.kept = "yes";
  });
  const kept = () => page.evaluate(() => document.querySelector("h2").dataset.kept === "yes");
  release();
  await (await answered).finished();
  const begun = renewals;
  for (let step = 0; step < 3; step++) {
    await page.clock.runFor(10_000);
    assert.ok(await kept(), "it replaced what is selected");
  }
  assert.strictEqual(renewals, begun, "it is not renewed while something is selected");
  await page.evaluate(() => getSelection().removeAllRanges());
  await page.waitForFunction(() => !document.querySelector("[data-kept]"));

  // The search finds a key, and shows what it waits for.
  await search.fill("default/mi");
  await search.press("Enter");
  await page.getByText("Keys that contain the search").waitFor();
  await row("default/mint").getByText("it waits for a change").waitFor();
  assert.strictEqual(await row("default/lemon").count(), 0);

  // Its slots are a graph that can be read in both colour schemes.
  const graph = page.locator("svg.slots");
  await graph.locator(".slot.good", { hasText: "ready" }).first().waitFor();
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    const faint = await graph.evaluate((svg) => {
      const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
      const brightness = (colour) => {
        const [red, green, blue] = channels(colour).map((channel) => (channel / 255) ** 2.2);
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
      };
      // The page has no background of its own, but that of the colour scheme.
      const canvas = document.body.appendChild(document.createElement("p"));
      canvas.style.backgroundColor = "Canvas";
      const back = brightness(getComputedStyle(canvas).backgroundColor);
      canvas.remove();
      const contrast = (text) => brightness(getComputedStyle(text).fill) / back;
      const texts = [...svg.querySelectorAll("text")];
      return texts.filter((text) => Math.max(contrast(text), 1 / contrast(text)) < 4.5).map((text) => text.textContent);
    });
    assert.deepStrictEqual(faint, [], `${colorScheme}: too little contrast`);
  }
  await page.emulateMedia({ colorScheme: "light" });
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

  // It shows that the program hangs, that it is back, and that it has ended.
  signal("SIGSTOP");
  await page.locator("body.stale").waitFor();
  signal("SIGCONT");
  await page.locator("body:not(.stale)").waitFor();
  signal("SIGTERM");
  await page.locator("body.stale").waitFor();
  await browser.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
