// Pages move under the reader: ages grow here, without a swap; the focus, and what is opened, stay as they were.

const SPANS = [
  [36 * 3600, 86400, (n) => ngettext("%(n)s day", "%(n)s days", n)],
  [90 * 60, 3600, () => gettext("%(n)s h")],
  [90, 60, () => gettext("%(n)s min")],
  [0, 1, () => gettext("%(n)s s")],
];

function span(seconds) {
  const [, unit, say] = SPANS.find(([least]) => seconds >= least) || SPANS[3];
  const n = Math.max(0, Math.round(seconds / unit));
  return fill(say(n), { n });
}

function grow() {
  for (const age of document.querySelectorAll("time[data-age]")) {
    const passed = span((Date.now() - Date.parse(age.dateTime)) / 1000);
    const text = age.dataset.age ? fill(gettext("%(span)s ago"), { span: passed }) : passed;
    if (age.textContent !== text) age.textContent = text;
  }
}

const kept = new WeakMap(); // of each part its own: an answer may bring others along, amid its own swap

function keep(part) {
  const active = document.activeElement;
  const focused = part !== active && part.contains(active) ? active : null;
  const unfolded = [...part.querySelectorAll("details[id][open]")].map((details) => details.id);
  kept.set(part, { focused, unfolded });
}

function restore(gone) {
  if (!kept.has(gone)) return;
  const { focused, unfolded } = kept.get(gone);
  kept.delete(gone);
  for (const one of unfolded) document.getElementById(one)?.setAttribute("open", "");
  const part = document.getElementById(gone.id);
  if (focused && !focused.isConnected && part) again(focused, part)?.focus({ preventScroll: true });
}

// The element that stands for one that is gone: a summary has no id of its own, its details have; many a link has none,
// and is the one that says the same and does the same.
function again(gone, part) {
  if (gone.id) return document.getElementById(gone.id);
  if (gone.matches("details[id] > summary")) return document.getElementById(gone.parentElement.id)?.querySelector("summary");
  const does = (one) => one.getAttribute("href") ?? one.form?.getAttribute("action");
  const alike = [...part.querySelectorAll(gone.localName)].filter((one) => one.textContent === gone.textContent);
  return alike.find((one) => does(one) === does(gone));
}

document.addEventListener("htmx:oobBeforeSwap", ({ detail }) => keep(detail.target));
document.addEventListener("htmx:oobAfterSwap", ({ detail }) => restore(detail.target));

// What asks every few seconds.
const asks = ({ requestConfig }) => requestConfig.elt.matches("[hx-trigger^='every ']");

document.addEventListener("htmx:beforeSwap", ({ detail }) => asks(detail) && keep(detail.target));
document.addEventListener("htmx:afterSwap", ({ detail }) => detail.requestConfig && asks(detail) && restore(detail.target));

setInterval(grow, 1000);

// Deeds by keyboard: a key opens what is there to be typed into, and decides by itself only what is data-at-once.
document.addEventListener("keydown", (event) => {
  const at = event.target instanceof Element ? event.target : document.body;
  if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const panel = at.closest("[data-deeds] details[open]");
  if (event.key === "Escape" && (panel || at.matches("[data-shortcut]"))) {
    if (panel) {
      panel.open = false;
      panel.querySelector("summary").focus();
    } else at.blur();
    return;
  }
  if (at.closest("input, textarea, select, [contenteditable]")) return;
  const found = [...document.querySelectorAll("[data-shortcut]")].find(
    (one) => one.dataset.shortcut === event.key && one.checkVisibility(),
  );
  if (!found) return;
  event.preventDefault();
  if (found.matches("summary")) {
    found.parentElement.open = true;
    found.parentElement.querySelector("input:not([type=hidden])").focus();
  } else if (found.matches("[data-at-once]")) found.click();
  else found.focus();
});
