// What stays as it is when a turn is drawn anew: the focus, what is typed, what is open.
"use strict";

// A person who is at something that is drawn anew stays there, with the caret where it was: at that very thing where it
// moves along, else at its twin, which has its id, or its kind and place in the nearest that has one.
function leave(standing) {
  const at = document.activeElement;
  if (!standing.contains(at)) return () => {};
  const { id } = at.closest("[id]");
  const lasting = [...at.classList].filter((name) => !name.startsWith("htmx-")); // its request may be on its way
  const kind = [at.localName, ...lasting].map((name) => CSS.escape(name)).join(".");
  const alike = () => [...document.querySelectorAll(`#${CSS.escape(id)} ${kind}`)];
  const place = alike().indexOf(at);
  const caret = at.matches("textarea") && [at.selectionStart, at.selectionEnd, at.selectionDirection];
  return () => {
    const twin = at.id ? document.getElementById(at.id) : alike()[place];
    const there = at.isConnected ? at : twin;
    there?.focus({ preventScroll: true });
    if (caret) there?.setSelectionRange(...caret);
  };
}

// A person who is at a thumb by keyboard stays there when its fragment is pushed anew.
let refocus = "";

document.addEventListener("htmx:oobBeforeSwap", (event) => {
  const at = document.activeElement;
  refocus = event.detail.target.matches(".thumbs") && event.detail.target.contains(at) ? at.id : "";
});

document.addEventListener("htmx:oobAfterSwap", () => {
  if (refocus) document.getElementById(refocus)?.focus({ preventScroll: true });
  refocus = "";
});

// That something was kept is said until it fades, whatever is drawn again meanwhile.
function keepSaved(standing, arriving) {
  const [before, after] = [standing, arriving].map((turn) => find(".saved", turn));
  if (before && after) after.textContent ||= before.textContent;
}

// A correction that a person is typing survives its turn being drawn again.
function keepTyping(standing, arriving) {
  keepBrought(standing, arriving);
  for (const area of standing.querySelectorAll(":is(.opened, .taught, .edit) textarea[id]")) {
    const twin = area.value === area.defaultValue ? null : find(`#${CSS.escape(area.id)}`, arriving);
    if (!twin) continue;
    twin.value = area.value;
    keepTab(standing, arriving);
    const opened = twin.closest(".opened");
    if (opened) setOpen(opened, true);
    for (let around = twin.closest("details"); around; around = around.parentElement.closest("details")) {
      reopen(around);
    }
  }
}

// What was brought into a box that is open, or that was typed into, moves along: the new one is empty until its first use.
function keepBrought(standing, arriving) {
  for (const panel of standing.querySelectorAll(".opened")) {
    const twin = find(`#${CSS.escape(panel.id)}`, arriving);
    const [brought, place] = [find(".brought:not([data-from])", panel), twin && find("[data-from]", twin)];
    if (!brought || !place || (panel.hidden && isUntouched(panel))) continue;
    place.replaceWith(brought);
    setOpen(twin, true);
  }
}

// What folds in a turn, each by its id, or by its kind and place: a turn gets more of them when its reply ends.
function foldsOf(turn) {
  const counts = {};
  return [...turn.querySelectorAll("details")].map((fold) => {
    const kind = fold.id || fold.className;
    counts[kind] = (counts[kind] ?? 0) + 1;
    return [`${kind} ${counts[kind]}`, fold];
  });
}

// What is drawn anew as open as it was says so ("toggle") as if its person had just opened it: that moves nothing.
const reopened = new WeakSet();

function reopen(fold) {
  if (!fold) return;
  fold.open = true;
  reopened.add(fold);
}

// What a person has opened stays open.
function keepOpen(standing, arriving) {
  const after = new Map(foldsOf(arriving));
  for (const [name, fold] of foldsOf(standing)) {
    if (fold.open && after.has(name)) reopen(after.get(name));
  }
  for (const opened of standing.querySelectorAll(".opened:not([hidden])")) {
    const twin = find(`#${CSS.escape(opened.id)}`, arriving);
    if (!twin) continue;
    setOpen(twin, true);
    Object.assign(twin.dataset, opened.dataset);
  }
  keepTab(standing, arriving);
}

function keepTab(standing, arriving) {
  for (const { name, value } of standing.querySelectorAll(".tabs input:checked")) {
    const twin = find(`input[name="${name}"][value="${value}"]`, arriving);
    if (twin) twin.checked = true;
  }
}

// What this person asked for lately is the same under every reply: what came last knows best.
function shareLately(arrived) {
  const newest = arrived.querySelector?.("[data-lately]");
  if (!newest) return;
  for (const one of document.querySelectorAll("[data-lately]")) {
    if (one.textContent !== newest.textContent) one.replaceChildren(...newest.cloneNode(true).childNodes);
  }
}

document.addEventListener("htmx:load", (event) => {
  if (event.detail.elt !== document.body) shareLately(event.detail.elt);
});
