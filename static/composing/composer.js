// The message box: its keys, and what becomes of a message that is on its way.
"use strict";

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
