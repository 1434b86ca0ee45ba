// The second skip link leads to the newest turn, which may have come after the page did.
"use strict";

document.addEventListener("click", (event) => {
  if (!event.target.closest?.("[data-to-newest]")) return;
  const newest = find("#turns > article:last-of-type");
  if (!newest) return;
  event.preventDefault();
  newest.tabIndex = -1; // an article takes a focus only so
  newest.focus({ preventScroll: true });
  const area = newest.closest(".scroll"); // the list of messages alone: the page itself stays
  area.scrollTop += newest.getBoundingClientRect().top - area.getBoundingClientRect().top - 24;
});
