"use strict";

// Renews the page, and keeps what is being typed or selected.
const PAUSE = 2000;
const main = document.querySelector("main");

async function renew() {
  const began = performance.now();
  if (!document.hidden && document.getSelection().isCollapsed) {
    let stale = true;
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        main.replaceChildren(...page.querySelector("main").childNodes);
        stale = false;
      }
    } catch {
      // The program is stopped, or busy: the page shows that it is old.
    }
    document.body.classList.toggle("stale", stale);
  }
  // A page that takes long to make is renewed less often.
  setTimeout(renew, Math.max(PAUSE, 10 * (performance.now() - began)));
}

setTimeout(renew, PAUSE);
