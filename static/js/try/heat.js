// @ts-check
/** Heat as colours, from dark violet over red to light yellow: bright is much, for every eye and on paper too. */

/** Steps of the "inferno" map of matplotlib (CC0). @type {readonly (readonly [number, number, number])[]} */
const STEPS = [
  [0, 0, 4],
  [40, 11, 84],
  [101, 21, 110],
  [159, 42, 99],
  [212, 72, 66],
  [245, 125, 21],
  [250, 193, 39],
  [252, 255, 164],
];

/**
 * @param {number} value 0 to 1
 * @returns {[number, number, number]}
 */
export function heatColour(value) {
  const at = Math.min(1, Math.max(0, value || 0)) * (STEPS.length - 1);
  const below = Math.min(STEPS.length - 2, Math.floor(at));
  const one = STEPS[below] ?? [0, 0, 0];
  const other = STEPS[below + 1] ?? one;
  const mixed = one.map((from, channel) => Math.round(from + ((other[channel] ?? from) - from) * (at - below)));
  return [mixed[0] ?? 0, mixed[1] ?? 0, mixed[2] ?? 0];
}

/**
 * A pixel for each value, to be stretched over the picture.
 * @param {number[][]} heat rows from top to bottom
 */
export function heatPixels(heat) {
  const height = heat.length;
  const width = heat[0]?.length ?? 0;
  const data = new Uint8ClampedArray(width * height * 4);
  for (const [y, row] of heat.entries()) {
    for (const [x, value] of row.entries()) data.set([...heatColour(value), 255], (y * width + x) * 4);
  }
  return { width, height, data };
}
