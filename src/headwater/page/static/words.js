// Numbers, sizes and times as people read them. Every function takes null for "not known".

export const UNKNOWN = "–";

const digits = (value, count) => value.toLocaleString("en-US", { maximumFractionDigits: count });

/** 12345678 -> ["12.3", "M"]: three or four digits, and the prefix. */
export function scaled(value) {
  for (const [limit, prefix] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    const size = limit === 1e4 ? 1e3 : limit;
    if (Math.abs(value) >= limit) return [(value / size).toFixed(value / size < 100 ? 1 : 0), prefix];
  }
  return [digits(value, Math.abs(value) < 10 && value % 1 ? 1 : 0), ""];
}

export function whole(value) {
  return value == null ? UNKNOWN : digits(value, 0);
}

/** A value of a window: integers with separators, floats with six digits that count, texts as they are. */
export function cell(value) {
  if (value == null) return "";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return digits(value, 0);
  const size = Math.abs(value);
  if (size >= 1e9 || size < 1e-4) return value.toPrecision(6);
  return digits(value, Math.max(0, 5 - Math.floor(Math.log10(size))));
}

/** A function that writes numbers of one column alike: with as many digits behind the point as the longest needs. */
export function alike(values) {
  const behind = (value) => {
    const size = Math.abs(value);
    if (Number.isInteger(value) || size >= 1e9 || size < 1e-4) return 0;
    return (value.toPrecision(6).split(".")[1] ?? "").replace(/0+$/, "").length;
  };
  const count = Math.min(6, Math.max(0, ...values.filter((value) => typeof value === "number").map(behind)));
  return (value) => {
    const size = Math.abs(value);
    const isPlain = typeof value === "number" && (value === 0 || (size < 1e9 && size >= 1e-4));
    return isPlain ? value.toLocaleString("en-US", { minimumFractionDigits: count, maximumFractionDigits: count }) : cell(value);
  };
}

export function bytes(value) {
  if (value == null) return [UNKNOWN, ""];
  if (value >= 1000 && value < 1e4) return [(value / 1000).toFixed(1), "kB"];
  const [number, prefix] = scaled(value);
  return [number, `${prefix}B`];
}

/** Seconds in the unit that suits them. */
export function duration(seconds) {
  if (seconds == null) return [UNKNOWN, ""];
  const sign = seconds < 0 ? "−" : "";
  const size = Math.abs(seconds);
  const told = (value, unit) => [sign + digits(value, value < 10 ? 1 : 0), unit];
  if (size < 0.9995) return [sign + Math.round(size * 1000), "ms"];
  if (size < 120) return told(size, "s");
  if (size < 7200) return told(size / 60, "min");
  if (size < 172800) return told(size / 3600, "h");
  if (size < 63072000) return told(size / 86400, "days");
  return told(size / 31557600, "years");
}

export const joined = ([number, unit]) => (unit ? `${number} ${unit}` : number);

const two = (number) => String(number).padStart(2, "0");

/** A moment of the wall clock, in the reader's own zone. */
export function clock(ms) {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** The day of an event time, in UTC. */
export function day(us) {
  const at = new Date(us / 1000);
  return Number.isNaN(at.getTime()) ? "" : at.toISOString().slice(0, 10);
}

/** An event time in microseconds since 1970, in UTC; the day only where it helps. */
export function moment(us, withDay, withFraction = true) {
  if (us == null) return "";
  const at = new Date(us / 1000);
  if (Number.isNaN(at.getTime())) return String(us);
  const text = at.toISOString();
  const fraction = withFraction && us % 1_000_000 ? text.slice(19, 23) : "";
  const time = text.slice(11, 19) + fraction;
  return withDay ? `${text.slice(0, 10)} ${time}` : time;
}
