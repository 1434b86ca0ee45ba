// Words of scripts in the reader's language: by the catalogue that came with the page, else in English.
"use strict";

window.gettext ??= (words) => words;
window.ngettext ??= (one, more, count) => (count === 1 ? one : more);

// "Theme: %(name)s" with its name. What comes out is text, and never markup.
window.fill = (words, values) => words.replace(/%\((\w+)\)s/g, (_, name) => String(values[name]));
