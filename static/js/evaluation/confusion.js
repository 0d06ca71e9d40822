// @ts-check
/** Which classes are taken for which. Pure: no element is read or changed. */

import { formatCount, formatPercent } from "../format.js";

/** How many images of `label` were taken for `predicted`. @typedef {{label: number, predicted: number, n_images: number}} Pair */
/** @typedef {{label: number, name: string, support: number}} ClassScore */
/**
 * A square: a row for each true class, a column for each answer, both in the order of `labels`.
 * @typedef {{labels: number[], names: string[], totals: number[], counts: number[][]}} Matrix
 */

/** With more classes the most confused ones are shown first. */
export const READABLE = 40;
export const FIRST = 30;

/**
 * The classes that have most to do with mistakes, as what they are or as what they were taken for, by label.
 * @param {readonly Pair[]} pairs
 * @param {number} nClasses
 * @param {number} limit
 */
export function mostConfused(pairs, nClasses, limit) {
  const mistakes = new Array(nClasses).fill(0);
  for (const { label, predicted, n_images } of pairs) {
    if (label === predicted) continue;
    mistakes[label] += n_images;
    mistakes[predicted] += n_images;
  }
  return mistakes
    .map((_, label) => label)
    .sort((a, b) => mistakes[b] - mistakes[a] || a - b)
    .slice(0, limit)
    .sort((a, b) => a - b);
}

/**
 * @param {readonly Pair[]} pairs
 * @param {readonly ClassScore[]} classes by label
 * @param {readonly number[]} labels which of them
 * @returns {Matrix}
 */
export function matrixOf(pairs, classes, labels) {
  const places = new Map(labels.map((label, place) => [label, place]));
  const counts = labels.map(() => /** @type {number[]} */ (new Array(labels.length).fill(0)));
  for (const { label, predicted, n_images } of pairs) {
    const row = counts[places.get(label) ?? -1];
    const column = places.get(predicted);
    if (row && column !== undefined) row[column] = n_images;
  }
  return {
    labels: [...labels],
    names: labels.map((label) => classes[label]?.name ?? String(label)),
    totals: labels.map((label) => classes[label]?.support ?? 0),
    counts,
  };
}

/**
 * Shares of all images of the row's class, those included that fall into a column which is not shown.
 * @param {Matrix} matrix
 * @returns {number[][]}
 */
export function sharesOf({ counts, totals }) {
  return counts.map((row, place) => row.map((count) => count / Math.max(1, totals[place] ?? 0)));
}

/**
 * What a cell says; plain text, not escaped.
 * @param {Matrix} matrix
 * @param {number} row
 * @param {number} column
 */
export function sentenceOf({ names, totals, counts }, row, column) {
  const count = counts[row]?.[column] ?? 0;
  const total = totals[row] ?? 0;
  if (total === 0) return `There are no images of ${names[row]} in this split`;
  const of = `${formatCount(count)} of ${formatCount(total)} images of ${names[row]}`;
  const what = row === column ? "recognised" : `taken for ${names[column]}`;
  return `${of} ${total === 1 ? "was" : "were"} ${what} (${formatPercent((100 * count) / total)})`;
}
