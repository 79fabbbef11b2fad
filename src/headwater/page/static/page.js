// Listens to the server, and shows what it says. Every message has the whole reading; windows and happenings only what is new.

import { sparkline } from "./charts.js";
import { QueryCard, element } from "./windows.js";
import { UNKNOWN, bytes, clock, duration, joined, moment, scaled, whole } from "./words.js";

const POINTS_KEPT = 900;
const HAPPENINGS_KEPT = 200;
const RETRY_MS = 2000;
const GOODBYE = "The stream has stopped; this is how it was at its end. When it is started again with this page, it goes on here.";
const at = (id) => document.getElementById(id);
const say = (id, text) => { const place = at(id); if (place.textContent !== text) { place.textContent = text; place.title = text; } };
const big = (id, [number, unit]) => {
  const place = at(id);
  place.replaceChildren(number, ...(unit ? [element("small", { textContent: unit })] : []));
};

const charts = {
  events_per_second: sparkline(at("chart-rate"), (value) => `${scaled(value).join(" ").trim()} events/s`),
  lag_s: sparkline(at("chart-lag"), (value) => joined(duration(value))),
  batch_seconds: sparkline(at("chart-batch"), (value) => joined(duration(value))),
  state_bytes: sparkline(at("chart-state"), (value) => joined(bytes(value))),
};
let points = [];
let cards = new Map();
let version = null;
let life = null;
let last = null;
let lastSeen = null;
let source = null;

// --- what the server says ---

function hear(message) {
  const told = JSON.parse(message.data);
  if (version !== null && told.version !== version) { location.reload(); return; }
  version = told.version;
  if (told.is_first) begin(told);
  last = told.reading;
  lastSeen = Date.now();
  showReading(told.reading);
  showPoints(told);
  told.windows.forEach(showWindows);
  showQueries(told.reading.queries);
  told.happenings.forEach(showHappening);
  document.documentElement.dataset.beat = String(told.now_ms);
}

/** A new connection tells everything. Of an earlier life of the server the lines stay, with a gap. */
function begin(told) {
  const gap = told.points.length ? [[told.points[0][0], ...told.drawn.map(() => null)]] : [];
  points = life === null || life === told.life ? [] : [...points, ...gap];
  life = told.life;
  cards.forEach((card) => card.card.remove());
  cards = new Map();
  at("happened").replaceChildren();
}

function showReading(now) {
  document.title = `${now.stream} – headwater`;
  say("stream", now.stream);
  showState(now);
  big("rate", scaled(now.events_per_second));
  say("events", `${whole(now.events)} events so far`);
  big("lag", duration(now.lag_s));
  say("waits", waits(now));
  big("batch-seconds", duration(now.batch_seconds));
  say("batch", now.batch == null ? "none yet" : `batch ${whole(now.batch)}`);
  big("state-bytes", bytes(now.state_bytes));
  say("open", now.open_windows == null ? "" : `${whole(now.open_windows)} open windows, by key`);
  showSaved(now);
  const [half, unit] = duration(now.latency_p50_s);
  big("latency", [now.latency_p50_s == null ? half : `≤ ${half}`, unit]);
  say("latency-sub", latencies(now));
  big("sources", [now.batch == null ? UNKNOWN : whole(now.sources_active), ""]);
  say("sources-sub", [now.sources_idle ? `${whole(now.sources_idle)} idle` : "none idle",
    now.files_with_problems ? `${whole(now.files_with_problems)} files with problems` : ""].filter(Boolean).join(", "));
  showAside(now);
  say("totals", now.batch == null ? "" : `${whole(now.rows)} rows · ${now.queries.length} ${now.queries.length === 1 ? "query" : "queries"}`);
}

function latencies(now) {
  if (!now.rows) return "no row yet";
  if (now.latency_p50_s == null) return "longer than 5 min for half of the rows";
  return now.latency_p99_s == null ? "for half of them" : `for half of them; 99 % ≤ ${joined(duration(now.latency_p99_s))}`;
}

function waits(now) {
  if (now.watermark_us == null) return "";
  const mark = `at ${moment(now.watermark_us, false, false)}`;
  if (!now.is_active || !now.waits_count) return mark;
  const more = now.waits_count - 1;
  return `${mark}, waits for ${now.waits_for[0]}${more ? ` and ${whole(more)} more` : ""}`;
}

function showSaved(now) {
  const isKnown = now.raw_bytes;
  const share = isKnown ? 1 - now.sent_bytes / now.raw_bytes : null;
  big("saved", share == null ? [UNKNOWN, ""] : [share <= 0 ? "0" : (share * 100).toFixed(share > 0.99 ? 2 : 1), "%"]);
  say("sent", isKnown ? `${joined(bytes(now.sent_bytes))} sent, events are at least ${joined(bytes(now.raw_bytes))}` : "");
}

function showAside(now) {
  const count = (fate) => now.queries.reduce((sum, query) => sum + (query.fates[fate] ?? 0), 0);
  const [late, dropped, malformed] = ["late", "dropped", "malformed"].map(count);
  big("aside", now.batch == null ? [UNKNOWN, ""] : scaled(dropped + malformed));
  say("aside-sub", now.batch == null ? "" : `${whole(dropped)} too late, ${whole(malformed)} malformed; ${whole(late)} late taken`);
  const rows = now.reasons.map((each) => element("tr", {},
    element("td", { className: "words", textContent: each.reason }),
    element("td", { textContent: whole(each.count) }),
    element("td", { className: "words" }, element("code", { textContent: example(each) }))));
  const none = element("tr", { className: "none" }, element("td", { colSpan: 3, textContent: "Every event has found its place." }));
  at("reasons").tBodies[0].replaceChildren(...(rows.length ? rows : [none]));
}

function example(reason) {
  const place = reason.source ? `${reason.source} #${reason.offset ?? "?"}` : "";
  return [place, reason.event].filter(Boolean).join("  ");
}

function showPoints(told) {
  points.push(...told.points);
  points.splice(0, Math.max(0, points.length - POINTS_KEPT));
  told.drawn.forEach((name, place) => {
    charts[name]?.show([points.map((point) => point[0]), points.map((point) => point[place + 1])]);
  });
}

// --- queries and their windows ---

function showWindows(table) {
  if (!cards.has(table.query)) {
    cards.set(table.query, new QueryCard(table.query));
    at("windows").append(cards.get(table.query).card);
  }
  cards.get(table.query).show(table);
}

function showQueries(queries) {
  const names = new Set(queries.map((query) => query.name));
  cards.forEach((card, name) => {
    if (queries.length && !names.has(name)) { card.card.remove(); cards.delete(name); }
  });
  const shown = queries.flatMap((query) => cards.get(query.name) ?? []);
  queries.forEach((query) => cards.get(query.name)?.say(query.asks));
  // In the order of queries, whoever had a window first.
  if (shown.some((card, place) => at("windows").children[place] !== card.card)) at("windows").append(...shown.map((card) => card.card));
  at("no-windows").hidden = cards.size > 0;
  const more = queries.filter((query) => query.rows && !cards.has(query.name)).length;
  at("more-windows").hidden = !more;
  say("more-windows", `The windows of ${more} more ${more === 1 ? "query" : "queries"} are not shown.`);
  if (!queries.length) return;
  at("queries").tBodies[0].replaceChildren(...queries.map(queryLine));
}

function queryLine(query) {
  const number = (value, alarm = "") => element("td", { textContent: whole(value), className: value ? alarm : "zero" });
  const fate = (name, alarm) => number(query.fates[name] ?? 0, alarm);
  const time = (seconds) => element("td", { textContent: seconds == null ? UNKNOWN : `≤ ${joined(duration(seconds))}` });
  return element("tr", {},
    element("td", { className: "name", textContent: query.name }),
    element("td", { className: "words", textContent: query.asks, title: query.asks }),
    number(query.events), fate("member"), fate("filtered"), fate("outside"), fate("late"),
    fate("dropped", "warn"), fate("malformed", "bad"),
    number(query.rows), time(query.latency_p50_s), time(query.latency_p99_s));
}

function showHappening(each) {
  const list = at("happened");
  const kind = each.kind === "end" && each.text.includes("error") ? "failed" : each.kind;
  list.prepend(element("li", { className: kind },
    element("time", { textContent: clock(each.at_ms), dateTime: new Date(each.at_ms).toISOString() }),
    element("span", { textContent: each.text })));
  while (list.children.length > HAPPENINGS_KEPT) list.lastChild.remove();
}

// --- how it is, in one word ---

function showState(now) {
  if (now.error) setState("failed", "stopped by an error", now.error);
  else if (!now.is_active) setState("stopped", "stopped", GOODBYE);
  else if (now.batch == null) setState("waiting", "waiting for the first batch", "");
  else if (now.standstill) setState("waits", "no progress", `No progress: ${now.standstill}.`);
  else setState("running", "running", "");
}

function setState(state, text, banner) {
  document.body.dataset.state = state;
  say("state-text", text);
  at("banner").hidden = !banner;
  say("banner", banner);
}

function lose() {
  if (last !== null && (!last.is_active || last.error)) return; // it said goodbye
  const since = lastSeen ? ` since ${clock(lastSeen)}: what you see is of then` : "";
  setState("lost", "no connection", `No connection to the stream${since}. Trying again.`);
}

function listen() {
  source = new EventSource("events");
  source.onmessage = hear;
  source.onerror = () => {
    lose();
    // The browser tries again by itself unless it was refused.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, RETRY_MS);
  };
}

listen();
