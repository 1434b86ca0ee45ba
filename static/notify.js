// "Tell me in this browser": notifications of the browser's, where its person allowed them, while a page is open.
"use strict";

{
  const address = document.currentScript.dataset.waiting;
  const EVERY_MS = 30_000;
  const ON = "talkback.tell";
  const TOLD = "talkback.told";
  const isPossible = "Notification" in window && window.isSecureContext;

  // A browser may keep a page from storing anything: then nothing is told, and nothing breaks.
  const stored = (name) => {
    try {
      return localStorage.getItem(name);
    } catch {
      return null;
    }
  };
  const store = (name, value) => {
    try {
      localStorage.setItem(name, value);
    } catch {
      // as above
    }
  };
  const isOn = () => isPossible && Notification.permission === "granted" && stored(ON) === "on";

  function draw() {
    const isBlocked = isPossible && Notification.permission === "denied";
    for (const button of document.querySelectorAll("[data-tell]")) {
      button.hidden = !isPossible;
      button.disabled = isBlocked;
      button.setAttribute("aria-pressed", String(isOn()));
      button.title = isBlocked ? gettext("This browser blocks notifications of this site") : "";
    }
  }

  function tell({ tag, title, body, url }) {
    try {
      const note = new Notification(title, { body, tag }); // of one tag one, however many pages are open
      note.addEventListener("click", () => {
        window.focus();
        location.assign(url);
        note.close();
      });
    } catch {
      // Some phones allow none from a page.
    }
  }

  async function look() {
    if (!isOn()) return;
    try {
      const answer = await fetch(address, { headers: { Accept: "application/json" } });
      const { news } = await answer.json();
      const told = JSON.parse(stored(TOLD) || "[]");
      store(TOLD, JSON.stringify(news.map(({ tag }) => tag)));
      news.filter(({ tag, url }) => !told.includes(tag) && url !== location.pathname).forEach(tell);
    } catch {
      // The server is away, or this person is signed out: it is asked again.
    }
  }

  document.addEventListener("click", async (event) => {
    if (!event.target.closest("[data-tell]")) return;
    if (isOn()) store(ON, "off");
    else if ((await Notification.requestPermission()) === "granted") store(ON, "on");
    draw();
    look();
  });

  document.addEventListener("htmx:afterSettle", draw);
  document.addEventListener("DOMContentLoaded", draw);
  setInterval(look, EVERY_MS);
  look();
}
