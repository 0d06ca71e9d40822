// @ts-check

/**
 * Which points to draw so that a line of many looks as it is: the first and the last, the lowest and the highest of
 * each bucket (a spike survives), and one gap of each bucket that has any.
 * @param {readonly (number | null)[]} values
 * @param {number} most about how many points may be drawn
 * @param {number} [from] first index to consider
 * @param {number} [to] index after the last
 * @returns {number[]} indices, ascending
 */
export function thin(values, most, from = 0, to = values.length) {
  const count = to - from;
  if (count <= most) return Array.from({ length: count }, (_, offset) => from + offset);
  const buckets = Math.max(1, Math.floor((most - 2) / 2));
  const chosen = new Set([from, to - 1]);
  for (let bucket = 0; bucket < buckets; bucket += 1) {
    const start = from + Math.floor((bucket * count) / buckets);
    const end = from + Math.floor(((bucket + 1) * count) / buckets);
    for (const index of extremes(values, start, end)) chosen.add(index);
  }
  return [...chosen].sort((a, b) => a - b);
}

/**
 * @param {readonly (number | null)[]} values
 * @param {number} start
 * @param {number} end
 */
function extremes(values, start, end) {
  let [lowest, highest, gap] = [-1, -1, -1];
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (let index = start; index < end; index += 1) {
    const value = values[index] ?? null;
    if (value === null) gap = index;
    else if (value < low) [low, lowest] = [value, index];
    if (value !== null && value > high) [high, highest] = [value, index];
  }
  return [lowest, highest, gap].filter((index) => index >= 0);
}

/**
 * The part of ascending `xs` that a window shows, with one neighbour on each side so that the line reaches its edges.
 * @param {readonly number[]} xs
 * @param {readonly [number, number] | null} window
 * @returns {[number, number]} first index, index after the last
 */
export function visiblePart(xs, window) {
  if (!window) return [0, xs.length];
  return [Math.max(0, firstAtLeast(xs, window[0]) - 1), Math.min(xs.length, firstAbove(xs, window[1]) + 1)];
}

/**
 * @param {readonly number[]} xs ascending
 * @param {number} x
 */
export function firstAtLeast(xs, x) {
  return search(xs, (value) => value >= x);
}

/**
 * @param {readonly number[]} xs ascending
 * @param {number} x
 */
function firstAbove(xs, x) {
  return search(xs, (value) => value > x);
}

/**
 * @param {readonly number[]} xs
 * @param {(x: number) => boolean} reached
 */
function search(xs, reached) {
  let low = 0;
  let high = xs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (reached(/** @type {number} */ (xs[middle]))) high = middle;
    else low = middle + 1;
  }
  return low;
}
