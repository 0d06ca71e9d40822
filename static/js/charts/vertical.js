// @ts-check
/** The vertical axis, which each chart has of its own. */

import { formatValue } from "../format.js";

/** @typedef {import("./axis.js").Range} Range */
/** @typedef {import("./figure.js").Content} Content */
/** @typedef {import("./figure.js").OwnView} OwnView */
/** @typedef {import("./panels.js").Panel} Panel */

/**
 * @param {Panel} panel
 * @param {Content} content
 * @param {OwnView} own
 * @returns {Record<string, unknown>}
 */
export function verticalAxis(panel, content, own) {
  if (own.log) {
    const ends = own.yWindow ? { range: own.yWindow } : { autorange: true };
    return { type: "log", ...ends, ...logTicks(own.yWindow ?? exponentsOf(content)) };
  }
  // 12k, but neither 300µ for a learning rate nor 1.2e+4.
  const large = content.curves.some((curve) => curve.drawn.some((value) => value !== null && value >= 1000));
  const style = { type: "linear", exponentformat: large ? "SI" : "e" };
  const range = own.yWindow ?? panel.range;
  return range ? { ...style, range } : { ...style, autorange: true, rangemode: panel.zero ? "tozero" : "normal" };
}

/**
 * The decimal exponents between which the positive values lie.
 * @param {Content} content
 * @returns {Range}
 */
function exponentsOf(content) {
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const value of content.curves.flatMap((curve) => curve.raw)) {
    if (value === null || value <= 0) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return high > 0 ? [Math.log10(low), Math.log10(high)] : [-1, 1];
}

/**
 * Ticks with whole numbers on them; plotly's own say "2" and "5" between the powers of ten.
 * @param {Range} exponents
 */
function logTicks([low, high]) {
  const decades = high - low;
  const leads = decades > 4 ? [1] : decades > 2 ? [1, 3] : [1, 2, 5];
  const every = Math.max(1, Math.ceil(decades / 8));
  const tickvals = [];
  for (let power = Math.floor(low) - 1; power <= Math.ceil(high) + 1; power += every) {
    for (const lead of leads) tickvals.push(lead * 10 ** power);
  }
  return { tickmode: "array", tickvals, ticktext: tickvals.map(formatValue) };
}
