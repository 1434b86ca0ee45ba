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
      if (input.value.trim() && Number.isFinite(value) && (!isLog || value > 0)) slider.value = of(value);
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

  document.addEventListener("htmx:afterSettle", (event) => {
    slideAll();
    const title = event.detail.elt.id === "recipe-form" && document.getElementById("recipe-change-title");
    const wrong = document.querySelector("#recipe-form [aria-invalid]");
    (wrong || title)?.focus();
  });
  slideAll();
})();
