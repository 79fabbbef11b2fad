// The charts: lines of the last minutes in a tile, and the last windows of a query. Drawn by uPlot.

import { cell, clock, moment } from "./words.js";

const styles = getComputedStyle(document.documentElement);
export const colour = (name) => styles.getPropertyValue(`--${name}`).trim();

const FONT = "11px system-ui, sans-serif";
const drawn = new Set();

/** Redraw everything when the reader's theme changes: colours are painted, not styled. */
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach((chart) => chart.rebuild()));

class Chart {
  constructor(place, height, options) {
    this.place = place;
    this.height = height;
    this.options = options;
    this.data = null;
    this.plot = null;
    drawn.add(this);
    new ResizeObserver(() => this.resize()).observe(place);
  }

  show(data) {
    this.data = data;
    if (this.plot && this.plot.series.length === data.length) this.plot.setData(data);
    else this.rebuild();
  }

  rebuild() {
    if (!this.data) return;
    this.plot?.destroy();
    const width = this.place.clientWidth;
    this.plot = width ? new uPlot({ width, height: this.height(), ...this.options(this.data.length - 1) }, this.data, this.place) : null;
  }

  resize() {
    const width = this.place.clientWidth;
    if (!this.plot) this.rebuild();
    else if (width && width !== this.plot.width) this.plot.setSize({ width, height: this.height() });
  }
}

/** A small label beside the pointer. */
function tip(text) {
  let label;
  return {
    hooks: {
      init: (plot) => {
        label = document.createElement("div");
        label.className = "tip";
        label.hidden = true;
        plot.over.append(label);
        plot.over.addEventListener("mouseleave", () => { label.hidden = true; });
      },
      setCursor: (plot) => {
        const { idx, left } = plot.cursor;
        const said = idx == null || left < 0 ? "" : text(plot, idx);
        label.hidden = !said;
        if (!said) return;
        label.textContent = said;
        const room = plot.over.clientWidth - label.offsetWidth;
        label.style.left = `${Math.max(0, Math.min(room, left + 10))}px`;
      },
    },
  };
}

/** What a number is at most, but for a few moments far above: the first batch may take a hundred times as long as others. */
function usual(values) {
  const known = values.filter((value) => value != null).sort((a, b) => a - b);
  if (!known.length) return 0;
  return Math.min(known.at(-1), 4 * known[Math.floor(0.95 * (known.length - 1))] || known.at(-1));
}

/** The ends of an axis: a little more than the data. */
function around(values) {
  const [first, last] = [values[0] ?? 0, values.at(-1) ?? 1];
  const room = (last - first) * 0.015 || 10;
  return [first - room, last + room];
}

/** The last minutes of one number, from zero up. `words`: a value as text. */
export function sparkline(place, words) {
  const options = () => ({
    class: "line",
    padding: [4, 4, 2, 4],
    legend: { show: false },
    axes: [{ show: false }, { show: false }],
    scales: { x: { time: false }, y: { range: (plot, low) => [Math.min(0, low ?? 0), (usual(plot.data[1]) || 1) * 1.08] } },
    cursor: { y: false, drag: { setScale: false, x: false, y: false }, points: { size: 6 } },
    series: [{}, { stroke: colour("accent"), fill: colour("wash"), width: 1.5, points: { show: false }, spanGaps: false }],
    plugins: [tip((plot, at) => {
      const value = plot.data[1][at];
      return value == null ? "" : `${clock(plot.data[0][at] * 1000)}  ${words(value)}`;
    })],
  });
  return new Chart(place, () => place.clientHeight || 56, options);
}

/** The last windows of a query: a line for each key. `names`: of the lines; `kind`: of the axis below. */
export function windowChart(place, about) {
  const axis = { stroke: colour("muted"), font: FONT, ticks: { show: false }, gap: 4 };
  const below = (kind) => (plot, splits) => splits.map((value) => (kind === "time" ? moment(value * 1e6) : cell(value)));
  const options = (count) => {
    const { kind, names } = about();
    const line = (number) => ({
      label: names[number],
      stroke: colour(`series-${number % 6}`),
      width: 1.75,
      spanGaps: true,
      points: { show: (plot) => plot.data[0].length <= 60, size: 4.5, width: 1, fill: colour("panel") },
    });
    return {
      padding: [8, 20, 0, 0],
      legend: { show: false },
      scales: { x: { time: false, range: (plot) => around(plot.data[0]) } },
      cursor: { y: false, drag: { setScale: false, x: false, y: false }, points: { size: 7 } },
      axes: [
        { ...axis, stroke: colour("muted"), grid: { show: false }, size: 22, space: 90, values: below(kind) },
        { ...axis, stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, size: 54, space: 24,
          values: (plot, splits) => splits.map(cell) },
      ],
      series: [{}, ...Array.from({ length: count }, (_, number) => line(number))],
      plugins: [tip((plot, at) => {
        const x = plot.data[0][at];
        const parts = names.map((name, number) => {
          const value = plot.data[number + 1]?.[at];
          return value == null ? "" : name ? `${name} ${cell(value)}` : cell(value);
        });
        const shown = parts.filter(Boolean);
        return shown.length ? `${kind === "time" ? moment(x * 1e6) : cell(x)}  ${shown.join("  ")}` : "";
      })],
    };
  };
  return new Chart(place, () => place.clientHeight || 150, options);
}
