/** Builders of what the tests feed in. */

const START_MS = Date.parse("2026-01-02T03:04:05.000Z");

/**
 * @param {number} seq
 * @param {import("../../static/js/generated/events").Event} event
 * @param {number} [at_s] after the start
 * @returns {import("../../static/js/generated/events").Envelope}
 */
export function envelope(seq, event, at_s = seq) {
  return { seq, at: new Date(START_MS + at_s * 1000).toISOString(), event };
}

/**
 * @param {number} step
 * @param {Record<string, number | null>} values
 */
export function scalars(step, values) {
  return { kind: /** @type {const} */ ("scalars"), step, values, nonfinite: {} };
}

/**
 * @param {number} n
 * @param {number} fromStep
 * @param {Partial<import("../../static/js/generated/events").AttemptStarted>} [more]
 */
export function attempt(n, fromStep, more = {}) {
  return {
    kind: /** @type {const} */ ("attempt.started"),
    n,
    from_step: fromStep,
    schema_version: 1,
    total_steps: 100,
    steps_per_epoch: 10,
    series: [],
    ...more,
  };
}

/**
 * @param {number} done
 * @param {number} total
 */
export function progress(done, total, stage = "train") {
  return { kind: /** @type {const} */ ("progress"), stage, done, total };
}
