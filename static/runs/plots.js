// Plots of figures by uPlot: one chart over many steps or minutes, drawn in the colours and dashes of its picture.
"use strict";

window.plots = (() => {
  const HEIGHT = 220;
  const RAW = 0.3; // how strongly the measured line shows behind a smoothed one

  const short = (value) => (value == null ? "–" : String(Number(value.toPrecision(4))).replace("-", "−"));

  // A probe wears a class of the stylesheet, so that the palette stands there alone.
  function worn(host, name, svg) {
    const probe = svg ? document.createElementNS("http://www.w3.org/2000/svg", "g") : document.createElement("span");
    probe.setAttribute("class", name);
    const inner = svg ? probe.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "path")) : probe;
    host.append(probe);
    const style = getComputedStyle(inner);
    const found = { color: style.color, dash: (style.strokeDasharray || "").match(/[\d.]+/g)?.map(Number) || [] };
    probe.remove();
    return found;
  }

  function faded(color) {
    return color.replace(/^rgb\((.*)\)$/, (_, parts) => `rgba(${parts}, ${RAW})`);
  }

  // An exponential mean that forgets by distance, so that a line of which points were left out is smoothed alike.
  function smoothed(xs, ys, weight, unit) {
    let mean = null;
    let last = null;
    return ys.map((y, at) => {
      if (y == null) return y;
      if (mean == null) mean = y;
      else {
        const keep = weight ** Math.max(0, (xs[at] - last) / unit);
        mean = keep * mean + (1 - keep) * y;
      }
      last = xs[at];
      return mean;
    });
  }

  // Of several values at one place the last stays: uPlot wants places that rise.
  function rising(xs, ys) {
    const kept = new Map(xs.map((x, at) => [x, ys[at]]));
    const places = [...kept.keys()].sort((one, other) => one - other);
    return [places, places.map((x) => kept.get(x))];
  }

  function tables(chart, shown) {
    let lost = 0;
    const made = chart.lines.map((line) => {
      const along = chart.by === "time" ? line.times.map((time) => time / 60) : line.steps;
      const [xs, all] = rising(along, line.values);
      const ys = all.map((y) => {
        if (!shown.isLog || y == null || y > 0) return y;
        lost += 1;
        return null; // a logarithm has no place for it
      });
      const unit = xs.length > 1 ? (chart.by === "time" ? (xs.at(-1) - xs[0]) / (xs.length - 1) : 1) : 1;
      return shown.smooth ? [xs, ys, smoothed(xs, ys, shown.smooth, unit || 1)] : [xs, ys];
    });
    return { made, lost };
  }

  function series(chart, shown, host) {
    const made = [{ label: shown.words[chart.by], value: (_, x) => short(x) }];
    for (const line of chart.lines) {
      const { color } = worn(host, `line-${line.tone}`, false);
      const { dash } = worn(host, `line-${line.tone}`, true);
      const raw = { label: line.label, stroke: color, width: 2, dash, value: (_, y) => short(y) };
      if (!shown.smooth) {
        made.push(raw);
        continue;
      }
      const at = made.length;
      made.push({ ...raw, stroke: faded(color), width: 1, dash: [], class: "is-raw", points: { show: false } });
      const both = (plot, y, number, place) =>
        place == null || y == null ? "–" : `${short(plot.data[at][place])}, ${shown.words.smoothed} ${short(y)}`;
      made.push({ ...raw, value: both, points: { show: false } });
    }
    return made;
  }

  // How far from a point its value is still read: half-way to the next one, and not beyond the end of its line.
  function reach(chart) {
    return (plot, number) => {
      const each = (plot.series.length - 1) / chart.lines.length; // two where a smoothed line lies over its own
      const points = chart.lines[Math.floor((number - 1) / each)].values.length;
      return Math.max(16, plot.over.clientWidth / Math.max(1, points));
    };
  }

  // The limit, where it is near enough to be seen beside the figures.
  function limitOf(chart) {
    if (chart.limit == null) return null;
    const highest = Math.max(...chart.lines.flatMap((line) => line.values.filter((value) => value != null)));
    return chart.limit > 4 * highest ? null : chart.limit;
  }

  function heights(chart, shown, limit) {
    return (_, low, high) => {
      if (low == null) return [0, 1];
      const top = limit == null ? high : Math.max(high, limit);
      if (shown.isLog) return uPlot.rangeLog(low, top, 10, false);
      return uPlot.rangeNum(chart.from_zero ? Math.min(0, low) : low, top, 0.1, true);
    };
  }

  // Draw a chart into `host`. `shown`: {isLog, smooth, words, onZoom(plot), onReset()}. Returns {plot, lost}.
  function draw(chart, host, shown) {
    const { made, lost } = tables(chart, shown);
    const ink = getComputedStyle(host).color;
    const rule = worn(host, "plot-rule", false).color;
    const warn = worn(host, "plot-limit", false).color;
    const limit = limitOf(chart);
    const axis = { stroke: ink, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, width: 1 } };
    const options = {
      width: Math.max(240, host.clientWidth),
      height: HEIGHT,
      scales: { x: { time: false }, y: { distr: shown.isLog ? 3 : 1, range: heights(chart, shown, limit) } },
      axes: [
        { ...axis, label: shown.words[chart.by], labelSize: 18, size: 32 },
        { ...axis, size: 62, values: (_, marks) => marks.map((mark) => (mark == null ? "" : short(mark))) },
      ],
      series: series(chart, shown, host),
      cursor: {
        hover: { prox: reach(chart) },
        sync: { key: `runs-${chart.by}`, scales: ["x", null], setSeries: false },
        drag: { x: true, y: false, dist: 6 },
        bind: { dblclick: () => () => { shown.onReset(); return null; } },
      },
      hooks: {
        setScale: [(plot, key) => key === "x" && shown.onZoom(plot)],
        draw: [
          (plot) => {
            if (limit == null) return;
            const y = plot.valToPos(limit, "y", true);
            const { left, top, width, height } = plot.bbox;
            if (y < top || y > top + height) return;
            plot.ctx.save();
            plot.ctx.strokeStyle = warn;
            plot.ctx.lineWidth = devicePixelRatio;
            plot.ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
            plot.ctx.beginPath();
            plot.ctx.moveTo(left, y);
            plot.ctx.lineTo(left + width, y);
            plot.ctx.stroke();
            plot.ctx.restore();
          },
        ],
      },
    };
    return { plot: new uPlot(options, uPlot.join(made), host), lost };
  }

  return { draw };
})();
