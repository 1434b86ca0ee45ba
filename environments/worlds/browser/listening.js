// Runs before any script of a page, once a document. It notes which elements listen to a mouse, since pages rarely say
// so in their markup; it draws the page's chances from a seed until the page draws them itself; and it keeps the real
// frames of the browser, since the page's own clock stands still between two actions.
(seed) => {
  const MOUSE = new Set(["click", "dblclick", "mousedown", "mouseup", "pointerdown", "pointerup", "touchstart"]);
  const listening = new WeakSet();
  const add = EventTarget.prototype.addEventListener;
  EventTarget.prototype.addEventListener = function (kind, ...rest) {
    if (MOUSE.has(kind)) listening.add(this);
    return add.call(this, kind, ...rest);
  };
  let state = seed >>> 0;
  Math.random = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const frame = window.requestAnimationFrame.bind(window);
  Object.defineProperty(window, "__seen", { value: { listening, numbered: [], frame } });
}
