// Files with a message: chosen by the button, dropped on the chat, or pasted. Each is listed with a way to take it off,
// a picture by how it looks.
// What cannot be read the server says; nothing of the message is lost.
"use strict";

(() => {
  const input = document.querySelector("#composer input[type=file]");
  const list = document.getElementById("attached");
  if (!input || !list) return;
  let held = [];

  // CSP lets a page show its own addresses and data: URLs, and no others.
  function look(file) {
    if (!/^image\/(png|jpeg|webp|gif)$/.test(file.type)) return [];
    const small = Object.assign(document.createElement("img"), { alt: "", className: "look" });
    const reader = new FileReader();
    reader.addEventListener("load", () => (small.src = reader.result));
    reader.readAsDataURL(file);
    return [small];
  }

  function hold(files) {
    held = files;
    const transfer = new DataTransfer();
    for (const file of held) transfer.items.add(file);
    input.files = transfer.files;
    list.hidden = !held.length;
    list.replaceChildren(
      ...held.map((file, at) => {
        const row = document.createElement("li");
        row.className = "chip";
        const off = Object.assign(document.createElement("button"), { type: "button", textContent: "×", className: "link" });
        off.setAttribute("aria-label", fill(gettext("Take off %(name)s"), { name: file.name }));
        off.addEventListener("click", () => {
          hold(held.filter((_, n) => n !== at));
          box().focus();
        });
        row.append(...look(file), `${file.name} `, off);
        return row;
      }),
    );
  }

  const same = (one, other) => ["name", "size", "type", "lastModified"].every((fact) => one[fact] === other[fact]);

  // Every way in ends here: what is chosen a second time is said and left out, as the model would read it twice.
  function add(chosen) {
    if (!chosen.length) return;
    const files = chosen.filter((file, at) => ![...held, ...chosen.slice(0, at)].some((other) => same(file, other)));
    hold([...held, ...files]);
    if (!files.length) return announce(fill(gettext("%(name)s is attached already."), { name: chosen[0].name }));
    const one = fill(gettext("%(name)s is added."), { name: files[0].name });
    announce(files.length === 1 ? one : fill(gettext("%(n)s files are added."), { n: files.length }));
  }

  input.addEventListener("change", () => {
    add([...input.files]);
    box().focus();
  });

  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  const place = document.querySelector(".talk");
  for (const kind of ["dragover", "dragenter"]) {
    place.addEventListener(kind, (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      place.classList.add("dropping");
    });
  }
  place.addEventListener("dragleave", (event) => {
    if (!place.contains(event.relatedTarget)) place.classList.remove("dropping");
  });
  place.addEventListener("drop", (event) => {
    place.classList.remove("dropping");
    if (!hasFiles(event)) return;
    event.preventDefault();
    add([...event.dataTransfer.files]);
    box().focus();
  });

  box().addEventListener("paste", (event) => {
    const files = [...event.clipboardData.files];
    if (!files.length) return;
    event.preventDefault();
    add(files);
  });

  document.addEventListener("htmx:afterRequest", ({ target, detail }) => {
    if (target === composer() && detail.successful && !isLogin(detail.xhr)) hold([]);
  });
})();
