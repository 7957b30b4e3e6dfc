"use strict";
// Draws the grids of a sizing page from the JSON block in it. All text comes from there as text and
// never becomes markup.
(() => {
  const data = JSON.parse(document.getElementById("sizing-data").textContent);
  const darkGround = window.matchMedia("(prefers-color-scheme: dark)");
  let printing = false;
  const colours = () => (darkGround.matches && !printing
    ? { variants: data.palette.dark, faint: "#9aa4b1", grid: "#272c33", ground: "#15181c" }
    : { variants: data.palette.light, faint: "#5b6470", grid: "#e8ebef", ground: "#ffffff" });
  const FONT = "12px system-ui, sans-serif";
  const HINT = "Points are the periods that were looked at; between them nothing is claimed. " +
    "Drag to zoom in, double-click to zoom out.";

  function timeText(ms) {
    const [value, unit] = ms < 0.9995 ? [ms * 1e3, "\u00b5s"] : ms < 999.5 ? [ms, "ms"] : [ms / 1e3, "s"];
    return `${Number(value.toPrecision(3))}\u202f${unit}`;
  }

  // Round periods between two: 1, 2 and 5 of each power of ten, or all nine where those are few.
  function roundPeriods(low, high) {
    const among = (digits) => {
      const found = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
        digits.forEach((digit) => found.push(Number(`${digit}e${power}`)));
      }
      return found.filter((value) => value >= low && value <= high);
    };
    const few = among([1, 2, 5]);
    return few.length > 3 ? few : among([1, 2, 3, 4, 5, 6, 7, 8, 9]);
  }

  const percentText = (value) => `${value.toFixed(2)}\u202f%`;

  class Grid {
    constructor(figure) {
      this.figure = figure;
      this.points = data.grids[Number(figure.dataset.grid)].points;
      this.holder = figure.querySelector(".canvas");
      this.outputs = [...figure.querySelectorAll(".legend output")];
      new ResizeObserver(() => {
        const width = this.holder.clientWidth;
        if (width > 0 && this.chart && width !== this.chart.width) {
          this.chart.setSize({ width, height: this.height() });
        }
      }).observe(this.holder);
      this.draw();
    }

    height() { return Math.round(Math.min(420, Math.max(280, this.holder.clientWidth * 0.5))); }

    columns() {
      const of = (value) => this.points.map(value);
      return [
        of((point) => point.period_ns / 1e6),
        // Where no budget will do, all of the bandwidth is too little.
        of((point) => (point.least === null ? 100 : point.least)),
        of((point) => point.with_margin),
        of((point) => (point.on_front ? point.least : null)),
        of((point) => (point.chosen ? point.least : null)),
      ];
    }

    draw() {
      const palette = colours();
      const colour = (place) => palette.variants[place];
      const columns = this.columns();
      const xs = columns[0];
      const one = xs.length === 1;
      const full = [xs[0] * (one ? 0.5 : 0.95), xs[xs.length - 1] * (one ? 2 : 1.05)];
      const marks = (place, size) => ({
        paths: () => null,
        points: { show: true, size, stroke: colour(place), fill: colour(place) },
      });
      const shared = { stroke: palette.faint, font: FONT, grid: { stroke: palette.grid, width: 1 },
        ticks: { show: false }, gap: 6 };
      const options = {
        width: this.holder.clientWidth, height: this.height(), padding: [12, 16, 0, 0],
        legend: { show: false },
        cursor: { points: { size: 7 }, drag: { x: true, y: false, setScale: true }, y: false },
        scales: {
          x: { time: false, distr: 3,
            range: (u, low, high) => (low !== null && (low > xs[0] || high < xs[xs.length - 1]) ? [low, high] : full) },
          y: { range: [0, 102] },
        },
        axes: [
          { ...shared, splits: (u, axis, low, high) => roundPeriods(low, high),
            filter: (u, splits) => splits, values: (u, ticks) => ticks.map(timeText), size: 34 },
          { ...shared, size: 72, splits: () => [0, 20, 40, 60, 80, 100],
            values: (u, ticks) => ticks.map((tick) => `${tick}\u202f%`) },
        ],
        series: [{},
          { stroke: colour(0), width: 1.6, fill: `${colour(0)}2a`,
            points: { show: true, size: 5, stroke: colour(0), fill: palette.ground } },
          { stroke: colour(2), width: 1.2, dash: [6, 4], points: { show: false } },
          marks(1, 9), marks(3, 13)],
        hooks: { setCursor: [(u) => this.readOut(u)] },
      };
      if (this.chart) this.chart.destroy();
      this.chart = new uPlot(options, columns, this.holder);
      this.figure.querySelector(".hint").textContent = HINT;
    }

    readOut(u) {
      const index = u.cursor.idx;
      const inside = index !== null && index !== undefined && u.cursor.left >= 0;
      const point = inside ? this.points[index] : null;
      this.figure.querySelector(".hint").textContent = point
        ? `Period ${timeText(point.period_ns / 1e6)}` : HINT;
      const text = (value) => (value === null ? "" : percentText(value));
      const values = point
        ? [point.least === null ? "none will do" : text(point.least), text(point.with_margin),
          point.on_front ? "yes" : "", point.chosen ? "yes" : ""]
        : ["", "", "", ""];
      this.outputs.forEach((output, place) => { output.textContent = values[place]; });
    }
  }

  const grids = [...document.querySelectorAll("figure.plot")].map((figure) => new Grid(figure));
  const redraw = () => grids.forEach((grid) => grid.draw());
  darkGround.addEventListener("change", redraw);
  window.addEventListener("beforeprint", () => { printing = true; redraw(); });
  window.addEventListener("afterprint", () => { printing = false; redraw(); });
})();
