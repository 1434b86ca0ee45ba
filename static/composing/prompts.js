// Saved prompts: "/" at the start of a message, or the button beside it, lists them; arrows and Enter choose one. Its
// {{variables}} are asked for before it goes into the message.
"use strict";

(() => {
  const VARIABLE = /\{\{\s*([\p{L}\p{N}_](?:[\p{L}\p{N}_ -]{0,38}[\p{L}\p{N}_])?)\s*\}\}/gu;
  const list = document.getElementById("prompts");
  const area = box();
  if (!list || !area) return;

  let typed = false; // opened by "/", which the prompt then takes the place of
  const options = () => [...list.querySelectorAll("[role=option]:not([hidden])")];
  const chosen = () => list.querySelector("[role=option][aria-selected=true]:not([hidden])");
  const asking = () => list.querySelector(".variables:not([hidden])");

  async function open(byKey) {
    typed = byKey;
    list.hidden = false;
    area.setAttribute("aria-controls", "prompt-options");
    await bring(list);
    if (!list.hidden) filter();
  }

  function close() {
    list.hidden = true;
    area.removeAttribute("aria-activedescendant");
    area.removeAttribute("aria-controls");
    const form = asking();
    if (form) form.hidden = true;
  }

  // Those whose names hold what was typed behind the "/"; the ones that begin with it first.
  function filter() {
    const words = typed ? area.value.slice(1).toLowerCase() : "";
    const all = [...list.querySelectorAll("[role=option]")];
    for (const one of all) one.hidden = !one.dataset.name.toLowerCase().includes(words);
    const none = list.querySelector(".none");
    if (none) none.hidden = !all.length || options().length > 0;
    const first = options().find((one) => one.dataset.name.toLowerCase().startsWith(words)) ?? options()[0];
    choose(first);
  }

  function choose(one) {
    for (const other of list.querySelectorAll("[role=option]")) other.setAttribute("aria-selected", String(other === one));
    if (!one) return area.removeAttribute("aria-activedescendant");
    area.setAttribute("aria-activedescendant", one.id);
    one.scrollIntoView({ block: "nearest" });
  }

  function take(one) {
    const text = one.dataset.text;
    const names = [...new Set([...text.matchAll(VARIABLE)].map(([, name]) => name))];
    if (!names.length) return insert(text);
    const form = list.querySelector(".variables");
    form.querySelector("strong").textContent = one.dataset.name;
    form.querySelector(".asked-for").replaceChildren(
      ...names.map((name) => {
        const field = Object.assign(document.createElement("label"), { className: "field" });
        const label = Object.assign(document.createElement("span"), { textContent: name });
        field.append(label, Object.assign(document.createElement("textarea"), { rows: 1, required: true, name }));
        return field;
      }),
    );
    form.dataset.text = text;
    form.hidden = false;
    form.querySelector("textarea").focus();
  }

  function insert(text) {
    if (typed) area.value = text;
    else area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
    close();
    area.focus();
    area.setSelectionRange(area.value.length, area.value.length);
    area.dispatchEvent(new Event("input", { bubbles: true })); // its size, and the draft
  }

  area.addEventListener("input", () => {
    const isCommand = /^\/[^\n]{0,60}$/.test(area.value);
    if (isCommand && list.hidden) open(true);
    else if (!list.hidden && typed && !isCommand) close();
    else if (!list.hidden) filter();
  });

  // Before the composer hears of a key: Enter would send, Escape would stop the reply.
  document.addEventListener(
    "keydown",
    (event) => {
      if (list.hidden || event.isComposing) return;
      const form = asking();
      if (event.key === "Escape") {
        close();
        area.focus();
      } else if (form && event.key === "Enter" && !event.shiftKey && event.target.matches(".variables textarea")) {
        form.requestSubmit();
      } else if (form || event.target !== area) {
        return;
      } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        const all = options();
        const step = event.key === "ArrowDown" ? 1 : -1;
        choose(all[(all.indexOf(chosen()) + step + all.length) % all.length]);
      } else if ((event.key === "Enter" || event.key === "Tab") && chosen()) {
        take(chosen());
      } else {
        return;
      }
      event.preventDefault();
      event.stopPropagation();
    },
    true,
  );

  list.addEventListener("submit", (event) => {
    event.preventDefault();
    event.stopPropagation();
    const said = new FormData(event.target);
    insert(event.target.dataset.text.replace(VARIABLE, (_, name) => said.get(name)));
  });

  document.addEventListener("click", (event) => {
    const one = event.target.closest("#prompts [role=option]");
    if (event.target.closest("[data-prompts]")) {
      if (!list.hidden) return close();
      area.focus();
      open(false);
    } else if (one) take(one);
    else if (event.target.closest("#prompts [data-cancel]") || (!list.hidden && !event.target.closest("#prompts, #composer textarea"))) {
      close();
    }
  });
})();
