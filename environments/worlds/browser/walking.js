// Walk what is visible and return it as a flat list: {depth, role, name, number, state, value, box}. Elements that an
// agent can act on are numbered from 1, in the order of the document; what has no number is text, or groups others.
() => {
  const seen = window.__seen;
  seen.numbered = [];
  const lines = [];
  const SKIPPED = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "HEAD", "META", "LINK", "BR"]);
  const SKIPPED_IDS = new Set(["reward-display", "sync-task-cover", "click-canvas", "attention-canvas", "query"]);
  const PLAIN_IDS = new Set(["wrap", "area", "svg-grid"]);
  const INPUTS = {
    button: "button", submit: "button", reset: "button", image: "button", checkbox: "checkbox", radio: "radio",
    range: "slider", number: "spinbutton", search: "searchbox", color: "color", date: "date", time: "time",
  };
  const TAGS = {
    A: "link", BUTTON: "button", TEXTAREA: "textbox", SELECT: "combobox", OPTION: "option", SUMMARY: "button",
    TABLE: "table", TR: "row", TH: "header", TD: "cell", UL: "list", OL: "list", LI: "item", IMG: "image",
    H1: "heading", H2: "heading", H3: "heading", H4: "heading", H5: "heading", DIALOG: "dialog",
  };
  const GROUPS = new Set(["table", "row", "list", "item", "dialog", "cell", "header", "menu", "tablist", "tree"]);
  const LEAVES = new Set(["row", "item", "cell", "header"]);
  const HOLDERS = new Set(["dialog", "menu", "tablist", "list", "table", "row", "presentation", "none", "menubar"]);
  const ACTIONS = new Set(["button", "link", "tab", "menuitem", "checkbox", "radio", "option", "slider", "switch"]);
  const SHAPES = new Set(["circle", "rect", "polygon", "ellipse", "line", "path", "text"]);
  const words = (text) => text.replace(/\s+/g, " ").trim();

  const roleOf = (el) => {
    const said = el.getAttribute("role");
    if (said) return said;
    if (el.tagName === "INPUT") return INPUTS[el.type] || "textbox";
    if (TAGS[el.tagName]) return TAGS[el.tagName];
    if (el.isContentEditable && !(el.parentElement && el.parentElement.isContentEditable)) return "textbox";
    if (el instanceof SVGElement && SHAPES.has(el.tagName)) return el.tagName;
    return "";
  };
  const isPointer = (el) => getComputedStyle(el).cursor === "pointer";
  const isNative = (el, role) =>
    ["INPUT", "BUTTON", "TEXTAREA", "SELECT", "OPTION", "SUMMARY", "A"].includes(el.tagName) ||
    role === "textbox" || ACTIONS.has(role);
  const mayAct = (el, role) => {
    if (PLAIN_IDS.has(el.id) || el === document.body || el.tagName === "FORM" || el.tagName === "svg") return false;
    if (HOLDERS.has(role)) return el.tagName === "A" && !el.closest("[role=tab]");
    if (isNative(el, role) || el.tabIndex >= 0) return true;
    if (seen.listening.has(el) || el.onclick || el.onmousedown || el.onmouseup) return true;
    return isPointer(el) && !(el.parentElement && isPointer(el.parentElement));
  };
  const active = new Map();
  // Of what holds others that an agent can act on, its own words; an element that has none leaves the acting to them.
  const isActive = (el, role) => {
    if (!active.has(el)) {
      const acts = mayAct(el, role);
      active.set(el, acts && (isNative(el, role) || !holdsActive(el) || ownWords(el) !== ""));
    }
    return active.get(el);
  };
  const holdsActive = (el) => [...el.querySelectorAll("*")].some((each) => isShown(each) && mayAct(each, roleOf(each)));
  const isShown = (el) => el.tagName === "OPTION" || el.checkVisibility({ visibilityProperty: true });
  const ownWords = (el) => {
    const texts = [];
    const gather = (node) => {
      if (node.nodeType === Node.TEXT_NODE) texts.push(node.data);
      else if (node.nodeType === Node.ELEMENT_NODE && !SKIPPED.has(node.tagName) && isShown(node)
        && !mayAct(node, roleOf(node))) node.childNodes.forEach(gather);
    };
    el.childNodes.forEach(gather);
    return words(texts.join(" "));
  };
  const nameOf = (el, role) => {
    const label = el.getAttribute("aria-label");
    if (label) return label;
    if (el.labels && el.labels.length) return words([...el.labels].map((each) => each.textContent).join(" "));
    if (el.tagName === "INPUT" && ["button", "submit", "reset"].includes(el.type)) return el.value;
    const other = el.getAttribute("alt") || el.getAttribute("title") || el.placeholder || "";
    if (["INPUT", "TEXTAREA", "SELECT"].includes(el.tagName)) return words(other);
    if (role === "textbox" || role === "slider") return words(other);
    const own = (isNative(el, role) ? words(el.innerText || el.textContent) : ownWords(el)) || words(other);
    if (own) return own;
    const marks = [el, ...el.children].flatMap((each) => [...each.classList]).filter((each) => !/widget|corner/.test(each));
    return marks.find((each) => /-(up|down|left|right|prev|next)$/.test(each)) || marks[0] || el.id || "";
  };
  const stateOf = (el) => {
    const state = [];
    if (el === document.activeElement && el !== document.body) state.push("focused");
    if (el.tagName === "TEXTAREA") state.push("multiline");
    if (el.readOnly && el.tagName !== "SELECT") state.push("readonly");
    if (el.disabled) state.push("disabled");
    if (el.checked) state.push("checked");
    if (el.tagName === "OPTION" && el.selected) state.push("selected");
    for (const kind of ["selected", "expanded", "checked", "pressed"])
      if (el.getAttribute(`aria-${kind}`) === "true") state.push(kind);
    if (el.scrollHeight > el.clientHeight + 1 && el.scrollTop) state.push(`scrolled ${Math.round(el.scrollTop)}`);
    return state;
  };
  const valueOf = (el) => {
    if (el.tagName === "INPUT" && !["button", "submit", "reset", "checkbox", "radio", "image"].includes(el.type))
      return el.value;
    if (el.tagName === "TEXTAREA") return el.value;
    if (el.tagName !== "OPTION" && el.isContentEditable) return el.innerText;
    return null;
  };
  const boxOf = (el) => {
    const box = el.getBoundingClientRect();
    return [box.left, box.top, box.width, box.height].map(Math.round);
  };
  const colourOf = (el) => {
    const style = getComputedStyle(el);
    const clear = (colour) => !colour || colour === "none" || colour === "rgba(0, 0, 0, 0)";
    const shown = el instanceof SVGElement ? style.fill : style.backgroundColor;
    return clear(shown) ? "" : shown;
  };
  const walk = (node, depth, within) => {
    if (node.nodeType === Node.TEXT_NODE) {
      const text = words(node.data);
      if (text && !within) lines.push({ depth, role: "text", name: text });
      return;
    }
    if (node.nodeType !== Node.ELEMENT_NODE || SKIPPED.has(node.tagName) || SKIPPED_IDS.has(node.id)) return;
    if (!isShown(node)) return;
    const role = roleOf(node);
    if (isActive(node, role)) {
      const shape = node instanceof SVGElement || (!words(node.textContent) && !role);
      seen.numbered.push(node);
      lines.push({
        depth, role: role || "element", name: nameOf(node, role), number: seen.numbered.length,
        state: stateOf(node), value: valueOf(node), box: shape ? boxOf(node) : null, colour: shape ? colourOf(node) : "",
      });
      const named = node.tagName !== "SELECT" && valueOf(node) === null;
      if (node.tagName === "TEXTAREA") return;
      for (const child of node.childNodes) walk(child, depth + 1, named || node.isContentEditable || within);
      return;
    }
    if (within && node instanceof SVGElement) return;
    if (node instanceof SVGElement && SHAPES.has(node.tagName) && node.tagName !== "text") {
      lines.push({ depth, role: node.tagName, name: "", box: boxOf(node), colour: colourOf(node) });
      return;
    }
    if (LEAVES.has(role) && !holdsActive(node)) {
      const parts = role === "row" ? [...node.children].map((each) => words(each.innerText)) : [words(node.innerText)];
      if (parts.join("")) lines.push({ depth, role, name: parts.join(" | ") });
      return;
    }
    const group = GROUPS.has(role) || (node.scrollTop > 0 && node !== document.documentElement);
    if (group) lines.push({ depth, role: role || "group", name: "", state: stateOf(node) });
    else if (role === "image") lines.push({ depth, role, name: nameOf(node, role) });
    const isLabel = node.tagName === "LABEL" && node.control;  // its words stand with what it names
    for (const child of node.childNodes) walk(child, depth + (group ? 1 : 0), within || isLabel);
  };
  walk(document.body, 0, false);
  return { lines, scrolled: [Math.round(scrollX), Math.round(scrollY)] };
}
