// @ts-check
/** Numbers as people read them. A missing value is a dash, never "NaN" and never an empty cell. */

export const MISSING = "–";

const NARROW_SPACE = " ";

/**
 * A measured value with about four significant digits: `0.1234`, `12.34`, `1.2e-5`, `12,340`.
 * @param {number | null | undefined} value
 */
export function formatValue(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return MISSING;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-3) return shortExponent(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(4)));
}

/**
 * @param {number | null | undefined} value
 * @param {string} unit
 */
export function formatWithUnit(value, unit) {
  const text = formatValue(value);
  return text === MISSING || unit === "" ? text : `${text}${NARROW_SPACE}${unit}`;
}

/**
 * @param {number | null | undefined} value from 0 to 100
 * @param {number} [digits]
 */
export function formatPercent(value, digits = 1) {
  if (value === null || value === undefined || !Number.isFinite(value)) return MISSING;
  return `${value.toFixed(digits)}${NARROW_SPACE}%`;
}

/**
 * A duration by its two largest units: `850 ms`, `12 s`, `4 min 05 s`, `2 h 10 min`, `3 d 4 h`.
 * @param {number | null | undefined} seconds
 */
export function formatDuration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds) || seconds < 0) return MISSING;
  if (seconds > 0 && seconds < 1) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return twoUnits(whole, 60, "min", 1, "s");
  if (whole < 86_400) return twoUnits(whole, 3600, "h", 60, "min");
  return twoUnits(whole, 86_400, "d", 3600, "h");
}

/**
 * @param {number | null | undefined} bytes
 */
export function formatBytes(bytes) {
  if (bytes === null || bytes === undefined || !Number.isFinite(bytes)) return MISSING;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = bytes;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size >= 100 || unit === 0 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

/** @param {number} value */
export function formatCount(value) {
  return Math.round(value).toLocaleString("en-US");
}

/**
 * Seconds left, from the pace of the recent samples; null until two of them differ.
 * @param {{at: number, done: number}[]} samples oldest first, `at` in seconds
 * @param {number} total
 */
export function etaSeconds(samples, total) {
  const first = samples[0];
  const last = samples.at(-1);
  if (!first || !last || total <= 0) return null;
  const steps = last.done - first.done;
  const seconds = last.at - first.at;
  if (steps <= 0 || seconds <= 0) return null;
  return Math.max(0, ((total - last.done) * seconds) / steps);
}

/** @param {number} value */
function shortExponent(value) {
  return value
    .toExponential(2)
    .replace(/\.?0+e/, "e")
    .replace("e+", "e");
}

/**
 * @param {number} seconds
 * @param {number} large
 * @param {string} largeName
 * @param {number} small
 * @param {string} smallName
 */
function twoUnits(seconds, large, largeName, small, smallName) {
  const rest = Math.floor((seconds % large) / small);
  const head = `${Math.floor(seconds / large)} ${largeName}`;
  return `${head} ${smallName === "h" ? rest : String(rest).padStart(2, "0")} ${smallName}`;
}
