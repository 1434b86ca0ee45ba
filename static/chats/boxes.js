// Thumbs, and what opens under a reply.
"use strict";

// The second half of a double click would meet the thumb that the first has pressed, and take it back.
document.addEventListener(
  "click",
  (event) => {
    if (event.detail > 1 && event.target.closest(".thumb-form")) event.preventDefault();
  },
  true,
);

// A press that waits for the answer to the one before means what the person saw, whatever button stands there by then.
document.addEventListener(
  "submit",
  ({ target, submitter }) => {
    if (target.matches(".thumb-form")) target.dataset.pressed = submitter?.value ?? "";
  },
  true,
);

document.addEventListener("htmx:configRequest", ({ target, detail }) => {
  if (target.dataset.pressed) detail.parameters.value = target.dataset.pressed;
});

const openerOf = (panel) => panel && find(`[data-opens="${panel.id}"]`, panel.closest(".feedback"));

// Shows what a button opens, or hides it; the button says which. Nothing else moves.
function setOpen(panel, isOpen) {
  panel.hidden = !isOpen;
  openerOf(panel)?.setAttribute("aria-expanded", String(isOpen));
}

// What is in a box is brought once: when its button is pointed at or reached, so that it is there when it is pressed.
const bringing = new Map();

function bring(panel) {
  if (!find("[data-from]", panel)) return Promise.resolve();
  if (!bringing.has(panel.id)) bringing.set(panel.id, fetchInto(panel.id).finally(() => bringing.delete(panel.id)));
  return bringing.get(panel.id);
}

async function fetchInto(id) {
  const place = () => find(`#${CSS.escape(id)} [data-from]`); // it may be drawn anew meanwhile
  const answer = await fetch(place().dataset.from, { headers: { "HX-Request": "true" } }).catch(() => null);
  if (isLogin({ responseURL: answer?.url })) return complain(SIGNED_OUT);
  if (!answer?.ok) return complain(gettext("Talkback cannot be reached just now. Try again in a moment."));
  const words = await answer.text();
  const at = place();
  if (!at) return;
  at.innerHTML = words;
  delete at.dataset.from;
  window.htmx.process(at);
}

for (const near of ["pointerover", "focusin"]) {
  document.addEventListener(near, ({ target }) => {
    const opener = target.closest(".opener");
    if (opener) bring(document.getElementById(opener.dataset.opens));
  });
}

// A box that opens is there to be typed into, or selected from, and to be seen.
async function openFor(panel, prepare = () => {}) {
  setOpen(panel, true);
  const { id } = panel;
  await bring(panel);
  panel = document.getElementById(id);
  if (!panel || panel.hidden) return;
  if (find("[data-from]", panel)) return setOpen(panel, false); // nothing came, and that was said
  prepare(panel);
  const area = [...panel.querySelectorAll("textarea")].find((one) => one.offsetParent);
  area?.focus({ preventScroll: true });
  if (area?.matches(".plain-words, .rewrite-form textarea")) area.setSelectionRange(0, 0);
  bringIntoView(panel);
}

// Only the list of messages is ever scrolled, and no further than is needed. The buttons above stay in sight.
function bringIntoView(element, { above = 56, below = 16 } = {}) {
  const area = element.closest(".scroll");
  if (!area) return;
  const [box, frame] = [element, area].map((one) => one.getBoundingClientRect());
  const down = Math.max(0, box.bottom + below - frame.bottom);
  const most = box.top - above - frame.top; // beyond that its top would leave
  area.scrollTop += Math.min(down, most);
  follow = isAtEnd(area);
}

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-opens]");
  const panel = opener && document.getElementById(opener.dataset.opens);
  if (!panel) return;
  event.preventDefault();
  delete panel.dataset.byThumb;
  if (panel.hidden) openFor(panel);
  else setOpen(panel, false);
});

// A thumb down asks at once what it should do next time. A thumb that goes takes an untouched question along.
let pressedOn = "";

document.addEventListener("submit", (event) => {
  if (!event.target.matches(".thumb-form")) return;
  const bar = event.target.closest(".feedback");
  const panel = find(".correction", bar);
  pressedOn = bar.id;
  if (event.submitter?.value === "-1") {
    const opens = panel.hidden;
    if (opens) panel.dataset.byThumb = "";
    openFor(panel, (brought) => {
      if (opens) find(".tabs [value=guidance]", brought).checked = true;
    });
  } else if ("byThumb" in panel.dataset && isUntouched(panel)) {
    setOpen(panel, false);
  }
});

const isUntouched = (panel) => [...panel.querySelectorAll("textarea")].every((area) => area.value === area.defaultValue);

// The reasons come with the answer to one's own press: they are seen, and so is the box above them.
document.addEventListener("htmx:oobAfterSwap", (event) => {
  const reasons = event.target;
  const bar = reasons.matches?.(".reasons") && reasons.closest(".feedback");
  if (!bar || bar.id !== pressedOn || !find("form", reasons)) return;
  pressedOn = "";
  bringIntoView(reasons);
  const panel = find(".correction:not([hidden])", bar);
  if (panel) bringIntoView(panel);
});

document.addEventListener("change", (event) => {
  if (!event.target.matches(".correction .tabs input")) return;
  bringIntoView(event.target.closest(".opened"));
});

document.addEventListener(
  "toggle",
  (event) => {
    const isAgain = reopened.delete(event.target); // it may have been opened just before, with nothing brought yet
    if (isAgain && event.target.matches(".file[open]")) bring(event.target);
    if (isAgain) return;
    if (event.target.matches(".menu[open], .file[open]")) bring(event.target).then(() => bringIntoView(event.target.lastElementChild));
    if (event.target.matches(".journey[open]")) bringIntoView(find(".panel", event.target));
    else if (event.target.matches(".edit[open]")) {
      find("textarea", event.target).focus({ preventScroll: true });
      bringIntoView(event.target);
    }
  },
  true,
);

// A keyboard that comes up on a phone leaves less room.
window.addEventListener("resize", () => {
  const panel = document.activeElement?.closest(".opened");
  if (panel) bringIntoView(panel);
});

document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.successful && event.target.matches("[data-form=correction], .reasons form")) announce(gettext("Saved."));
});
