// @ts-check
/** The horizontal axis, which all charts of a page share. */

/** @typedef {import("../store.js").RunStore} RunStore */
/** @typedef {import("../store.js").Series} Series */
/** @typedef {"step" | "epoch" | "time"} XAxis */
/** @typedef {readonly [number, number]} Range */

/**
 * The position of each point. Time is in seconds since `origin_s`; an epoch is a fraction until it is over.
 * @param {Series} series
 * @param {XAxis} x
 * @param {RunStore} store
 * @returns {readonly number[]} ascending
 */
export function positions(series, x, store) {
  if (x === "time") {
    const origin_s = originOf(store);
    return series.at.map((at) => at - origin_s);
  }
  const perEpoch = x === "epoch" ? store.stepsPerEpoch : 0;
  return perEpoch > 0 ? series.step.map((step) => step / perEpoch) : series.step;
}

/**
 * When the first point of the run was measured, in seconds since 1970.
 * @param {RunStore} store
 */
export function originOf(store) {
  let origin_s = Number.POSITIVE_INFINITY;
  for (const series of store.series.values()) origin_s = Math.min(origin_s, series.at[0] ?? origin_s);
  return Number.isFinite(origin_s) ? origin_s : 0;
}

/**
 * What every chart shows until somebody zooms. While a run goes on the end lies a little ahead, on a round number, so
 * that a chart without news need not be drawn again for each point of another.
 * @param {RunStore} store
 * @param {XAxis} x
 * @param {boolean} ended
 * @returns {Range}
 */
export function domainOf(store, x, ended) {
  let last = 0;
  for (const series of store.series.values()) last = Math.max(last, positionOfLast(series, x, store));
  if (last <= 0) return [0, 1];
  return [0, ended ? last : Math.max(last, Math.min(roundUp(last), plannedEnd(store, x)))];
}

/**
 * @param {Series} series
 * @param {XAxis} x
 * @param {RunStore} store
 */
function positionOfLast(series, x, store) {
  if (x === "time") return (series.at.at(-1) ?? 0) - (series.at.length > 0 ? originOf(store) : 0);
  const step = series.step.at(-1) ?? 0;
  return x === "epoch" && store.stepsPerEpoch > 0 ? step / store.stepsPerEpoch : step;
}

/**
 * @param {RunStore} store
 * @param {XAxis} x
 */
function plannedEnd(store, x) {
  const steps = store.attempt?.total_steps ?? 0;
  if (x === "time" || steps === 0) return Number.POSITIVE_INFINITY;
  return x === "epoch" && store.stepsPerEpoch > 0 ? steps / store.stepsPerEpoch : steps;
}

/** @param {number} value greater than 0 */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  const lead = value / power;
  const grain = lead < 2 ? 0.05 : lead < 5 ? 0.1 : 0.2;
  return Math.ceil(lead / grain) * grain * power;
}

/**
 * In what the axis is labelled: a long run in hours rather than seconds.
 * @param {XAxis} x
 * @param {number} end of the domain
 * @param {RunStore} store
 * @returns {{divisor: number, title: string}}
 */
export function labelling(x, end, store) {
  if (x === "step") return { divisor: 1, title: "step" };
  if (x === "epoch") return { divisor: 1, title: store.stepsPerEpoch > 0 ? "epoch" : "step" };
  if (end < 180) return { divisor: 1, title: "time (s)" };
  if (end < 3 * 3600) return { divisor: 60, title: "time (min)" };
  return { divisor: 3600, title: "time (h)" };
}

/**
 * Where later attempts began: each at the step of the checkpoint that it went on from.
 * @param {RunStore} store
 * @param {XAxis} x
 * @returns {number[]}
 */
export function resumePositions(store, x) {
  return store.attempts.slice(1).flatMap((attempt) => {
    if (x === "step") return [attempt.from_step];
    if (x === "epoch") return [store.stepsPerEpoch > 0 ? attempt.from_step / store.stepsPerEpoch : attempt.from_step];
    return firstTimeAfter(store, attempt.started_seq);
  });
}

/**
 * @param {RunStore} store
 * @param {number} seq
 */
function firstTimeAfter(store, seq) {
  let first_s = Number.POSITIVE_INFINITY;
  for (const series of store.series.values()) {
    const index = series.seq.findIndex((candidate) => candidate > seq);
    if (index >= 0) first_s = Math.min(first_s, /** @type {number} */ (series.at[index]));
  }
  return Number.isFinite(first_s) ? [first_s - originOf(store)] : [];
}
