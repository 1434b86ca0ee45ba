// A press that began on a button is a click only if that very button is still there when it ends: what would take the
// place of a part of the page that is being pressed waits until then. So does what comes meanwhile for a part of that: put
// in at once, it would go again with the older drawing of the whole.
"use strict";

const isPressed = (part) => part.matches(":active") || Boolean(find(":active", part));

let waiting = []; // in order of arrival: what came last is shown last
const waits = (part) => waiting.some(({ id }) => document.getElementById(id)?.contains(part));

// Calls `show` after the press: it brings something for the element with this id, or for the whole page ("").
function takeLater(id, show) {
  waiting = [...waiting.filter((one) => one.show !== show), { id, show }];
}

document.addEventListener("htmx:oobBeforeSwap", ({ detail }) => {
  const { target, fragment } = detail;
  const isContent = Boolean(fragment.id); // of an element that stays, as words of a growing reply are
  const arriving = isContent ? fragment : fragment.firstElementChild;
  if (!detail.shouldSwap || !arriving?.id || arriving.id !== target.id) return;
  if (!waits(target) && (isContent || !isPressed(target))) return;
  detail.shouldSwap = false;
  const pushed = arriving.cloneNode(true);
  pushed.setAttribute("hx-swap-oob", isContent ? "innerHTML" : "true");
  takeLater(target.id, () => window.htmx.swap(document.body, pushed.outerHTML, { swapStyle: "none" }));
});

// A drag ends the press that began it, and who turns to another window while a key is down lets go of it there.
for (const end of ["pointerup", "pointercancel", "keyup", "dragend"]) document.addEventListener(end, showSoon);
window.addEventListener("blur", showSoon);

function showSoon() {
  if (waiting.length) setTimeout(showWaiting); // after the click
}

function showWaiting() {
  const due = waiting;
  waiting = [];
  for (const { show } of due) queueMicrotask(show); // each by itself: one that fails takes no other with it
}

// What asks every few seconds asks again.
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const asks = detail.requestConfig.elt.matches("[hx-trigger^='every ']");
  if (asks && isPressed(detail.target)) detail.shouldSwap = false;
});
