// A press that began on a button is a click only if that very button is still there when it ends: what would take the
// place of a part of the page that is being pressed waits until then.
"use strict";

{
  const waiting = new Map();
  const isPressed = (part) => part.matches(":active") || part.querySelector(":active");

  document.addEventListener("htmx:oobBeforeSwap", ({ detail }) => {
    const arriving = detail.fragment.firstElementChild;
    if (!detail.shouldSwap || !arriving?.id || arriving.id !== detail.target.id || !isPressed(detail.target)) return;
    detail.shouldSwap = false;
    waiting.set(arriving.id, arriving);
  });

  for (const end of ["pointerup", "pointercancel", "keyup"]) {
    document.addEventListener(end, () => waiting.size && setTimeout(show)); // after the click
  }

  function show() {
    const pushed = [...waiting.values()];
    waiting.clear();
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
