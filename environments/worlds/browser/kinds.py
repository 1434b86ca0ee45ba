"""MiniWoB's page kinds: which are played, which are held out, and which cannot be played and why."""

from __future__ import annotations

from collections.abc import Mapping

# fmt: off
TRAIN = (
    "ascending-numbers", "book-flight", "book-flight-nodelay", "buy-ticket", "choose-date", "choose-date-easy",
    "choose-date-medium", "choose-date-nodelay", "choose-list", "click-button", "click-button-sequence",
    "click-checkboxes", "click-checkboxes-large", "click-checkboxes-soft", "click-checkboxes-transfer", "click-color",
    "click-dialog", "click-dialog-2", "click-link", "click-option", "click-scroll-list",
    "click-shape", "click-tab", "click-tab-2", "click-tab-2-easy", "click-tab-2-hard", "click-tab-2-medium",
    "click-test", "click-test-2", "click-test-transfer", "copy-paste", "copy-paste-2", "count-shape", "email-inbox",
    "email-inbox-delete", "email-inbox-forward", "email-inbox-forward-nl", "email-inbox-forward-nl-turk",
    "email-inbox-important", "email-inbox-nl-turk", "email-inbox-noscroll", "email-inbox-reply",
    "email-inbox-star-reply", "enter-date", "enter-password", "enter-text", "enter-text-2", "enter-text-dynamic",
    "find-word", "focus-text", "focus-text-2", "generate-number", "guess-number", "identify-shape", "login-user",
    "login-user-popup", "navigate-tree", "odd-or-even", "order-food", "phone-book", "scroll-text", "scroll-text-2",
    "simple-arithmetic", "terminal", "text-transform", "tic-tac-toe", "use-autocomplete", "use-autocomplete-nodelay",
    "use-colorwheel", "use-slider", "use-slider-2",
)
HELDOUT = (
    "click-collapsible", "click-collapsible-2", "click-collapsible-2-nodelay", "click-collapsible-nodelay",
    "click-widget", "enter-time", "form-sequence", "form-sequence-2", "form-sequence-3", "grid-coordinate",
    "multi-layouts", "multi-orderings", "read-table", "read-table-2", "search-engine", "sign-agreement",
    "simple-algebra", "social-media-all", "social-media-some", "unicode-test", "use-spinner",
)
"""Kinds that are alike are of one split: no kind here is a variant of one that trains."""

_WHY = {
    "its buttons hear no click of this kind": (
        "social-media",
    ),
    "what is to be clicked is a place, and no element": (
        "bisect-angle", "circle-center", "find-midpoint", "hot-cold", "right-angle",
    ),
    "it is won by speed": (
        "button-delay", "moving-items", "simon-says", "stock-market",
    ),
    "it follows a mouse that hovers": (
        "chase-circle", "hover-shape",
    ),
    "its menu opens under a mouse that hovers": (
        "click-menu", "click-menu-2", "click-pie", "click-pie-nodelay",
    ),
    "it asks for shades, and colours are told by their nearest name": (
        "click-shades",
    ),
    "what it asks of is drawn, and has no text": (
        "count-sides", "number-checkboxes", "use-colorwheel-2", "visual-addition",
    ),
    "it is done by dragging": (
        "daily-calendar", "drag-box", "drag-circle", "drag-cube", "drag-items", "drag-items-grid", "drag-shapes",
        "drag-shapes-2", "drag-single-shape", "drag-sort-numbers", "draw-circle", "draw-line", "resize-textarea",
    ),
    "it awards a wrong card as well": (
        "find-greatest",
    ),
    "it asks for text to be marked by dragging": (
        "highlight-text", "highlight-text-2", "text-editor",
    ),
}
# fmt: on
PLAYED = (*TRAIN, *HELDOUT)
UNPLAYED: Mapping[str, str] = {kind: why for why, kinds in _WHY.items() for kind in kinds}
"""By kind, why these actions and this view do not do."""
