// Find the element of a number and say where to press the mouse, put the caret into it, or scroll it.
([number, how, what]) => {
  const refused = (why) => ({ refused: why });
  const el = number === null ? document.scrollingElement : window.__seen.numbered[number - 1];
  if (!el || !el.isConnected) return refused(`there is no element ${number} on the page.`);
  const kind = el.tagName === "INPUT" ? el.type : el.tagName;
  const tell = (...events) => events.forEach((each) => el.dispatchEvent(new Event(each, { bubbles: true })));

  if (how === "scroll") {
    let box = el;
    const scrolls = (each) => each.scrollHeight > each.clientHeight && getComputedStyle(each).overflowY !== "visible";
    while (box && box !== document.body && !scrolls(box)) box = box.parentElement;
    if (!box || box === document.body) box = document.scrollingElement;
    box.scrollBy({ top: what, behavior: "instant" });
    return {};
  }
  if (el.disabled) return refused(`element ${number} is disabled.`);
  if (how === "click" && el.tagName === "OPTION") {
    const list = el.closest("select");
    if (!list || list.disabled) return refused(`the list of element ${number} is disabled.`);
    list.focus();
    if (list.multiple) el.selected = !el.selected;
    else list.selectedIndex = [...list.options].indexOf(el);
    list.dispatchEvent(new Event("input", { bubbles: true }));
    list.dispatchEvent(new Event("change", { bubbles: true }));
    return {};
  }
  if (how === "click" && kind === "SELECT") {
    el.focus();
    return {};
  }
  el.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
  if (how === "type") {
    if (["date", "time", "color", "range", "month", "week", "datetime-local"].includes(kind)) {
      const before = el.value;
      const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
      set.call(el, what);
      if (el.value !== what) {
        set.call(el, before);
        const form = { date: "2025-01-31", time: "09:05", color: "#00ff00", range: "50" }[kind];
        return refused(`element ${number} takes a ${kind}, as ${form || "its kind is written"}.`);
      }
      el.focus();
      tell("input", "change");
      return {};
    }
    const field = kind === "TEXTAREA" || el.isContentEditable || (el.tagName === "INPUT" && "selectionStart" in el);
    const buttons = ["button", "submit", "reset", "checkbox", "radio", "image", "file"];
    if (!field || buttons.includes(kind)) return refused(`element ${number} takes no text.`);
    el.focus();
    if (document.activeElement !== el && !el.contains(document.activeElement))
      return refused(`element ${number} takes no text now.`);
    if (el.isContentEditable) getSelection().selectAllChildren(el);
    else el.select();
    return { keys: true };
  }
  const boxes = [...el.getClientRects()].filter((box) => box.width > 0 && box.height > 0);
  if (!boxes.length) boxes.push(...[...el.children].flatMap((each) => [...each.getClientRects()]));
  let cover = null;
  for (const box of boxes) {
    for (const [x, y] of [[0.5, 0.5], [0.25, 0.5], [0.75, 0.5], [0.5, 0.25], [0.5, 0.75], [0.15, 0.15], [0.85, 0.85]]) {
      const at = [box.left + box.width * x, box.top + box.height * y];
      const hit = document.elementFromPoint(...at);
      if (hit && (hit === el || el.contains(hit))) return { at };
      cover = cover || hit;
    }
  }
  if (!boxes.length) return refused(`element ${number} is not shown.`);
  return refused(`element ${number} lies behind another element, or outside of what is shown.`);
}
