// @ts-check
/** Where the crosshair stands and what the lines say there. Pure. */

import { formatCount, formatDuration } from "../format.js";
import { originOf } from "./axis.js";
import { firstAtLeast } from "./thinning.js";

/** @typedef {import("./axis.js").Range} Range */
/** @typedef {import("./figure.js").Curve} Curve */

/**
 * The index of the point nearest to `x`, -1 where there is none.
 * @param {readonly number[]} xs ascending
 * @param {number} x
 */
export function nearestIndex(xs, x) {
  const after = firstAtLeast(xs, x);
  const right = xs[after];
  const left = xs[after - 1];
  if (right === undefined) return xs.length - 1;
  if (left === undefined) return after;
  return x - left <= right - x ? after - 1 : after;
}

/**
 * The point of any of the lines that is nearest to `x`.
 * @param {Curve[]} curves
 * @param {number} x
 * @returns {{curve: Curve, index: number, x: number} | null}
 */
export function nearestPoint(curves, x) {
  let nearest = null;
  for (const curve of curves) {
    const index = nearestIndex(curve.xs, x);
    const found = curve.xs[index];
    if (found === undefined) continue;
    if (nearest === null || Math.abs(found - x) < Math.abs(nearest.x - x)) nearest = { curve, index, x: found };
  }
  return nearest;
}

/**
 * @param {number} x
 * @param {Range} range what the axis shows
 * @param {number} left_px of the plot area
 * @param {number} width_px of the plot area
 */
export function toPixel(x, range, left_px, width_px) {
  return left_px + ((x - range[0]) / (range[1] - range[0])) * width_px;
}

/**
 * @param {number} px
 * @param {Range} range
 * @param {number} left_px
 * @param {number} width_px
 */
export function fromPixel(px, range, left_px, width_px) {
  return range[0] + ((px - left_px) / width_px) * (range[1] - range[0]);
}

/**
 * What is written beside the crosshair: the same moment in all three measures.
 * @param {import("../store.js").RunStore} store
 * @param {string} seriesName
 * @param {number} index
 */
export function momentText(store, seriesName, index) {
  const series = store.series.get(seriesName);
  const step = series?.step[index];
  const at = series?.at[index];
  if (step === undefined || at === undefined) return "";
  const parts = [`step ${formatCount(step)}`];
  if (store.stepsPerEpoch > 0) parts.push(`epoch ${(step / store.stepsPerEpoch).toFixed(2)}`);
  parts.push(formatDuration(at - originOf(store)));
  return parts.join(" · ");
}
