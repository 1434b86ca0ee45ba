// A button with data-copy="ID" copies that element's text, and says so.
"use strict";

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  const source = button && document.getElementById(button.dataset.copy);
  if (!source) return;
  const done = await copied(source);
  const name = button.dataset.name || (button.dataset.name = button.textContent);
  button.textContent = done ? "Copied" : "Press Ctrl C";
  setTimeout(() => (button.textContent = name), 2000);
});

// The clipboard is for secure pages; on another the text is marked, and the old command tried.
async function copied(source) {
  try {
    await navigator.clipboard.writeText(source.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(source);
    return document.execCommand("copy");
  }
}
