// What copies: a button with data-copy="ID" copies that element's text, one with data-copy-reply="TURN" that reply in
// Markdown, one with data-copy-code the block it stands in. It says so, and nothing moves.
"use strict";

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-copy-reply], [data-copy-code]");
  const text = button && textFor(button);
  if (typeof text !== "string") return;
  const done = await copied(text);
  if ("copy" in button.dataset) {
    const name = button.dataset.name || (button.dataset.name = button.textContent);
    button.textContent = done ? gettext("Copied") : gettext("Press Ctrl C");
    setTimeout(() => (button.textContent = name), 2000);
  } else {
    button.dataset.copied = done ? "yes" : "no";
    const announcer = document.getElementById("announcer");
    const said = done ? gettext("Copied.") : gettext("Not copied: select the words and press Ctrl C.");
    if (announcer) announcer.textContent = said;
    setTimeout(() => delete button.dataset.copied, 2000);
  }
});

function textFor(button) {
  const { copy, text } = button.dataset;
  if (copy) return document.getElementById(copy)?.textContent;
  if ("copyReply" in button.dataset) return text;
  return button.parentElement.querySelector("pre")?.textContent;
}

// The clipboard is for secure pages; on another the old command is tried, from a box that is there for as long.
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const [at, box] = [document.activeElement, document.createElement("textarea")];
    box.className = "visually-hidden";
    box.value = text;
    document.body.append(box);
    box.focus({ preventScroll: true });
    box.select();
    const done = document.execCommand("copy");
    box.remove();
    at?.focus({ preventScroll: true });
    return done;
  }
}
