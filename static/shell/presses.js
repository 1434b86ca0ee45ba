// A press that began on a button is a click only if that very button is still there when it ends: what would take the
// place of a part of the page that is being pressed waits until then. So does what comes meanwhile for a part of that: put
// in at once, it would go again with the older drawing of the whole.
"use strict";

{
  let waiting = []; // in order of arrival
  const waits = (part) => waiting.some(({ id }) => document.getElementById(id)?.contains(part));
  const isPressed = (part) => part.matches(":active") || part.querySelector(":active");

  document.addEventListener("htmx:oobBeforeSwap", ({ detail }) => {
    const arriving = detail.fragment.firstElementChild;
    if (!detail.shouldSwap || !arriving?.id || arriving.id !== detail.target.id) return;
    if (!isPressed(detail.target) && !waits(detail.target)) return;
    detail.shouldSwap = false;
    waiting = [...waiting.filter(({ id }) => id !== arriving.id), arriving];
  });

  for (const end of ["pointerup", "pointercancel", "keyup"]) {
    document.addEventListener(end, () => waiting.length && setTimeout(show)); // after the click
  }

  function show() {
    const pushed = waiting;
    waiting = [];
    for (const one of pushed) {
      one.setAttribute("hx-swap-oob", "true");
      window.htmx.swap(document.body, one.outerHTML, { swapStyle: "none" });
    }
  }

  // What asks every few seconds asks again.
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    const asks = detail.requestConfig.elt.matches("[hx-trigger^='every ']");
    if (asks && isPressed(detail.target)) detail.shouldSwap = false;
  });
}
