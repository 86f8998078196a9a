// Renews the page in place, so that whoever watches keeps place, folds and focus; every page works without it.
"use strict";
(() => {
  const EVERY_MILLISECONDS = 15000;
  const key = (fold) => {
    const entry = fold.closest("li");
    const link = entry && entry.querySelector("a");
    return link ? link.getAttribute("href") : fold.querySelector("summary").textContent;
  };
  const localTimes = () => {
    for (const time of document.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (!Number.isNaN(at.getTime())) time.title = `${at.toLocaleString()} in your time zone`;
    }
  };
  const busy = () => {
    const focused = document.activeElement;
    const typing = focused && focused.matches("input, select, textarea");
    return document.hidden || typing || String(window.getSelection()) !== "";
  };
  const renew = async () => {
    if (busy()) return;
    let answer;
    try {
      answer = await fetch(window.location.href, { headers: { Accept: "text/html" } });
    } catch {
      document.body.classList.add("offline");
      return;
    }
    document.body.classList.toggle("offline", !answer.ok);
    if (!answer.ok || busy()) return;
    const made = new DOMParser().parseFromString(await answer.text(), "text/html");
    const [before, after] = [document.querySelector("main"), made.querySelector("main")];
    if (!after) return;
    const open = new Map([...before.querySelectorAll("details")].map((fold) => [key(fold), fold.open]));
    for (const fold of after.querySelectorAll("details")) {
      if (open.has(key(fold))) fold.open = open.get(key(fold));
    }
    const focused = before.contains(document.activeElement) && document.activeElement.getAttribute("href");
    const place = window.scrollY;
    before.replaceWith(after);
    document.querySelector("footer").replaceWith(made.querySelector("footer"));
    window.scrollTo(0, place);
    if (focused) after.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    document.title = made.title;
    localTimes();
  };
  localTimes();
  for (const area of document.querySelectorAll("textarea[data-copy]")) area.addEventListener("focus", () => area.select());
  if (!document.querySelector("meta[http-equiv=refresh]") && document.querySelector("[data-renew]")) {
    window.setInterval(renew, EVERY_MILLISECONDS);
  }
})();
