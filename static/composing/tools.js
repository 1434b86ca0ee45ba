// A tool call that a person opened stays open when what became of it is pushed.
"use strict";

document.addEventListener("htmx:oobBeforeSwap", ({ detail }) => {
  if (!detail.target.matches(".calls")) return;
  for (const call of detail.target.querySelectorAll("details.call[open]:not(.waiting)")) {
    detail.fragment.querySelector(`[data-call="${call.dataset.call}"]`)?.setAttribute("open", "");
  }
});
