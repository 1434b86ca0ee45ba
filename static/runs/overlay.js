// Figures of runs: fetch them and draw them in place of the pictures, on the page of one run and of several over one
// another. Where there are controls, the address keeps what was chosen.
"use strict";

(() => {
  const root = document.querySelector("[data-overlay]");
  if (!root || !window.uPlot) return;
  const form = document.getElementById("overlay-controls"); // a run's own page has none
  const control = (name, usual) => (form ? form.elements[name].value : usual);

  let charts = [];
  let drawn = []; // {chart, plot, host}
  let following = false;
  const ranges = {}; // what is zoomed to: a plot that was just made does not say it yet

  const shown = () => ({
    isLog: control("scale", "linear") === "log",
    smooth: Number(control("smooth", 0)),
    words: { step: gettext("update"), time: gettext("minute"), smoothed: gettext("smoothed") },
    onZoom: follow,
    onReset: reset,
  });

  // All charts that count the same along their foot show the same stretch of it.
  function follow(plot) {
    if (following) return;
    const from = drawn.find((one) => one.plot === plot);
    if (!from) return; // it is being made
    const { min, max } = plot.scales.x;
    stretch(from.chart.by, min, max);
  }

  function stretch(by, min, max) {
    ranges[by] = [min, max];
    following = true;
    for (const one of drawn) if (one.chart.by === by) one.plot.setScale("x", { min, max });
    following = false;
  }

  function whole(by) {
    const ends = drawn.filter((one) => one.chart.by === by).flatMap((one) => [one.plot.data[0][0], one.plot.data[0].at(-1)]);
    const [min, max] = [Math.min(...ends), Math.max(...ends)];
    return min < max ? [min, max] : [min - 0.5, max + 0.5];
  }

  function reset() {
    for (const by of new Set(drawn.map((one) => one.chart.by))) stretch(by, ...whole(by));
  }

  function draw() {
    for (const one of drawn) one.plot.destroy();
    drawn = [];
    for (const chart of charts) {
      const figure = document.getElementById(`chart-${chart.key}`);
      if (!figure?.querySelector(":scope > svg path, :scope > .plot")) continue; // no line: a strip, or one point
      const host = figure.querySelector(".plot") || place(figure);
      const { plot, lost } = plots.draw(chart, host, shown());
      drawn.push({ chart, plot, host });
      note(figure, lost);
    }
    for (const by of new Set(drawn.map((one) => one.chart.by))) stretch(by, ...(ranges[by] || whole(by)));
  }

  function place(figure) {
    const host = document.createElement("div");
    host.className = "plot";
    host.tabIndex = 0;
    host.setAttribute("role", "group");
    host.setAttribute("aria-label", figure.querySelector("svg")?.getAttribute("aria-label") || figure.querySelector("h3").textContent);
    host.addEventListener("keydown", (event) => steer(event, host));
    figure.querySelector("figcaption").before(host);
    figure.classList.add("is-plotted");
    return host;
  }

  function note(figure, lost) {
    figure.querySelector(".plot-lost")?.remove();
    if (!lost) return;
    const said = document.createElement("p");
    said.className = "plot-lost small note warn";
    const why = gettext("Values at or below 0 have no place on a logarithmic scale. Left out: %(n)s");
    said.textContent = fill(why, { n: lost });
    figure.querySelector("figcaption").before(said);
  }

  function steer(event, host) {
    const one = drawn.find((each) => each.host === host);
    if (!one || event.ctrlKey || event.metaKey || event.altKey) return;
    const { plot, chart } = one;
    const xs = plot.data[0];
    const at = plot.cursor.idx;
    const { min, max } = plot.scales.x;
    const middle = at == null ? (min + max) / 2 : xs[at];
    const zoom = (by) => stretch(chart.by, middle - (middle - min) * by, middle + (max - middle) * by);
    const read = (to) => plot.setCursor({ left: Math.max(0, plot.valToPos(xs[Math.min(xs.length - 1, Math.max(0, to))], "x")), top: 10 }, true, true);
    const acts = {
      ArrowLeft: () => read(at == null ? xs.length - 1 : at - 1),
      ArrowRight: () => read(at == null ? 0 : at + 1),
      "+": () => zoom(0.5),
      "-": () => zoom(2),
      0: reset,
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    acts[event.key]();
  }

  function keep() {
    const said = new URLSearchParams(new FormData(form));
    if (said.get("scale") === "linear") said.delete("scale");
    if (Number(said.get("smooth")) === 0) said.delete("smooth");
    history.replaceState(null, "", `?${said}`);
  }

  const trouble = document.getElementById("overlay-trouble");

  async function fetched() {
    const address = new URL(root.dataset.overlay, location.href);
    address.searchParams.set("x", control("x", "step"));
    try {
      const answer = await fetch(address, { headers: { Accept: "application/json" } });
      if (!answer.ok) throw new Error(String(answer.status));
      charts = (await answer.json()).charts;
    } catch {
      if (trouble) trouble.hidden = false;
      return false;
    }
    if (trouble) trouble.hidden = true;
    return true;
  }

  async function begin() {
    if (!(await fetched())) return;
    for (const one of document.querySelectorAll("[data-scripted]")) one.hidden = false;
    for (const one of document.querySelectorAll("[data-show]")) one.hidden = true;
    draw();
    root.dataset.drawn = drawn.length;
  }

  form?.addEventListener("change", async (event) => {
    keep();
    if (event.target.name === "runs") return location.reload();
    if (event.target.name === "x") {
      for (const one of drawn) one.plot.destroy();
      drawn = [];
      if (!(await fetched())) return;
    }
    draw();
  });
  form?.elements.smooth.addEventListener("input", () => {
    form.querySelector("output").textContent = form.elements.smooth.value;
    draw();
  });
  form?.querySelector("[data-reset]").addEventListener("click", reset);
  new ResizeObserver(() => {
    for (const one of drawn) one.plot.setSize({ width: Math.max(240, one.host.clientWidth), height: one.plot.height });
  }).observe(root);
  new MutationObserver(draw).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  begin();
})();
