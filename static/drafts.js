// A message that is not sent yet is kept in this browser alone, for each chat and person, until it is sent, taken out,
// a month old, or its person signs out.
"use strict";

{
  const PREFIX = "draft:";
  const MONTH_MS = 30 * 24 * 3600 * 1000;
  const area = box();
  const key = PREFIX + area?.dataset.draft;

  const attempt = (act) => {
    try {
      return act();
    } catch {
      return null; // a browser that keeps nothing, or has no room left
    }
  };
  const forget = (which = key) => attempt(() => localStorage.removeItem(which));
  const all = () => attempt(() => Object.keys(localStorage).filter((name) => name.startsWith(PREFIX))) ?? [];
  const read = (which) => attempt(() => JSON.parse(localStorage.getItem(which)));

  function keep() {
    if (!area.value.trim()) return forget();
    attempt(() => localStorage.setItem(key, JSON.stringify({ text: area.value, at: Date.now() })));
  }

  for (const name of all()) if (!(read(name)?.at > Date.now() - MONTH_MS)) forget(name);

  if (area?.dataset.draft) {
    const text = read(key)?.text;
    if (typeof text === "string" && !area.value) {
      area.value = text;
      fit(area);
    }
    area.addEventListener("input", keep);
    document.addEventListener("htmx:afterRequest", ({ target, detail }) => {
      if (target !== composer() || isLogin(detail.xhr)) return;
      if (detail.xhr.getResponseHeader("HX-Redirect")) forget();
      else if (detail.successful) keep(); // what was typed on meanwhile
    });
  }

  document.addEventListener("submit", ({ target }) => {
    const path = new URL(target.action, location).pathname;
    if (path.startsWith("/logout")) all().forEach((name) => forget(name));
    else if (path.endsWith("/delete/") && area) forget();
  });
}
