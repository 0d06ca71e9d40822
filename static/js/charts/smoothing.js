// @ts-check

/**
 * Exponential moving average over a curve whose points need not lie evenly. A point weighs `smoothing` times less for
 * every `unit` steps that lie behind it, so that a few validation points are hardly smoothed where many training points
 * are, and a thinned curve as much as the full one. The weights are divided by their sum: the first value stays itself
 * (the bias correction of Adam, arXiv:1412.6980, section 3). A gap stays a gap and does not enter the mean.
 * @param {readonly (number | null)[]} values
 * @param {readonly number[]} steps ascending
 * @param {number} smoothing 0 (as it is) to below 1
 * @param {number} unit in steps, above 0
 * @returns {(number | null)[]}
 */
export function smooth(values, steps, smoothing, unit) {
  let sum = 0;
  let weights = 0;
  let last = steps[0] ?? 0;
  return values.map((value, index) => {
    if (value === null) return null;
    const step = steps[index] ?? last;
    const fade = smoothing ** ((step - last) / unit);
    last = step;
    sum = sum * fade + value;
    weights = weights * fade + 1;
    return sum / weights;
  });
}

/**
 * The mean distance of the points of the densest curve; 1 where none has two points.
 * @param {readonly (readonly number[])[]} curves the steps of each
 */
export function densestSpacing(curves) {
  const spacings = curves.map((steps) => ((steps.at(-1) ?? 0) - (steps[0] ?? 0)) / Math.max(1, steps.length - 1));
  const spaced = spacings.filter((spacing) => spacing > 0);
  return spaced.length > 0 ? Math.min(...spaced) : 1;
}
