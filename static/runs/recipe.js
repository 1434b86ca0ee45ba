// A recipe's few knobs get a slider beside the number; both say the same. A logarithmic one turns the power of ten.
"use strict";

(() => {
  function slide(input) {
    if (input.dataset.slid) return;
    input.dataset.slid = "yes";
    const isLog = "log" in input.dataset;
    const of = isLog ? Math.log10 : Number;
    const slider = document.createElement("input");
    slider.type = "range";
    slider.min = of(Number(input.dataset.low));
    slider.max = of(Number(input.dataset.high));
    slider.step = input.dataset.step;
    slider.setAttribute("aria-label", input.labels[0].firstChild.textContent.trim());
    const follow = () => {
      const value = Number(input.value);
      if (!input.value.trim()) slider.value = slider.max; // all of it
      else if (Number.isFinite(value) && (!isLog || value > 0)) slider.value = of(value);
      slider.setAttribute("aria-valuetext", input.value || input.placeholder);
    };
    slider.addEventListener("input", () => {
      const value = isLog ? 10 ** Number(slider.value) : Number(slider.value);
      input.value = String(Number(value.toPrecision(2 + !isLog)));
      slider.setAttribute("aria-valuetext", input.value);
    });
    input.addEventListener("input", follow);
    input.after(slider);
    follow();
  }

  const slideAll = () => document.querySelectorAll(".knob input[data-low]").forEach(slide);

  // A preset shows its values, and what they would change, as soon as it is chosen; the choice keeps the focus.
  let chosen = "";
  document.addEventListener("change", (event) => {
    const form = event.target.closest("#recipe-form form");
    if (!form || event.target.name !== "preset") return;
    chosen = event.target.value;
    form.requestSubmit(form.querySelector("button[value=preview]"));
  });

  document.addEventListener("htmx:afterSettle", (event) => {
    slideAll();
    if (event.detail.elt.id !== "recipe-form") return;
    const card = chosen && document.querySelector(`#recipe-form input[name=preset][value="${CSS.escape(chosen)}"]`);
    chosen = "";
    if (card) return card.focus();
    const wrong = document.querySelector("#recipe-form [aria-invalid]");
    (wrong || document.getElementById("recipe-change-title"))?.focus();
  });
  slideAll();
})();
