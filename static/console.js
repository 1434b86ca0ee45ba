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

let focused = "";
let unfolded = [];

document.addEventListener("htmx:oobBeforeSwap", (event) => {
  const active = document.activeElement;
  focused = active && event.detail.target.contains(active) ? handle(active) : "";
  unfolded = [...event.detail.target.querySelectorAll("details[id][open]")].map((details) => details.id);
});

// A summary has no id of its own: its details have.
function handle(active) {
  return active.id || (active.matches("details[id] > summary") ? active.parentElement.id : "");
}

document.addEventListener("htmx:oobAfterSwap", () => {
  for (const id of unfolded) document.getElementById(id)?.setAttribute("open", "");
  unfolded = [];
  const same = focused && document.getElementById(focused);
  if (same) (same.matches("details") ? same.querySelector("summary") : same).focus({ preventScroll: true });
  focused = "";
});

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
