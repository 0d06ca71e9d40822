// @ts-check
/** Two answers about one image, class by class: each class that either of them guessed, with what both give it. */

/** @typedef {import("../try/asking.js").Guess} Guess */
/** Shares are 0 to 1; null where a class is not among the guesses that were asked for. @typedef {{name: string, a: number | null, b: number | null}} Row */

const MINUS = "\u2212";

/**
 * The first few of each, by name: labels are places in lists that may differ. The surest first.
 * @param {readonly Guess[]} topA
 * @param {readonly Guess[]} topB
 * @param {number} n of each
 * @returns {Row[]}
 */
export function alignedRows(topA, topB, n) {
  const [sharesA, sharesB] = [sharesOf(topA), sharesOf(topB)];
  const names = new Set([...topA.slice(0, n), ...topB.slice(0, n)].map(({ name }) => name));
  return [...names]
    .map((name) => ({ name, a: sharesA.get(name) ?? null, b: sharesB.get(name) ?? null }))
    .sort((one, other) => most(other) - most(one));
}

/**
 * How many points B gives more than A, with a sign; empty where one of them is not known.
 * @param {Row} row
 */
export function pointsText({ a, b }) {
  if (a === null || b === null) return "";
  const text = (100 * (b - a)).toFixed(2);
  if (Number(text) === 0) return "0.00";
  return text.startsWith("-") ? `${MINUS}${text.slice(1)}` : `+${text}`;
}

/** The largest of all differences, in points; null where none is known. @param {readonly Row[]} rows */
export function largestDifference(rows) {
  const known = rows.flatMap(({ a, b }) => (a === null || b === null ? [] : [100 * Math.abs(b - a)]));
  return known.length ? Math.max(...known) : null;
}

/** @param {readonly Guess[]} top */
function sharesOf(top) {
  return new Map(top.map(({ name, probability }) => [name, probability]));
}

/** @param {Row} row */
function most({ a, b }) {
  return Math.max(a ?? 0, b ?? 0);
}
