// Turns, and parts of them, that come to an open page: which place each takes, and when.
"use strict";

// A pushed fragment with an id that the page knows takes the old one's place; only what is new is put at the end.
document.addEventListener("htmx:oobBeforeSwap", (event) => {
  const arriving = event.detail.fragment;
  for (const child of arriving ? [...arriving.children] : []) {
    const standing = child.id && event.detail.target.id !== child.id && document.getElementById(child.id);
    if (standing) settle(standing, child, event.detail.target);
    else if ("after" in child.dataset) makeRoom(child);
  }
  const chip = arriving && event.detail.target.matches("details.journey[open]:not(:active)") ? event.detail.target : null;
  if (chip) reopen(arriving.matches?.("details") ? arriving : find("details", arriving));
});

function settle(standing, arriving, target = null) {
  keepSaved(standing, arriving);
  if (waits(standing)) {
    settleLater(arriving); // in its turn
  } else if (arriving.matches(".turn.answering") && !(goesOn(arriving) && !goesOn(standing))) {
    arriving.remove(); // may have been overtaken on its way: what stands is as new, or newer, but for its words
    const [said, words] = [standing, arriving].map((turn) => find(".reply > .prose", turn));
    if (standing.matches(".answering") && words.textContent.length > said.textContent.length) {
      said.replaceChildren(...words.childNodes);
    }
  } else if (arriving.matches(".turn") && saysTheSame(standing, arriving)) {
    arriving.remove(); // what is selected or opened in the one that stands is left alone
  } else if (!standing.contains(target)) {
    if (isPressed(standing)) settleLater(arriving);
    else takePlace(standing, arriving);
  }
}

function settleLater(arriving) {
  arriving.remove();
  takeLater(arriving.id, () => {
    const standing = document.getElementById(arriving.id);
    if (standing) settle(standing, arriving);
  });
}

function takePlace(standing, arriving) {
  const comeBack = leave(standing);
  keepTyping(standing, arriving);
  keepOpen(standing, arriving);
  standing.replaceWith(arriving);
  window.htmx.process(arriving);
  shareLately(arriving);
  comeBack();
}

// The rest of a cut reply is being written, in its own place.
const goesOn = (turn) => turn.matches(".turn.answering[data-continued]");

// A new turn continues one that is on the page: what stood behind that is of another branch now.
function makeRoom(turn) {
  const before = document.getElementById(`turn-${turn.dataset.after}`);
  if ("elsewhere" in turn.dataset) return turn.remove();
  if (turn.dataset.after && !before) {
    turn.remove();
    return refresh(); // of a branch that parts from this one further up
  }
  for (const one of document.querySelectorAll("#turns > article")) {
    if (!before || before.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING) one.remove();
  }
  if (!before) document.getElementById("earlier")?.remove();
}

// A message continues what its person sees last; a switch moves nothing but what it switches.
document.addEventListener("htmx:configRequest", ({ target, detail }) => {
  const last = target === composer() && [...document.querySelectorAll("#turns > article[data-after]")].pop();
  if (last) detail.parameters.after = last.id.replace("turn-", "");
  if (target.closest(".switch")) follow = false;
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
document.addEventListener("htmx:beforeRequest", ({ detail }) => {
  for (const one of [detail.elt, detail.target]) one.addEventListener("htmx:beforeSwap", land); // out of the page, each alone
});
document.addEventListener("htmx:beforeSwap", land); // where the answer's own place is another than the form

function land({ detail }) {
  if (detail.requestConfig.elt.isConnected || !detail.shouldSwap) return;
  detail.shouldSwap = false;
  const [place, swapStyle] = detail.target.isConnected ? [detail.target, "outerHTML"] : [document.body, "none"];
  const select = detail.requestConfig.elt.closest("[hx-select]")?.getAttribute("hx-select"); // of a whole page this part
  window.htmx.swap(place, detail.serverResponse, { swapStyle, swapDelay: 0, settleDelay: 0 }, { select });
}

// Reasons that the reader is choosing just now are theirs, while they are of the same thumb: what is pushed meanwhile
// shows the same a moment older. And a press, on them or on a thumb, that began on what is replaced would be no click.
const thumbIn = (reasons) => find("[name=value]", reasons)?.value;

document.addEventListener("htmx:oobBeforeSwap", (event) => {
  const { target, fragment } = event.detail;
  const isBusy = target.matches(".reasons") && (target.matches(":focus-within, :active") || find(".htmx-request", target));
  const isPressed = target.matches(".thumbs") && find(":active", target);
  if (isPressed || (isBusy && thumbIn(target) === thumbIn(fragment))) event.detail.shouldSwap = false;
});

// A reason that was not taken is not left looking as if it were.
document.addEventListener("htmx:afterRequest", (event) => {
  if (event.target.matches(".reasons form") && !event.detail.successful) refresh();
});
