// @ts-check
/** Histograms as one path each: a large network has several hundred of them on its page. */

const SVG = "http://www.w3.org/2000/svg";
const GAP = 0.12;

/**
 * Bars on a line at `height`; one that counts anything is at least a pixel high.
 * @param {readonly number[]} counts
 * @param {number} width
 * @param {number} height
 */
export function barsPath(counts, width, height) {
  const most = Math.max(...counts, 1);
  const step = width / Math.max(1, counts.length);
  return counts
    .map((count, index) => {
      if (!count) return "";
      const tall = round(Math.max(1, (count / most) * height));
      const wide = round(step * (1 - GAP));
      return `M${round(index * step)} ${height}v-${tall}h${wide}v${tall}z`;
    })
    .join("");
}

/**
 * @param {readonly number[]} counts
 * @param {{width: number, height: number, label: string}} look without a label it is decoration
 */
export function histogram(counts, { width, height, label }) {
  const drawing = document.createElementNS(SVG, "svg");
  const path = document.createElementNS(SVG, "path");
  drawing.setAttribute("class", "histogram");
  drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
  drawing.setAttribute("preserveAspectRatio", "none");
  if (label) {
    drawing.setAttribute("role", "img");
    drawing.setAttribute("aria-label", label);
  } else drawing.setAttribute("aria-hidden", "true");
  path.setAttribute("d", barsPath(counts, width, height));
  drawing.append(path);
  return drawing;
}

/** @param {number} value */
function round(value) {
  return Math.round(value * 100) / 100;
}
