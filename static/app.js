// What the pages do that HTML cannot. Everything here is a convenience: without it a message is still sent.
"use strict";

const find = (selector, within = document) => within.querySelector(selector);

// A pushed fragment with an id that the page knows takes the old one's place; only what is new is put at the end.
document.addEventListener("htmx:oobBeforeSwap", (event) => {
  const arriving = event.detail.fragment;
  for (const child of arriving ? [...arriving.children] : []) {
    // Earlier tries at it stand inside it now, whenever that is first heard of: a quick reply is whole by then.
    for (const id of child.dataset.tries?.split(" ") ?? []) document.getElementById(`turn-${id}`)?.remove();
    const standing = child.id && event.detail.target.id !== child.id && document.getElementById(child.id);
    if (standing && child.matches(".turn.answering")) {
      child.remove(); // may have been overtaken on its way: what stands is as new, or newer, but for its words
      const [said, words] = [standing, child].map((turn) => find(".reply > .prose", turn));
      if (standing.matches(".answering") && words.textContent.length > said.textContent.length) {
        said.replaceChildren(...words.childNodes);
      }
    } else if (standing && child.matches(".turn") && saysTheSame(standing, child)) {
      child.remove(); // what is selected or opened in the one that stands is left alone
    } else if (standing && !standing.contains(event.detail.target)) {
      keepTyping(standing, child);
      keepOpen(standing, child);
      const at = standing.contains(document.activeElement) ? document.activeElement.id : "";
      standing.replaceWith(child);
      window.htmx.process(child);
      if (at) document.getElementById(at)?.focus({ preventScroll: true });
    }
  }
  const chip = arriving && event.detail.target.matches("details.journey[open]") ? event.detail.target : null;
  if (chip) (arriving.matches?.("details") ? arriving : find("details", arriving))?.setAttribute("open", "");
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
document.addEventListener("htmx:beforeRequest", (event) => event.detail.elt.addEventListener("htmx:beforeSwap", land));

function land(event) {
  const { target: form, detail } = event;
  if (form !== event.currentTarget || form.isConnected || !detail.shouldSwap) return;
  detail.shouldSwap = false;
  window.htmx.swap(document.body, detail.serverResponse, { swapStyle: "none", swapDelay: 0, settleDelay: 0 });
}

// Reasons that somebody is choosing just now are theirs: what is pushed meanwhile shows the same a moment older. And a
// press, on them or on a thumb, that began on what is replaced would be no click.
document.addEventListener("htmx:oobBeforeSwap", (event) => {
  const { target, fragment } = event.detail;
  const isBusy = target.matches(".reasons") && (target.matches(":focus-within, :active") || find(".htmx-request", target));
  const isPressed = target.matches(".thumbs") && find(":active", target);
  if (isPressed || (isBusy && find("input[type=checkbox]", fragment))) event.detail.shouldSwap = false;
});

// A reason that was not taken is not left looking as if it were.
document.addEventListener("htmx:afterRequest", (event) => {
  if (event.target.matches(".reasons form") && !event.detail.successful) refresh();
});

// Whoever is at a thumb by keyboard stays there when its fragment is pushed anew.
let refocus = "";

document.addEventListener("htmx:oobBeforeSwap", (event) => {
  const at = document.activeElement;
  refocus = event.detail.target.matches(".thumbs") && event.detail.target.contains(at) ? at.id : "";
});

document.addEventListener("htmx:oobAfterSwap", () => {
  if (refocus) document.getElementById(refocus)?.focus({ preventScroll: true });
  refocus = "";
});

// A correction somebody is typing survives its turn being drawn again.
function keepTyping(standing, arriving) {
  for (const area of standing.querySelectorAll("textarea")) {
    if (area.value === area.defaultValue) continue;
    const form = area.form && area.form.className;
    const bar = area.closest(".feedback, .taught"); // an article holds one for each try
    const twin = form && bar && find(`#${CSS.escape(bar.id)} form.${form} textarea`, arriving);
    if (!twin) continue;
    twin.value = area.value;
    for (let around = twin.closest("details"); around; around = around.parentElement.closest("details")) {
      around.open = true;
    }
  }
}

// What somebody has opened stays open.
function keepOpen(standing, arriving) {
  const [before, after] = [standing, arriving].map((turn) => [...turn.querySelectorAll("details")]);
  if (before.length === after.length) before.forEach((opened, at) => (after[at].open ||= opened.open));
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
    } else if (event.target.matches("form.guidance textarea")) {
      event.preventDefault();
      event.target.form.requestSubmit();
    }
  } else if (event.key === "Escape") {
    const open = event.target.closest("details[open]");
    if (open && open.matches(".correction, .marking, .menu, .journey")) {
      open.open = false;
      find("summary", open).focus();
    } else if (find(".turn.answering")) {
      find(".stop", composer())?.click();
    }
  } else if (event.key === "/" && area && !isTyping(event.target)) {
    event.preventDefault();
    area.focus();
  } else if (event.key === "ArrowUp" && event.target === area && !area.value) {
    const said = [...document.querySelectorAll(".said.user .words")].pop();
    if (said) {
      event.preventDefault();
      area.value = said.textContent;
      fit(area);
    }
  }
});

document.addEventListener("click", (event) => {
  const starter = event.target.closest("[data-starter]");
  if (starter && box()) {
    box().value = starter.textContent;
    composer().requestSubmit(find(".send", composer()));
  }
  const close = event.target.closest("[data-close]");
  if (close) close.closest("details").open = false;
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

// A box that opens is there to be typed into, or selected from.
document.addEventListener(
  "toggle",
  (event) => {
    if (!event.target.matches(".correction[open], .marking[open]") || find("[data-given]", event.target)) return;
    const area = [...event.target.querySelectorAll("textarea")].find((one) => one.offsetParent);
    area?.focus({ preventScroll: true });
    area?.setSelectionRange(0, 0);
    find(".panel", event.target).scrollIntoView({ block: "nearest" });
  },
  true,
);

document.addEventListener("change", (event) => {
  if (!event.target.matches(".correction input[type=radio]")) return;
  const panel = event.target.closest(".panel");
  panel.scrollIntoView({ block: "nearest" });
});

// A stopped or refused message stays in its box; one that was taken leaves it, unless somebody typed on meanwhile.
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
    box().focus();
    follow = true;
    keepUp();
  } else if (!successful && ![400, 403, 404, 409, 413, 422, 503].includes(xhr.status)) {
    complain("Talkback cannot be reached just now. Your message is still here: send it again in a moment.");
  }
});

// Who is signed out, or signed in anew elsewhere, keeps what was typed: no answer of that kind takes its place.
document.addEventListener("htmx:beforeSwap", (event) => {
  const { xhr } = event.detail;
  if (isLogin(xhr)) {
    event.detail.shouldSwap = false;
    complain("You are signed out: copy your message, sign in, reload this page, and send it again.");
  } else if (xhr.status === 403) {
    event.detail.shouldSwap = false;
    complain("This page is out of date: copy your message, reload the page, and send it again.");
  }
});

const isLogin = (xhr) => Boolean(xhr?.responseURL) && new URL(xhr.responseURL).pathname.startsWith("/login");

function complain(sentence) {
  const note = document.getElementById("complaint");
  if (!note) return;
  note.textContent = sentence;
  note.hidden = false;
}

// ---------- reading along ----------

let follow = true;
const scroller = () => find(".scroll");

function keepUp() {
  const area = scroller();
  if (area && follow) area.scrollTop = area.scrollHeight;
}

document.addEventListener(
  "scroll",
  (event) => {
    if (event.target === scroller()) {
      follow = event.target.scrollHeight - event.target.scrollTop - event.target.clientHeight < 80;
    }
  },
  true,
);

document.addEventListener("DOMContentLoaded", () => {
  const turns = document.getElementById("turns");
  if (!turns) return;
  keepUp();
  const grew = () => {
    lastGrown = Date.now();
    keepUp();
  };
  new MutationObserver(grew).observe(turns.parentElement, { childList: true, subtree: true, characterData: true });
  setInterval(() => {
    if (find(".turn.answering") && Date.now() - lastGrown > SILENCE_MS) refresh();
  }, SILENCE_MS / 4);
  if (box() && matchMedia("(hover: hover)").matches) box().focus();
});

// ---------- what was missed ----------

// A reply that says nothing for so long may have lost its way to this page: the server knows.
const SILENCE_MS = 8000;
let lastGrown = Date.now();
let opened = 0;

document.addEventListener("htmx:wsOpen", () => {
  document.body.classList.remove("offline");
  if (opened++ && find("#turns")) refresh();
});

async function refresh() {
  lastGrown = Date.now();
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } }).catch(() => null);
  if (!answer || !answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const standing = find("#turns");
  const arriving = find("#turns", fresh);
  if (!arriving) return;
  for (const turn of arriving.children) {
    const old = document.getElementById(turn.id);
    if (old) keepTyping(old, turn);
  }
  standing.replaceChildren(...arriving.children);
  window.htmx.process(standing);
}

document.addEventListener("htmx:wsClose", () => document.body.classList.add("offline"));
