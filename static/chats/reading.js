// Reading along: the end of the chat is followed, what was missed is fetched, and earlier turns come in above.
"use strict";

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
  if (isPressed(standing) || waiting.length) return takeLater("", refresh);
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
