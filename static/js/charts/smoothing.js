// @ts-check

/**
 * Exponential moving average without the pull towards the start: each mean is divided by the weight it has gathered
 * so far, so that the first value stays itself (the bias correction of Adam, arXiv:1412.6980, section 3).
 * A gap stays a gap and does not enter the mean.
 * @param {readonly (number | null)[]} values
 * @param {number} smoothing 0 (as it is) to below 1
 * @returns {(number | null)[]}
 */
export function smooth(values, smoothing) {
  let mean = 0;
  let weight = 0;
  return values.map((value) => {
    if (value === null) return null;
    mean = smoothing * mean + (1 - smoothing) * value;
    weight = smoothing * weight + (1 - smoothing);
    return mean / weight;
  });
}
