"use strict";
// Draws the plots of a report from the JSON block in the page. All text comes from there as text
// and never becomes markup.
(() => {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const darkGround = window.matchMedia("(prefers-color-scheme: dark)");
  let printing = false;
  const isDark = () => darkGround.matches && !printing;
  const colours = () => (isDark()
    ? { variants: data.palette.dark, ink: "#e8ebef", faint: "#9aa4b1", grid: "#272c33", ground: "#15181c" }
    : { variants: data.palette.light, ink: "#1b1f24", faint: "#5b6470", grid: "#e8ebef", ground: "#ffffff" });
  const FONT = "12px system-ui, sans-serif";
  const MS = 1e6;

  /** A latency in milliseconds as text, like the tables have it. */
  function latencyText(ms) {
    if (ms === 0) return "0";
    const [value, unit] = ms < 0.9995 ? [ms * 1e3, "\u00b5s"] : ms < 999.5 ? [ms, "ms"] : [ms / 1e3, "s"];
    return `${Number(value.toPrecision(3))}\u202f${unit}`;
  }

  /** A share as text, with the digits that a tail needs. */
  function shareText(share) {
    const percent = share * 100;
    const digits = percent > 0 && percent < 1 ? Math.min(6, Math.ceil(-Math.log10(percent)) + 1) : 1;
    return `${percent.toFixed(digits)}\u202f%`;
  }

  /** The value of a step function at every one of the sorted `xs`; null where it is not known. */
  function evaluate(steps, xs) {
    const { at_ns: at, cumulative } = steps;
    const complete = cumulative[cumulative.length - 1] >= 1;
    let index = -1;
    return xs.map((x) => {
      while (index + 1 < at.length && at[index + 1] <= x) index += 1;
      if (index + 1 === at.length && !complete && x > at[index]) return null;
      return index < 0 ? 0 : cumulative[index];
    });
  }

  /** The tail instead of the share. The line ends where it leaves the axis, or runs along its edge
   *  for as long as `other`, the other side of its bracket, goes on, so that the band is closed. */
  function tails(values, floor, other) {
    let ended = false;
    return values.map((value, index) => {
      if (value === null) return null;
      if (ended) return other && other[index] !== null ? floor : null;
      const tail = 1 - value;
      if (tail >= floor) return tail;
      ended = true;
      return floor;
    });
  }

  class Plot {
    constructor(figure) {
      this.figure = figure;
      this.model = data.plots[Number(figure.dataset.plot)];
      this.axis = "share";
      this.scale = this.model.scale;
      this.hidden = new Set();
      this.holder = figure.querySelector(".canvas");
      this.outputs = [...figure.querySelectorAll(".legend output")];
      this.listen();
      this.draw();
    }

    listen() {
      for (const name of ["axis", "scale"]) {
        const buttons = [...this.figure.querySelectorAll(`button[data-${name}]`)];
        for (const button of buttons) {
          button.addEventListener("click", () => {
            this[name] = button.dataset[name];
            for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
            this.draw();
          });
        }
      }
      for (const button of this.figure.querySelectorAll("button[data-series]")) {
        button.addEventListener("click", () => {
          const place = Number(button.dataset.series);
          const hide = !this.hidden.has(place);
          if (hide) this.hidden.add(place); else this.hidden.delete(place);
          button.setAttribute("aria-pressed", String(!hide));
          for (const line of this.lines) {
            if (line.place === place) this.chart.setSeries(line.index, { show: !hide });
          }
          this.tell();
        });
      }
      new ResizeObserver(() => {
        const width = this.holder.clientWidth;
        if (width > 0 && width !== this.chart.width) this.chart.setSize({ width, height: this.height() });
      }).observe(this.holder);
    }

    height() { return Math.round(Math.min(420, Math.max(280, this.holder.clientWidth * 0.5))); }

    tell() {
      this.figure.dataset.axis = this.axis;
      this.figure.dataset.scale = this.scale;
      this.figure.dataset.visible = String(this.model.series.length - this.hidden.size);
      this.figure.querySelector(".axis-title").textContent = this.axis === "share"
        ? this.model.share_title : this.model.tail_title;
    }

    /** The columns that the chart wants: latencies in ms, then a column per line. */
    columns() {
      const all = new Set();
      for (const series of this.model.series) {
        for (const steps of [series.upper, series.lower]) {
          if (steps) for (const at of steps.at_ns) all.add(at);
        }
      }
      const longest = Math.max(this.model.share_extent_ns, this.model.tail_extent_ns);
      if (this.scale === "linear") all.add(0);
      all.add(longest);
      const xs = [...all].filter((x) => this.scale === "linear" || x > 0).sort((a, b) => a - b);
      const columns = [xs.map((x) => x / MS)];
      this.lines = [];
      this.model.series.forEach((series, place) => {
        const floor = this.model.tail_floor;
        const lower = series.lower && tails(evaluate(series.lower, xs), floor);
        for (const part of ["upper", "lower"]) {
          if (!series[part]) continue;
          const shares = evaluate(series[part], xs);
          if (this.axis === "share") columns.push(shares);
          else columns.push(part === "lower" ? lower : tails(shares, floor, lower));
          this.lines.push({ place, part, series, index: columns.length - 1 });
        }
      });
      return columns;
    }

    draw() {
      const palette = colours();
      const columns = this.columns();
      const xs = columns[0];
      const stepped = uPlot.paths.stepped({ align: 1 });
      const stroke = (series) => palette.variants[series.colour % palette.variants.length];
      const series = [{}].concat(this.lines.map((line) => ({
        stroke: line.series.kind === "predicted" ? stroke(line.series) + "c0" : stroke(line.series),
        width: { predicted: 1, simulated: 1.6, measured: 2.2 }[line.series.kind],
        dash: line.series.kind === "simulated" ? [6, 4] : undefined,
        show: !this.hidden.has(line.place), paths: stepped, points: { show: false },
      })));
      const bands = [];
      this.lines.forEach((line, index) => {
        if (line.part !== "lower") return;
        const pair = [this.lines[index - 1].index, line.index];
        bands.push({ series: this.axis === "share" ? pair : pair.reverse(), fill: stroke(line.series) + "2a" });
      });
      const longest = (this.axis === "share" ? this.model.share_extent_ns : this.model.tail_extent_ns) / MS;
      const full = this.scale === "linear" ? [0, longest] : [xs[0], xs[xs.length - 1]];
      const shared = { stroke: palette.faint, font: FONT, grid: { stroke: palette.grid, width: 1 },
        ticks: { show: false }, gap: 6 };
      const floor = this.model.tail_floor;
      const options = {
        width: this.holder.clientWidth, height: this.height(), padding: [12, 16, 0, 0],
        legend: { show: false },
        cursor: { points: { size: 7 }, drag: { x: true, y: false, setScale: true }, y: false },
        scales: {
          x: { time: false, distr: this.scale === "log" ? 3 : 1,
            range: (u, low, high) => (this.zoomed(low, high, xs) ? [low, high] : full) },
          y: this.axis === "share" ? { range: [0, 1.02] } : { distr: 3, range: [floor, 1] },
        },
        axes: [
          { ...shared, values: (u, ticks) => ticks.map((tick) => (tick === null ? "" : latencyText(tick))),
            space: 80, size: 34 },
          { ...shared, size: 72,
            values: (u, ticks) => ticks.map((tick) => this.shareTick(tick)),
            splits: () => (this.axis === "share" ? [0, 0.2, 0.4, 0.6, 0.8, 1] : this.decades()) },
        ],
        series, bands,
        hooks: { draw: [(u) => this.promises(u, palette)], setCursor: [(u) => this.readOut(u)] },
      };
      if (this.chart) this.chart.destroy();
      this.chart = new uPlot(options, columns, this.holder);
      this.figure.querySelector(".hint").textContent = this.hint();
      this.tell();
    }

    /** What to say under the plot while nothing is pointed at. */
    hint() {
      const shown = this.axis === "share" ? this.model.share_extent_ns : this.model.tail_extent_ns;
      const cut = this.scale === "log" ? [] : this.model.series.filter((series) => {
        const { at_ns: at, cumulative } = series.lower || series.upper;
        const near = cumulative.findIndex((value) => value >= (this.axis === "share" ? 0.98 : 1));
        return at[near < 0 ? at.length - 1 : near] > shown;
      });
      const names = cut.map((series) => series.label).join("; ");
      return "Drag to zoom in, double-click to zoom out." +
        (names ? ` Runs on beyond the right edge: ${names}. The log axis shows it all.` : "");
    }

    /** Whether a range is one that the reader chose and not the whole of the data. */
    zoomed(low, high, xs) { return low !== null && (low > xs[0] || high < xs[xs.length - 1]); }

    /** The powers of ten from the floor of the tail up to 1. */
    decades() {
      const count = Math.round(-Math.log10(this.model.tail_floor));
      return Array.from({ length: count + 1 }, (_, index) => 10 ** (index - count));
    }

    shareTick(tick) {
      if (tick === null) return "";
      if (this.axis === "share") return `${Math.round(tick * 100)}\u202f%`;
      return `${Number((tick * 100).toPrecision(2))}\u202f%`;
    }

    promises(u, palette) {
      const context = u.ctx;
      const ratio = uPlot.pxRatio;
      context.save();
      context.beginPath();
      context.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
      context.clip();
      for (const promise of this.model.promises) {
        const x = u.valToPos(promise.latency_ns / MS, "x", true);
        const share = this.axis === "share" ? promise.probability : 1 - promise.probability;
        const y = u.valToPos(share, "y", true);
        if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
        context.strokeStyle = palette.ink;
        context.globalAlpha = 0.55;
        context.lineWidth = ratio;
        context.setLineDash([2 * ratio, 4 * ratio]);
        context.beginPath();
        context.moveTo(x, u.bbox.top);
        context.lineTo(x, u.bbox.top + u.bbox.height);
        context.stroke();
        context.globalAlpha = 1;
        context.setLineDash([]);
        context.lineWidth = 1.6 * ratio;
        context.fillStyle = palette.ground;
        context.beginPath();
        context.arc(x, y, 4 * ratio, 0, 2 * Math.PI);
        context.fill();
        context.stroke();
        context.font = `${12 * ratio}px system-ui, sans-serif`;
        const left = x + context.measureText(promise.label).width + 12 * ratio > u.bbox.left + u.bbox.width;
        context.textAlign = left ? "right" : "left";
        const textX = x + (left ? -10 : 10) * ratio;
        const textY = y + 18 * ratio;
        context.lineWidth = 4 * ratio;
        context.strokeStyle = palette.ground;
        context.lineJoin = "round";
        context.strokeText(promise.label, textX, textY);
        context.fillStyle = palette.ink;
        context.fillText(promise.label, textX, textY);
      }
      context.restore();
    }

    /** Shows in the legend what every series says at the cursor. */
    readOut(u) {
      const index = u.cursor.idx;
      const inside = index !== null && index !== undefined && u.cursor.left >= 0;
      const hint = this.figure.querySelector(".hint");
      hint.textContent = inside
        ? `${this.axis === "share" ? "Within" : "Beyond"} ${latencyText(u.data[0][index])}`
        : this.hint();
      this.outputs.forEach((output, place) => {
        const values = this.lines.filter((line) => line.place === place)
          .map((line) => (inside ? u.data[line.index][index] : null))
          .filter((value) => value !== null && value !== undefined).sort((a, b) => a - b);
        const texts = [...new Set(values.map(shareText))];
        output.textContent = this.hidden.has(place) ? "" : texts.join(" \u2013 ");
      });
    }
  }

  const plots = [...document.querySelectorAll("figure.plot")].map((figure) => new Plot(figure));
  const redraw = () => plots.forEach((plot) => plot.draw());
  darkGround.addEventListener("change", redraw);
  window.addEventListener("beforeprint", () => { printing = true; redraw(); });
  window.addEventListener("afterprint", () => { printing = false; redraw(); });
})();
