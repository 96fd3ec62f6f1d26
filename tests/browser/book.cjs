// Checks the book in a browser; `book` builds it.
"use strict";

const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const { pathToFileURL } = require("node:url");
const { chromium } = require("playwright-core");

const { BOOK, CHROMIUM } = process.env;
const QUESTIONS = "contributing/questions.html";
// Readers look at this many results.
const FIRST = 5;

function address(name) {
  return pathToFileURL(path.join(BOOK, name)).href;
}

// The pages that readers navigate to: not those for an address that does not exist and for browsers without scripts.
function pages() {
  const built = fs.readdirSync(BOOK, { recursive: true }).filter((name) => name.endsWith(".html"));
  return built.filter((name) => !["404.html", "toc.html"].includes(name)).sort();
}

// Opens each page once; returns how many diagrams there are.
async function open(browser, colorScheme) {
  const page = await browser.newPage({ colorScheme });
  page.setDefaultTimeout(60_000);
  const problems = [];
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(String(error)));
  // Opening the next page interrupts requests for the icon of the last one.
  const isMissing = (request) => request.failure().errorText !== "net::ERR_ABORTED";
  page.on("requestfailed", (request) => isMissing(request) && problems.push(`${request.url()} is not loaded`));
  let diagrams = 0;
  for (const name of pages()) {
    await page.goto(address(name));
    // A diagram with an error in it is drawn as a picture of a bomb.
    const drawn = page.locator("pre.mermaid > svg:not([aria-roledescription=error])");
    const wanted = await page.locator("pre.mermaid, code.language-mermaid").count();
    await page
      .waitForFunction((wanted) => document.querySelectorAll("pre.mermaid[data-processed]").length === wanted, wanted)
      .catch(() => problems.push("mermaid does not end"));
    for (const size of await drawn.evaluateAll((all) => all.map((one) => one.getBoundingClientRect().toJSON()))) {
      if (size.width < 50 || size.height < 50) problems.push(`a diagram is ${size.width} × ${size.height} pixels large`);
    }
    if ((await drawn.count()) !== wanted) problems.push(`${await drawn.count()} of ${wanted} diagrams are drawn`);
    diagrams += wanted;
    const missing = await page.evaluate(() =>
      [...document.images].filter((one) => !one.complete || one.naturalWidth === 0).map((one) => one.src),
    );
    problems.push(...missing.map((source) => `the image ${source} is not loaded`));
    const background = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const [red, green, blue] = background.match(/\d+/g).map(Number);
    if (red + green + blue > 384 !== (colorScheme === "light")) problems.push(`its background is ${background}`);
    assert.deepStrictEqual(problems, [], `${name} is wrong in ${colorScheme}`);
  }
  await page.close();
  return diagrams;
}

// Searches for all words of each question; returns how many questions there are.
async function search(browser) {
  const page = await browser.newPage();
  page.setDefaultTimeout(60_000);
  await page.goto(address(QUESTIONS));
  const questions = await page.locator("main tbody tr").evaluateAll((rows) =>
    rows.map((row) => {
      const [, question, words, answer] = row.cells;
      return { question: question.innerText, words: words.innerText.split(", "), answer: answer.querySelector("a").href };
    }),
  );
  assert.ok(questions.length >= 30, `${questions.length} questions are read`);
  await page.keyboard.press("s");
  const bar = page.locator("#mdbook-searchbar");
  const lost = [];
  for (const { question, words, answer } of questions) {
    for (const word of words) {
      await bar.fill(word);
      await bar.press("End"); // The search begins when a key is released.
      await page.locator("#mdbook-searchresults-header").getByText(`'${word}'`).waitFor();
      const found = await page.locator("#mdbook-searchresults a").evaluateAll((all) =>
        all.map((one) => one.href.replace(/\?[^#]*/, "")),
      );
      // A link to a page is to all of its sections.
      if (!found.slice(0, FIRST).some((one) => one === answer || one.split("#")[0] === answer))
        lost.push(`“${word}” does not find ${answer}, which answers “${question}”`);
    }
  }
  await page.close();
  assert.deepStrictEqual(lost, [], "the search lost answers");
  return questions.length;
}

async function main() {
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  const light = await open(browser, "light");
  const dark = await open(browser, "dark");
  assert.ok(light > 0 && light === dark, `${light} diagrams in light, ${dark} in dark`);
  const questions = await search(browser);
  console.log(`${pages().length} pages, ${light} diagrams, the answers to ${questions} questions`);
  await browser.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
