"use strict";

// Renews the page, and keeps what is being typed or selected.
const PAUSE = 2000;
// A program that does not answer for so long is shown as one that has ended.
const PATIENCE = 15000;
const main = document.querySelector("main");

function mayChange() {
  return !document.hidden && document.getSelection().isCollapsed;
}

async function renew() {
  const began = performance.now();
  let pause = PAUSE;
  if (mayChange()) {
    let stale = true;
    try {
      const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
      if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        // Something may have been selected while the page was on its way.
        if (mayChange()) main.replaceChildren(...page.querySelector("main").childNodes);
        stale = false;
      }
    } catch {
      // The program is stopped, or busy: the page shows that it is old.
    }
    // A page that takes long to make is renewed less often; one that is missing, as soon as it may be there again.
    pause = Math.max(PAUSE, (stale ? 1 : 10) * (performance.now() - began));
    document.body.classList.toggle("stale", stale);
  }
  setTimeout(renew, pause);
}

setTimeout(renew, PAUSE);
