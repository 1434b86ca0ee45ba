// What the pages do that HTML cannot. Everything here is a convenience: without it a message is still sent.
"use strict";

const find = (selector, within = document) => within.querySelector(selector);

// A pushed fragment with an id that the page knows takes the old one's place; only what is new is put at the end.
document.addEventListener("htmx:oobBeforeSwap", (event) => {
  const arriving = event.detail.fragment;
  for (const child of arriving ? [...arriving.children] : []) {
    const standing = child.id && event.detail.target.id !== child.id && document.getElementById(child.id);
    if (standing) keepSaved(standing, child);
    if (standing && child.matches(".turn.answering") && !(goesOn(child) && !goesOn(standing))) {
      child.remove(); // may have been overtaken on its way: what stands is as new, or newer, but for its words
      const [said, words] = [standing, child].map((turn) => find(".reply > .prose", turn));
      if (standing.matches(".answering") && words.textContent.length > said.textContent.length) {
        said.replaceChildren(...words.childNodes);
      }
    } else if (standing && child.matches(".turn") && saysTheSame(standing, child)) {
      child.remove(); // what is selected or opened in the one that stands is left alone
    } else if (standing && !standing.contains(event.detail.target)) {
      if (find(":active", standing)) takeLater(child);
      else takePlace(standing, child);
    } else if (!standing && "after" in child.dataset) {
      makeRoom(child);
    }
  }
  const chip = arriving && event.detail.target.matches("details.journey[open]") ? event.detail.target : null;
  if (chip) reopen(arriving.matches?.("details") ? arriving : find("details", arriving));
});

function takePlace(standing, arriving) {
  const comeBack = leave(standing);
  keepTyping(standing, arriving);
  keepOpen(standing, arriving);
  standing.replaceWith(arriving);
  window.htmx.process(arriving);
  shareLately(arriving);
  comeBack();
}

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

// A press that began on a button is a click only if that very button is still there when it ends.
const held = new Map();
let isOwed = false; // a look at the whole page

function takeLater(turn) {
  turn.remove();
  held.set(turn.id, turn);
}

for (const end of ["pointerup", "pointercancel", "keyup"]) {
  document.addEventListener(end, () => (held.size || isOwed) && setTimeout(takeHeld)); // after the click
}

function takeHeld() {
  for (const [id, turn] of held) {
    const standing = document.getElementById(id);
    if (standing) keepSaved(standing, turn);
    if (standing && !saysTheSame(standing, turn)) takePlace(standing, turn);
  }
  held.clear();
  if (isOwed) refresh();
  isOwed = false;
}

// The rest of a cut reply is being written, in its own place.
const goesOn = (turn) => turn.matches(".turn.answering[data-continued]");

// A new turn continues one that is on the page: what stood behind that is of another branch now.
function makeRoom(turn) {
  const before = document.getElementById(`turn-${turn.dataset.after}`);
  if ("elsewhere" in turn.dataset) return turn.remove();
  if (turn.dataset.after && !before) {
    turn.remove();
    return refresh(); // of a branch that parts from this one further up
  }
  for (const one of document.querySelectorAll("#turns > article")) {
    if (!before || before.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING) one.remove();
  }
  if (!before) document.getElementById("earlier")?.remove();
}

// A message continues what its person sees last; a switch moves nothing but what it switches.
document.addEventListener("htmx:configRequest", ({ target, detail }) => {
  const last = target === composer() && [...document.querySelectorAll("#turns > article[data-after]")].pop();
  if (last) detail.parameters.after = last.id.replace("turn-", "");
  if (target.closest(".switch")) follow = false;
});

// Two drawings of a turn that read alike; thumbs that differ are pushed by themselves.
function saysTheSame(one, other) {
  const read = (turn) => turn.className + turn.textContent.replace(/\s+/g, " ");
  return read(one) === read(other);
}

// Pictures of a growing reply, chips and thumbs can overtake their turn on its way to the page, or speak of one further
// up than the page goes: what has no place here is for another page, or comes with its turn. The rest is shown.
window.htmx?.defineExtension("places", {
  transformResponse: (drawn) => {
    const pieces = [...drawn.matchAll(/\bid="([^"]+)"[^<>]*\bhx-swap-oob="([^"]+)"/g)];
    const isHere = ([, id, how]) => how.includes(":") || document.getElementById(id);
    if (pieces.every(isHere) || drawn.includes('hx-swap-oob="beforeend:')) return drawn;
    const left = document.createElement("template");
    left.innerHTML = drawn;
    for (const piece of left.content.querySelectorAll("[hx-swap-oob]")) {
      if (!isHere([, piece.id, piece.getAttribute("hx-swap-oob")])) piece.remove();
    }
    return left.innerHTML;
  },
});

// A push may take the place of a form whose answer is still on its way. What the answer brings has its places on the
// page all the same; htmx would look for them in the part that was taken out.
document.addEventListener("htmx:beforeRequest", ({ detail }) => {
  for (const one of [detail.elt, detail.target]) one.addEventListener("htmx:beforeSwap", land); // out of the page, each alone
});
document.addEventListener("htmx:beforeSwap", land); // where the answer's own place is another than the form

function land({ detail }) {
  if (detail.requestConfig.elt.isConnected || !detail.shouldSwap) return;
  detail.shouldSwap = false;
  const [place, swapStyle] = detail.target.isConnected ? [detail.target, "outerHTML"] : [document.body, "none"];
  const select = detail.requestConfig.elt.closest("[hx-select]")?.getAttribute("hx-select"); // of a whole page this part
  window.htmx.swap(place, detail.serverResponse, { swapStyle, swapDelay: 0, settleDelay: 0 }, { select });
}

// Reasons that the reader is choosing just now are theirs, while they are of the same thumb: what is pushed meanwhile
// shows the same a moment older. And a press, on them or on a thumb, that began on what is replaced would be no click.
const thumbIn = (reasons) => find("[name=value]", reasons)?.value;

document.addEventListener("htmx:oobBeforeSwap", (event) => {
  const { target, fragment } = event.detail;
  const isBusy = target.matches(".reasons") && (target.matches(":focus-within, :active") || find(".htmx-request", target));
  const isPressed = target.matches(".thumbs") && find(":active", target);
  if (isPressed || (isBusy && thumbIn(target) === thumbIn(fragment))) event.detail.shouldSwap = false;
});

// A reason that was not taken is not left looking as if it were.
document.addEventListener("htmx:afterRequest", (event) => {
  if (event.target.matches(".reasons form") && !event.detail.successful) refresh();
});

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

// ---------- the composer ----------

const composer = () => document.getElementById("composer");
const box = () => composer() && find("textarea", composer());
const isTyping = (target) => target.closest("input, textarea, select, [contenteditable]");

function fit(area) {
  if (CSS.supports("field-sizing", "content")) return;
  area.rows = Math.min(12, area.value.split("\n").length);
}

document.addEventListener("input", (event) => {
  if (event.target.matches("#composer textarea")) fit(event.target);
});

document.addEventListener("keydown", (event) => {
  const area = box();
  if (event.isComposing || event.metaKey || event.ctrlKey || event.altKey) return;
  if (event.key === "Enter" && !event.shiftKey) {
    if (event.target === area) {
      event.preventDefault();
      if (area.value.trim()) composer().requestSubmit(find(".send", composer()));
    } else if (event.target.matches(".guidance-form textarea, .rewrite-form textarea, .taught textarea, .edit textarea")) {
      event.preventDefault();
      event.target.form.requestSubmit();
    }
  } else if (event.key === "Escape" && !event.target.closest("dialog")) {
    const open = event.target.closest("details[open]");
    const opener = openerOf(event.target.closest(".opened")) ?? event.target.closest("[data-opens][aria-expanded=true]");
    if (opener) {
      setOpen(document.getElementById(opener.dataset.opens), false);
      opener.focus({ preventScroll: true });
    } else if (open && open.matches(".menu, .journey, .edit")) {
      open.open = false;
      find("summary", open).focus({ preventScroll: true });
    } else if (find(".turn.answering, .call[data-at-work]")) {
      find(".stop", composer())?.click();
    }
  } else if (event.key === "/" && area && !isTyping(event.target)) {
    event.preventDefault();
    area.focus();
  } else if (event.key === "?" && !isTyping(event.target) && !find(".key-help")) {
    find("#all-keys")?.showModal();
  } else if (event.key === "ArrowUp" && event.target === area && !area.value) {
    const said = [...document.querySelectorAll(".said.user .words[data-said]")].pop();
    if (said) {
      event.preventDefault();
      area.value = said.dataset.said;
      fit(area);
    }
  }
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-all-keys]")) find("#all-keys").showModal();
  const starter = event.target.closest("[data-starter]");
  if (starter && box()) {
    box().value = starter.textContent;
    composer().requestSubmit(find(".send", composer()));
  }
  for (const open of document.querySelectorAll("details.menu[open], details.journey[open]")) {
    if (!open.contains(event.target)) open.open = false;
  }
});

// The second half of a double click would meet the thumb that the first has pressed, and take it back.
document.addEventListener(
  "click",
  (event) => {
    if (event.detail > 1 && event.target.closest(".thumb-form")) event.preventDefault();
  },
  true,
);

// A form that is on its way is not sent once more: a double click would make two keys, or ask for what is gone by then.
const AGAIN_MS = 5000; // a form whose answer is a file stays on the page
const sentAt = new Map();

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.getAttribute("method") !== "post") return; // htmx has its own ways
  if (event.timeStamp < sentAt.get(form) + AGAIN_MS) event.preventDefault();
  else sentAt.set(form, event.timeStamp);
});

window.addEventListener("pageshow", () => sentAt.clear()); // back from the page that it led to

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

// ---------- what opens under a reply ----------

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
    if (reopened.delete(event.target)) return;
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

document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.successful && event.target.matches("[data-form=correction], .reasons form")) announce(gettext("Saved."));
});

function announce(words) {
  const announcer = document.getElementById("announcer");
  if (announcer) announcer.textContent = words;
}

// A stopped or refused message stays in its box; one that was taken leaves it, unless the person typed on meanwhile.
let sending = "";

document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.target === composer()) sending = box().value;
});

document.addEventListener("htmx:afterRequest", (event) => {
  if (event.target !== composer()) return;
  const { xhr, successful } = event.detail;
  if (isLogin(xhr)) return; // said before the swap
  if (successful && !xhr.getResponseHeader("HX-Redirect")) {
    if (box().value === sending) box().value = "";
    find(".welcome")?.remove();
    fit(box());
    if (composer().contains(document.activeElement) || document.activeElement === document.body) box().focus();
    follow = true;
    keepUp();
  } else if (!successful && ![400, 403, 404, 409, 413, 422, 502, 503, 507].includes(xhr.status)) {
    complain(gettext("Talkback cannot be reached just now. Your message is still here: send it again in a moment."));
  }
});

// Who is signed out, or signed in anew elsewhere, keeps what was typed: no answer of that kind takes its place.
document.addEventListener("htmx:beforeSwap", (event) => {
  const { xhr } = event.detail;
  if (isLogin(xhr)) {
    event.detail.shouldSwap = false;
    complain(SIGNED_OUT);
  } else if (xhr.status === 403) {
    event.detail.shouldSwap = false;
    complain(xhr.getResponseHeader("X-Signed-Out") ? SIGNED_OUT : gettext("This page is out of date: copy your message, reload the page, and send it again."));
  } else if (event.detail.isError && event.detail.target !== document.body) {
    // What is not swapped in says nothing of itself, whether it is a page or a complaint.
    const sentences = event.detail.shouldSwap ? "[data-failure]" : "[data-failure], #complaint:not([hidden])";
    const failure = find(sentences, new DOMParser().parseFromString(event.detail.serverResponse, "text/html"));
    if (!failure) return;
    event.detail.shouldSwap = false; // a page about a failure is no part of this page
    const [note, said] = [document.getElementById("complaint"), failure.textContent.trim()];
    if (!note || note.hidden || note.textContent !== said) complain(said); // what asks again and again says it once
  }
});

// What a person did and Talkback never heard is said. What asks by itself asks again.
for (const failure of ["htmx:sendError", "htmx:timeout"]) {
  document.addEventListener(failure, ({ target, detail }) => {
    if (target === composer() || !detail.requestConfig.triggeringEvent) return;
    complain(gettext("Talkback cannot be reached just now. Try again in a moment."));
  });
}

const SIGNED_OUT = gettext("You are signed out. Your words are still here: copy them, sign in, reload this page, and send them again.");
const isLogin = (xhr) => Boolean(xhr?.responseURL) && new URL(xhr.responseURL).pathname.startsWith("/login");

function complain(sentence) {
  const note = document.getElementById("complaint") ?? placeForComplaints();
  note.textContent = sentence;
  note.hidden = false;
}

// Pages without a message box have no place of their own for it.
function placeForComplaints() {
  const note = Object.assign(document.createElement("p"), { id: "complaint", className: "note bad" });
  note.setAttribute("role", "alert");
  document.getElementById("main").prepend(note);
  return note;
}

// ---------- reading along ----------

let follow = true;
const scroller = () => find(".scroll");
const isAtEnd = (area) => area.scrollHeight - area.scrollTop - area.clientHeight < 80;

function keepUp() {
  const area = scroller();
  if (area && follow) area.scrollTop = area.scrollHeight;
}

document.addEventListener(
  "scroll",
  (event) => {
    if (event.target === scroller()) follow = isAtEnd(event.target);
  },
  true,
);

document.addEventListener("DOMContentLoaded", () => {
  const turns = document.getElementById("turns");
  if (!turns) return;
  keepUp();
  // What is done under a reply moves nothing: only what is said does.
  const isSaid = ({ target }) => !(target.nodeType === Node.ELEMENT_NODE ? target : target.parentElement)?.closest(".about");
  const grew = (changes) => {
    if (!changes.some(isSaid)) return;
    lastGrown = Date.now();
    keepUp();
  };
  new MutationObserver(grew).observe(turns.parentElement, { childList: true, subtree: true, characterData: true });
  setInterval(() => {
    if (find(".turn.answering") && Date.now() - lastGrown > SILENCE_MS && !isOver) refresh();
  }, SILENCE_MS / 4);
  if (box() && matchMedia("(hover: hover)").matches) box().focus();
});

// ---------- what was missed ----------

// A reply that says nothing for so long may have lost its way to this page: the server knows.
const SILENCE_MS = 8000;
let lastGrown = Date.now();
let opened = 0;
let isOver = false;

document.addEventListener("htmx:wsOpen", () => {
  document.body.classList.remove("offline");
  if (opened++ && find("#turns")) refresh();
});

async function refresh() {
  lastGrown = Date.now();
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } }).catch(() => null);
  if (!answer || !answer.ok) return;
  if (isLogin({ responseURL: answer.url })) return stopFollowing(SIGNED_OUT);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const standing = find("#turns");
  const arriving = find("#turns", fresh);
  if (!arriving) return;
  isOwed = Boolean(find(":active", standing));
  if (isOwed) return;
  const comeBack = leave(standing);
  for (const turn of arriving.children) {
    const old = document.getElementById(turn.id);
    if (!old) continue;
    keepTyping(old, turn);
    keepOpen(old, turn);
    const waits = find("[id^=waits-]", old); // its socket says it once
    if (waits) fresh.getElementById(waits.id)?.replaceChildren(...waits.childNodes);
  }
  const first = find("article", arriving);
  const at = first ? [...standing.children].findIndex((turn) => turn.id === first.id) : -1;
  const earlier = [...standing.children].slice(0, Math.max(0, at));
  if (earlier.some((one) => one.matches("article"))) {
    find("#earlier", arriving)?.remove(); // those that were asked for stay
    arriving.prepend(...earlier);
  }
  standing.replaceChildren(...arriving.children);
  window.htmx.process(standing);
  comeBack();
}

// Earlier turns come in above: what is being read stays where it is. The focus of who pressed the link is on what came.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.target.id !== "earlier" || !event.detail.shouldSwap) return;
  const area = scroller();
  const fromEnd = area.scrollHeight - area.scrollTop;
  const after = event.detail.target.nextElementSibling;
  const pressed = event.detail.target.contains(document.activeElement);
  follow = false;
  document.addEventListener(
    "htmx:afterSwap",
    () => {
      area.scrollTop = area.scrollHeight - fromEnd;
      if (!pressed) return;
      const newest = after.previousElementSibling;
      newest.tabIndex = -1; // an article takes a focus only so
      newest.focus({ preventScroll: true });
    },
    { once: true },
  );
});

// They come before the top is reached.
document.addEventListener(
  "scroll",
  ({ target }) => {
    if (target === scroller() && !follow && target.scrollTop < target.clientHeight) find("#earlier a")?.click();
  },
  true,
);

// A connection that broke is tried again; one that was closed for want of rights (chat/sockets.py) is not.
document.addEventListener("htmx:wsClose", ({ detail }) => {
  const { code } = detail.event;
  if (code === 4401) stopFollowing(SIGNED_OUT);
  else if (code === 4403) stopFollowing(gettext("What this page shows is gone, or no longer yours to see. Your words are still here: copy them before you leave."));
  else showOffline();
});

// The style sheet writes what `data-offline` says.
function showOffline() {
  const words = gettext("Not moving: the connection is lost, and is tried again");
  find(".console .page-head")?.setAttribute("data-offline", words);
  document.body.classList.add("offline");
}

// Nothing more comes to this page, and nothing is asked.
function stopFollowing(sentence) {
  isOver = true;
  complain(sentence);
}
