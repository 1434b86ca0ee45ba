// Marking words of a reply: what is selected, where that stands in the reply, and a small bar that offers what to say
// of it. The words know their places (data-at, in characters of the reply); nothing is guessed, and the server looks
// again whether these are the words.
"use strict";

(() => {
  const SIGNS = { "+": 1, g: 1, "-": -1, "−": -1, b: -1, 0: 0 };
  const bar = () => document.getElementById("marker");
  const characters = (text) => [...text].length; // as the server counts: one each, whatever they are made of

  const WORDS = window.Intl?.Segmenter && new Intl.Segmenter(undefined, { granularity: "word" });

  // `from` and `to` in `text`, moved to where words begin and end; spaces at either end are left out.
  function snapped(text, from, to) {
    while (from < to && /\s/.test(text[from])) from++;
    while (to > from && /\s/.test(text[to - 1])) to--;
    if (!WORDS || from === to) return [from, to];
    const segments = WORDS.segment(text);
    const [first, last] = [segments.containing(from), segments.containing(to - 1)];
    return [
      first.isWordLike ? first.index : from,
      last.isWordLike ? last.index + last.segment.length : to,
    ];
  }

  // What is selected in a reply, in whole words: {turn, start, end, words}, with `plain` where it is the reply as plain
  // text.
  function chosen() {
    const area = document.activeElement;
    if (area && area.matches("textarea.plain-words[data-turn]")) {
      const { selectionStart, selectionEnd, value } = area;
      const [from, to] = snapped(value, selectionStart, selectionEnd);
      if (from === to) return null;
      const start = characters(value.slice(0, from));
      const words = value.slice(from, to);
      return { turn: area.dataset.turn, start, end: start + characters(words), words, plain: true, place: area };
    }
    const selection = document.getSelection();
    if (!selection || selection.isCollapsed || !selection.rangeCount) return null;
    const range = selection.getRangeAt(0);
    const within = [...document.querySelectorAll(".prose[data-turn]")].filter((prose) => range.intersectsNode(prose));
    const parts = within.map((prose) => [prose, selected(range, prose)]).filter(([, part]) => part);
    if (parts.length !== 1) return null; // words of two replies are not one mark
    const [prose, part] = parts[0];
    return { turn: prose.dataset.turn, ...part, plain: false, place: range };
  }

  // The reply as it is read: its text nodes one behind the other, with a line end between two blocks.
  function read(prose) {
    const walker = document.createTreeWalker(prose, NodeFilter.SHOW_TEXT);
    const nodes = [];
    let text = "";
    let block = null;
    for (let node; (node = walker.nextNode()); ) {
      const around = node.parentElement.closest("p, li, pre, td, th, h1, h2, h3, h4, h5, h6, blockquote, .prose");
      if (block && around !== block) text += "\n";
      block = around;
      nodes.push({ node, begins: text.length, at: node.parentElement.dataset.at });
      text += node.data;
    }
    return { nodes, text };
  }

  function selected(range, prose) {
    const { nodes, text } = read(prose);
    let [first, last] = [text.length, 0];
    for (const { node, begins } of nodes) {
      if (!range.intersectsNode(node)) continue;
      const { length } = node.data;
      let [from, to] = [0, length];
      if (node === range.startContainer) from = range.startOffset;
      else if (range.comparePoint(node, 0) < 0) from = to;
      if (node === range.endContainer) to = range.endOffset;
      else if (range.comparePoint(node, length) > 0) to = 0;
      if (from >= to) continue;
      [first, last] = [Math.min(first, begins + from), Math.max(last, begins + to)];
    }
    if (first >= last) return null;
    const [begin, end] = snapped(text, first, last);
    const pieces = [];
    for (const { node, begins, at } of nodes) {
      const [from, to] = [Math.max(0, begin - begins), Math.min(node.data.length, end - begins)];
      if (at === undefined || from >= to) continue; // it has no certain place in what the model wrote
      const start = Number(at) + characters(node.data.slice(0, from));
      const words = node.data.slice(from, to);
      pieces.push({ start, end: start + characters(words), words });
    }
    const words = pieces.map((piece) => piece.words).join("");
    if (!words.trim()) return null;
    return { start: pieces[0].start, end: pieces[pieces.length - 1].end, words };
  }

  function show() {
    const toolbar = bar();
    if (!toolbar) return;
    const what = chosen();
    toolbar.hidden = !what || what.plain; // the plain text has buttons of its own
    if (toolbar.hidden) return;
    const spot = what.place.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = toolbar;
    const below = spot.bottom + 8;
    const fits = below + height < window.innerHeight;
    toolbar.style.top = `${Math.max(8, fits ? below : spot.top - height - 8)}px`;
    const middle = spot.left + spot.width / 2 - width / 2;
    toolbar.style.left = `${Math.min(Math.max(8, middle), window.innerWidth - width - 8)}px`;
  }

  function mark(value) {
    const what = chosen();
    const form = what && document.getElementById(`mark-form-${what.turn}`);
    if (!form) return false;
    const { start, end, words, plain } = what;
    for (const [name, said] of Object.entries({ start, end, words, value, plain: plain ? "1" : "" })) {
      form.elements[name].value = said;
    }
    form.requestSubmit();
    if (!plain) document.getSelection().removeAllRanges();
    bar().hidden = true;
    return true;
  }

  let waiting = 0;
  const soon = () => {
    clearTimeout(waiting);
    waiting = setTimeout(show, 120);
  };
  document.addEventListener("selectionchange", soon);
  document.addEventListener("scroll", soon, true);
  window.addEventListener("resize", soon);

  // A press on a button must not take away what it is about.
  document.addEventListener("pointerdown", (event) => {
    if (event.target.closest("#marker, .mark-buttons [data-mark]")) event.preventDefault();
  });
  document.addEventListener("mousedown", (event) => {
    if (event.target.closest("#marker, .mark-buttons [data-mark]")) event.preventDefault();
  });

  // The plain text is there to be selected from: a box that is read-only has no caret to do so by keyboard.
  document.addEventListener("beforeinput", (event) => {
    if (event.target.matches("textarea.plain-words[data-turn]")) event.preventDefault();
  });

  // A person who comes to the buttons of the plain text by Tab has left its selection there.
  let left = null;
  document.addEventListener("focusout", (event) => {
    if (event.target.matches("textarea.plain-words[data-turn]")) left = event.target;
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-mark]");
    if (!button) return;
    const panel = button.closest(".panel");
    if (panel && left && panel.contains(left) && !chosen()) left.focus();
    if (!mark(Number(button.dataset.mark)) && panel) trouble(panel, gettext("Select some words first, here or in the reply."));
  });

  function trouble(panel, sentence) {
    const note = panel.querySelector("[id^=mark-trouble-]");
    if (!note) return;
    note.textContent = sentence;
    note.hidden = false;
  }

  document.addEventListener("keydown", (event) => {
    if (event.isComposing || event.metaKey || event.ctrlKey || event.altKey) return;
    const inPlain = event.target.matches("textarea.plain-words");
    if (!inPlain && event.target.closest("input, textarea, select, [contenteditable]")) return;
    if (event.key === "Escape" && bar() && !bar().hidden) {
      document.getSelection().removeAllRanges();
      bar().hidden = true;
    } else if (event.key in SIGNS && mark(SIGNS[event.key])) {
      event.preventDefault();
    }
  });

  // Words that the reader is selecting just now are not drawn anew for a mark that is on them already.
  document.addEventListener("htmx:oobBeforeSwap", (event) => {
    const { target, fragment } = event.detail;
    if (!target.matches(".prose[data-turn]")) return;
    const arriving = fragment.matches?.(".prose") ? fragment : fragment.querySelector(".prose");
    if (arriving && arriving.innerHTML === target.innerHTML) event.detail.shouldSwap = false;
  });
})();
