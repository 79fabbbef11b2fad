// A card for each query: what it asks, the last windows as a chart, and the very last as a table.

import { windowChart } from "./charts.js";
import { alike, cell, day, moment } from "./words.js";

const ROWS = 8;
const LINES = 6;
const SIDE = { key: "words", time: "left" };

export function element(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** The days in which windows begin and end, in their order. */
function daysOf(rows) {
  const times = rows.flatMap((row) => [row[0], row[1]]).filter((at) => typeof at === "number");
  return [...new Set(times.map(day))].sort();
}

export class QueryCard {
  constructor(name) {
    this.name = name;
    this.table = null;
    this.picked = null;
    this.names = [];
    this.kind = "tick";
    this.asks = element("p", { className: "asks" });
    this.picks = element("div", { className: "picks" });
    this.chartPlace = element("div", { className: "chart" });
    this.keys = element("div", { className: "keys" });
    this.when = element("span", { className: "when" });
    this.head = element("tr");
    this.body = element("tbody");
    const table = element("table", {}, element("thead", {}, this.head), this.body);
    this.card = element("article", { className: "card" },
      element("header", {}, element("h3", { textContent: name }), this.picks, this.asks),
      this.chartPlace, this.keys, element("div", { className: "scroll" }, table));
    this.card.dataset.query = name;
    this.chart = windowChart(this.chartPlace, () => this);
  }

  say(asks) {
    this.asks.textContent = asks;
    this.asks.title = asks;
  }

  show(table) {
    this.table = table;
    const numeric = this.numericValues();
    if (!numeric.includes(this.picked)) this.picked = numeric[0] ?? null;
    this.drawPicks(numeric);
    this.draw();
    this.drawTable();
  }

  columnsOf(kind) {
    return this.table.columns.flatMap(([, found], at) => (found === kind ? [at] : []));
  }

  numericValues() {
    const isNumeric = (at) => this.table.rows.some((row) => typeof row[at] === "number");
    return this.columnsOf("value").filter(isNumeric).map((at) => this.table.columns[at][0]);
  }

  drawPicks(numeric) {
    const wanted = numeric.length > 1 ? numeric : [];
    if (wanted.join("\n") !== [...this.picks.children].map((button) => button.textContent).join("\n")) {
      this.picks.replaceChildren(...wanted.map((name) => {
        const button = element("button", { type: "button", textContent: name });
        button.addEventListener("click", () => { this.picked = name; this.drawPicks(numeric); this.draw(); });
        return button;
      }));
    }
    for (const button of this.picks.children) button.setAttribute("aria-pressed", String(button.textContent === this.picked));
  }

  /** One line for each key, the first few; over the ends of windows. */
  draw() {
    const { columns, rows } = this.table;
    const value = columns.findIndex(([name]) => name === this.picked);
    const keyed = this.columnsOf("key");
    const labels = rows.map((row) => keyed.map((at) => cell(row[at])).join(" · "));
    const all = [...new Set(labels)].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const names = all.slice(0, LINES);
    const ends = [...new Set(rows.map((row) => row[1]).filter((end) => typeof end === "number"))].sort((a, b) => a - b);
    const places = new Map(ends.map((end, at) => [end, at]));
    const lines = names.map(() => Array(ends.length).fill(null));
    rows.forEach((row, number) => {
      const line = names.indexOf(labels[number]);
      const found = value < 0 ? null : row[value];
      if (line >= 0 && typeof found === "number" && places.has(row[1])) lines[line][places.get(row[1])] = found;
    });
    const [, kind] = columns[1];
    const isSame = this.kind === kind && this.names.join("\n") === names.join("\n");
    Object.assign(this, { kind, names });
    if (!isSame) this.chart.plot = this.chart.plot?.destroy() ?? null;
    this.chart.show([kind === "time" ? ends.map((end) => end / 1e6) : ends, ...lines]);
    this.chartPlace.setAttribute("role", "img");
    this.chartPlace.setAttribute("aria-label", `${this.picked ?? "values"} of the last ${ends.length} windows of ${this.name}`);
    this.drawKeys(names, all.length, keyed.length > 0);
  }

  drawKeys(names, count, isKeyed) {
    const more = count > names.length ? [element("span", { textContent: `${count - names.length} more` })] : [];
    const shown = names.map((name, at) => element("span", {}, element("i", { className: `k${at % 6}` }), name));
    this.keys.replaceChildren(...(isKeyed ? [...shown, ...more] : []), this.when);
  }

  /** Windows from the last to the first, and keys of one window in their order. */
  newestFirst(a, b) {
    const texts = (row) => this.columnsOf("key").map((at) => cell(row[at])).join(" ");
    return b[1] - a[1] || b[0] - a[0] || texts(a).localeCompare(texts(b), "en", { numeric: true });
  }

  drawTable() {
    const { columns, rows } = this.table;
    const titles = { window_start: "from", window_end: "to", position_start: "from", position_end: "to" };
    this.head.replaceChildren(...columns.map(([name, kind]) =>
      element("th", { scope: "col", className: SIDE[kind] ?? "", textContent: titles[name] ?? name })));
    const last = [...rows].sort((a, b) => this.newestFirst(a, b)).slice(0, ROWS);
    const isTime = columns[1][1] === "time";
    const days = isTime ? daysOf(last) : [];
    const words = columns.map((_, at) => alike(last.map((row) => row[at])));
    // One day is said once, above; only where there are several each row has its own.
    this.when.textContent = [...(days.length === 1 && days[0] !== day(Date.now() * 1000) ? days : []), ...(isTime ? ["UTC"] : [])].join(" ");
    this.body.replaceChildren(...last.map((row) => element("tr", {}, ...row.map((value, at) => {
      const [, kind] = columns[at];
      const text = kind === "time" ? moment(value, days.length > 1 && at === 0) : words[at](value);
      return element("td", { className: SIDE[kind] ?? "", textContent: text, title: kind === "time" ? moment(value, true) : "" });
    }))));
  }
}
