// An attempt is played back: one step at a time, by the arrow keys, Home and End. Without this file all steps stand
// there as a list, and the numbers above lead to each.
"use strict";

{
  const list = document.querySelector("[data-playback]");
  const player = document.querySelector("[data-player]");
  const steps = list ? [...list.children] : [];
  const links = [...document.querySelectorAll("[data-strip] > a")];
  const where = document.querySelector("[data-where]");
  const whole = document.querySelector('[data-go="all"]');
  let at = 0;
  let isPlayed = true;

  function named() {
    return steps.findIndex((step) => `#${step.id}` === location.hash);
  }

  function show() {
    list.classList.toggle("is-played", isPlayed);
    steps.forEach((step, n) => (step.hidden = isPlayed && n !== at));
    links.forEach((link, n) => (n === at ? link.setAttribute("aria-current", "step") : link.removeAttribute("aria-current")));
    player.querySelector('[data-go="back"]').disabled = at === 0;
    player.querySelector('[data-go="on"]').disabled = at === steps.length - 1;
    where.textContent = fill(gettext("Step %(step)s of %(steps)s"), { step: at + 1, steps: steps.length });
    whole.setAttribute("aria-pressed", String(!isPlayed));
  }

  // `by` the reader: the address names the step, so that it can be sent on; the way back leads off the page.
  function go(to, { by = true } = {}) {
    at = Math.min(steps.length - 1, Math.max(0, to));
    if (by) history.replaceState(history.state, "", `#${steps[at].id}`);
    show();
    if (by && !isPlayed) steps[at].scrollIntoView({ block: "nearest" });
  }

  const KEYS = { ArrowLeft: () => at - 1, ArrowRight: () => at + 1, Home: () => 0, End: () => steps.length - 1 };

  if (steps.length && player) {
    player.hidden = false;
    go(Math.max(0, named()), { by: false });

    document.addEventListener("keydown", (event) => {
      const on = event.target instanceof Element ? event.target : document.body;
      if (!KEYS[event.key] || event.isComposing || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
      if (on.closest("input, textarea, select, [contenteditable], pre, .table-scroll")) return;
      event.preventDefault();
      go(KEYS[event.key]());
    });

    player.addEventListener("click", (event) => {
      const way = event.target.closest("[data-go]")?.dataset.go;
      if (way === "all") {
        isPlayed = !isPlayed;
        show();
      } else if (way) go(at + (way === "on" ? 1 : -1));
    });

    addEventListener("hashchange", () => {
      if (named() >= 0) go(named(), { by: false });
    });
  }
}
