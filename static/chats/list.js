// The list of chats: its menu stands beside the row that opened it, Ctrl+K leads to its search, a link to a turn to that.
"use strict";

const rowMenu = () => document.getElementById("row-menu");
let opener = null;

// The menu of a row comes from the server, and stands where its button is, within the window.
document.addEventListener("htmx:afterSwap", ({ detail }) => {
  const menu = rowMenu();
  if (!menu || detail.target !== menu) return;
  opener = detail.requestConfig.elt;
  opener.setAttribute("aria-expanded", "true");
  menu.showPopover();
  const [from, own] = [opener.getBoundingClientRect(), menu.getBoundingClientRect()];
  menu.style.left = `${Math.max(8, Math.min(from.left, innerWidth - own.width - 8))}px`;
  menu.style.top = `${Math.max(8, Math.min(from.bottom + 4, innerHeight - own.height - 8))}px`;
  find("input:not([type=hidden])", menu)?.focus({ preventScroll: true });
});

document.addEventListener(
  "toggle",
  (event) => {
    if (event.target !== rowMenu() || event.newState !== "closed") return;
    opener?.removeAttribute("aria-expanded");
    if (opener?.isConnected) opener.focus({ preventScroll: true });
    opener = null;
  },
  true,
);

// What was done is seen in the list, which has come back with the answer; the way back is the next key.
document.addEventListener("htmx:afterSwap", ({ detail }) => {
  const list = document.getElementById("chat-list");
  if (!list || detail.target?.id !== "chat-list") return;
  const form = detail.requestConfig.elt;
  if (form.closest("#row-menu")) rowMenu().hidePopover();
  for (const part of list.querySelectorAll("template")) part.remove();
  find(".gone button", list)?.focus({ preventScroll: true });
});

document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
  const search = find(".chat-search input");
  if (!search) return;
  event.preventDefault();
  const side = search.closest("[popover]");
  if (side && !search.checkVisibility()) side.showPopover();
  search.focus();
  search.select();
});

// Who came for a turn sees it, and not the end of the chat.
document.addEventListener("DOMContentLoaded", () => {
  const turn = location.hash.startsWith("#turn-") && document.getElementById(location.hash.slice(1));
  const area = turn && turn.closest(".scroll");
  if (!area) return;
  follow = false;
  area.scrollTop += turn.getBoundingClientRect().top - area.getBoundingClientRect().top - 24;
});
