// What each page can say by itself: that something was done, that it failed, and that its person is signed out.
// Every script is a convenience: without it a message is still sent.
"use strict";

const find = (selector, within = document) => within.querySelector(selector);

function announce(words) {
  const announcer = document.getElementById("announcer");
  if (announcer) announcer.textContent = words;
}

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
