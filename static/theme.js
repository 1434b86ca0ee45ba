// Light, dark, or as the system: what this browser was told, put on the page before anything of it is drawn.
"use strict";

{
  const NAMES = { system: () => gettext("as the system"), light: () => gettext("light"), dark: () => gettext("dark") };
  const KEY = "theme";

  const chosen = () => {
    try {
      const name = localStorage.getItem(KEY);
      return name in NAMES ? name : "system";
    } catch {
      return "system"; // a browser that keeps nothing
    }
  };

  function show(name) {
    if (name === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    for (const button of document.querySelectorAll("[data-theme-switch]")) {
      button.title = fill(gettext("Theme: %(name)s"), { name: NAMES[name]() });
      button.setAttribute("aria-label", fill(gettext("Theme: %(name)s. Change it"), { name: NAMES[name]() }));
    }
  }

  show(chosen());
  document.addEventListener("DOMContentLoaded", () => show(chosen()));
  window.addEventListener("storage", (event) => event.key === KEY && show(chosen())); // another tab
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-theme-switch]")) return;
    const names = Object.keys(NAMES);
    const name = names[(names.indexOf(document.documentElement.dataset.theme ?? "system") + 1) % names.length];
    try {
      localStorage.setItem(KEY, name);
    } catch {
      // shown all the same, for as long as the page is open
    }
    show(name);
  });
}
