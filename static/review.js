// The review desk by keyboard. Buttons say which key they answer to (data-key); here the keys find them.
// Everything works without this file, by links and forms.
"use strict";

{
  const one = (selector, within = document) => within.querySelector(selector);
  const isTyping = (at) => at.closest("input:not(.row-check), textarea, select, [contenteditable]");
  const isSeen = (element) => element.checkVisibility() && !element.disabled;
  const atHand = () => one("[data-at-hand]")?.dataset.atHand || "";
  const links = () => [...document.querySelectorAll(".queue-link")];
  const current = () => one(".queue-link[aria-current]");
  const ANSWERS = [400, 403, 404, 409, 413, 422, 502, 503, 507]; // what base.html has htmx swap in
  const checks = () => [...document.querySelectorAll(".row-check:checked")];

  // Until an answer has settled on the page: what is pressed while the next one is on its way is about the next one,
  // and what is pressed while a decision is on its way was meant for nothing that the reviewer has seen.
  let busy = ""; // moving | deciding
  let newest = null;
  let pressed = []; // meant for the next one, in order

  function open(link) {
    if (!link || link === current()) return;
    link.focus({ preventScroll: true });
    link.scrollIntoView({ block: "nearest" });
    link.click();
  }

  function step(by) {
    const all = links();
    const at = all.indexOf(current());
    open(at < 0 ? all[0] : all[Math.min(all.length - 1, Math.max(0, at + by))]);
  }

  function unfold(summary) {
    const panel = summary.parentElement;
    panel.open = true;
    const field = one("input:checked", panel) || one("textarea, input:not([type=hidden])", panel);
    field?.focus();
    if (field?.matches("textarea")) field.setSelectionRange(field.value.length, field.value.length);
    panel.scrollIntoView({ block: "nearest" });
  }

  function press(key) {
    const many = checks().length && [...document.querySelectorAll("[data-many]")].find((b) => b.dataset.many === key);
    const target = many || [...document.querySelectorAll("[data-key]")].find((b) => b.dataset.key === key && isSeen(b));
    if (!target) return false;
    if (target.matches("summary")) unfold(target);
    else if (target.matches("input[type=search], input[type=text]")) target.focus();
    else if (target.matches("input[type=radio]")) choose(target);
    else target.click();
    return true;
  }

  // A reward that was chosen by its key still wants its reason.
  function choose(radio) {
    radio.checked = true;
    one("[data-why]", radio.form)?.focus();
  }

  function leave(at) {
    const popover = one("[popover]:popover-open");
    const panel = at.closest("details.fold[open]");
    if (popover) popover.hidePopover();
    else if (panel) {
      panel.open = false;
      current()?.focus({ preventScroll: true });
    } else if (isTyping(at)) at.blur();
    else if (checks().length) clear();
    else one("#toast")?.replaceChildren();
  }

  function clear() {
    for (const check of checks()) check.checked = false;
    count();
  }

  function count() {
    const said = one("[data-selected]");
    if (said) said.textContent = checks().length;
  }

  function obey(key) {
    if (key === "j") step(1);
    else if (key === "k") step(-1);
    else if (key === "x") {
      one(".row-check", current()?.closest("li") || document.createElement("i"))?.click();
    } else return press(key === "=" ? "+" : key === "−" ? "-" : key);
    return true;
  }

  document.addEventListener("keydown", (event) => {
    const at = event.target instanceof Element ? event.target : document.body;
    if (event.isComposing || !one("[data-desk]")) return;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && at.matches("textarea")) {
      event.preventDefault();
      if (!busy) at.form.requestSubmit();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      if (at.matches("[type=search]")) event.preventDefault(); // which would empty it, and leave its list as narrow
      return leave(at);
    }
    if (event.key.length > 1 || event.key === " " || isTyping(at)) return;
    if (event.repeat && !"jk".includes(event.key)) return;
    if (busy === "deciding") return;
    if (busy === "moving" && !"jk".includes(event.key)) {
      pressed.push(event.key);
      event.preventDefault();
    } else if (obey(event.key)) event.preventDefault();
  });

  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-submits]")) event.target.form.submit();
    if (event.target.matches(".row-check")) count();
  });

  document.addEventListener("click", (event) => {
    const link = event.target.closest(".queue-link");
    if (link) {
      mark(link.dataset.of); // at once: a quick reviewer steps on from here
      pressed = []; // they were about the one that is left behind
    }
    if (event.target.closest("[data-dismiss]")) one("#toast").replaceChildren();
    if (event.target.closest("[data-clear]")) {
      event.preventDefault();
      clear();
    }
  });

  // A panel that opens is there to be typed into.
  document.addEventListener(
    "click",
    (event) => {
      const summary = event.target.closest(".fold > summary");
      if (summary && !summary.parentElement.open) requestAnimationFrame(() => unfold(summary));
    },
    true,
  );

  document.addEventListener("htmx:configRequest", (event) => {
    const { parameters } = event.detail;
    if (event.target.closest("[data-at]")) parameters.at = atHand();
    if (parameters.back !== undefined) parameters.back = location.search.slice(1); // a search may have narrowed the list
  });

  document.addEventListener("htmx:beforeRequest", (event) => {
    const { elt, requestConfig, xhr } = event.detail;
    if (requestConfig.verb === "get" && !elt.matches(".queue-link")) return;
    busy = requestConfig.verb === "get" ? "moving" : "deciding";
    newest = xhr;
  });

  // The next one is in sight, though its buttons are not ready: what is pressed now waits for them.
  document.addEventListener("htmx:afterSwap", (event) => {
    if (busy === "deciding" && event.detail.elt.matches(".desk-at")) busy = "moving";
  });

  // An answer that changes nothing on the page has nothing to settle.
  document.addEventListener("htmx:afterRequest", (event) => {
    const { successful, xhr } = event.detail;
    if (xhr !== newest || successful || ANSWERS.includes(xhr.status)) return;
    busy = "";
    mark(atHand());
  });

  for (const failure of ["htmx:sendError", "htmx:timeout", "htmx:responseError"]) {
    document.addEventListener(failure, (event) => {
      const note = one("#complaint");
      if (!note || ANSWERS.includes(event.detail.xhr.status)) return;
      note.textContent = gettext("Talkback cannot be reached just now. Nothing was decided: try again in a moment.");
      note.hidden = false;
    });
  }

  // What a reviewer typed for one hint is there again when they come back to it, until it is saved.
  const drafts = new Map();

  document.addEventListener("input", (event) => {
    if (event.target.matches("[data-draft]")) drafts.set(event.target.dataset.draft, event.target.value);
  });

  document.addEventListener("htmx:beforeSwap", (event) => {
    const saved = event.detail.requestConfig.verb === "post" && event.detail.xhr.status < 400;
    if (saved && one("[data-draft]")) drafts.delete(one("[data-draft]").dataset.draft);
  });

  document.addEventListener("htmx:afterSettle", (event) => {
    count();
    if (busy === "moving" && current() && current().dataset.of !== atHand()) return; // it is on its way
    mark(atHand());
    if (event.detail.elt.matches(".desk-at")) arrive();
  });

  function mark(pk) {
    for (const link of links()) {
      if (link.dataset.of === pk) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  function arrive() {
    current()?.scrollIntoView({ block: "nearest" });
    if (document.activeElement.matches("body, .queue-link")) current()?.focus({ preventScroll: true });
    const draft = one("[data-draft]");
    if (draft && drafts.has(draft.dataset.draft)) {
      draft.value = drafts.get(draft.dataset.draft);
      if (draft.value !== draft.defaultValue) draft.closest("details").open = true;
    }
    // It came after the list was drawn: draw the list anew.
    const search = one(".desk-search");
    if (atHand() && !current() && search) {
      window.htmx.ajax("GET", search.getAttribute("action") + location.search, { target: "#queue", swap: "outerHTML" });
    }
    const top = one(".desk-at").getBoundingClientRect().top;
    if (top < 0 || top > innerHeight * 0.6) one(".desk-at").scrollIntoView();
    busy = "";
    const keys = pressed;
    pressed = [];
    // What one of them sets going, or opens to be typed into, is what the others know nothing of.
    while (keys.length && !busy && !isTyping(document.activeElement)) obey(keys.shift());
  }
}
