// @ts-check
/** How often the network is right when it is so sure, and how many images are behind it. Pure. */

import { stillLayout } from "../charts/still.js";
import { formatCount, formatPercent } from "../format.js";

/** @typedef {import("../charts/figure.js").Palette} Palette */
/** @typedef {import("../charts/figure.js").Size} Size */
/** @typedef {{lower: number, upper: number, n_images: number, confidence: number | null, accuracy: number | null}} Bin */

/**
 * @param {readonly Bin[]} bins
 * @param {Palette} palette
 * @param {Size} size
 */
export function reliabilityFigure(bins, palette, size) {
  const x = bins.map(({ lower, upper }) => (lower + upper) / 2);
  const widths = bins.map(({ lower, upper }) => (upper - lower) * 0.86);
  const hovertext = bins.map(textOf);
  const bars = { type: "bar", x, width: widths, hoverinfo: "text", hovertext, textposition: "none" };
  const segmentPx = ((size.width - 70) / Math.max(1, bins.length)) * 0.86;
  return {
    data: [
      { ...bars, y: bins.map(({ accuracy }) => accuracy), marker: { color: palette.series[0] } },
      {
        type: "scatter",
        mode: "markers",
        x,
        y: bins.map(({ confidence }) => confidence),
        marker: { symbol: "line-ew", size: segmentPx, line: { color: palette.series[1], width: 2.5 } },
        hoverinfo: "skip",
      },
      { ...bars, y: bins.map(({ n_images }) => n_images), yaxis: "y2", marker: { color: palette.muted } },
    ],
    layout: layoutOf(palette, size),
  };
}

/** @param {Bin} bin */
function textOf({ lower, upper, n_images, confidence, accuracy }) {
  const range = `<b>${Math.round(100 * lower)} to ${Math.round(100 * upper)} % sure</b>`;
  if (n_images === 0) return `${range}<br>no image`;
  const right = `right: ${formatPercent(percentOf(accuracy))}`;
  const said = `mean probability: ${formatPercent(percentOf(confidence))}`;
  return `${range}<br>${right}<br>${said}<br>${formatCount(n_images)} images`;
}

/** @param {number | null} share */
function percentOf(share) {
  return share === null ? null : 100 * share;
}

/**
 * @param {Palette} palette
 * @param {Size} size
 */
function layoutOf(palette, size) {
  const axis = { color: palette.muted, gridcolor: palette.line, zeroline: false, fixedrange: true };
  const shares = { tickvals: [0, 0.25, 0.5, 0.75, 1], ticktext: ["0", "25", "50", "75", "100 %"] };
  return {
    ...size,
    margin: { l: 52, r: 18, t: 14, b: 42 },
    ...stillLayout(palette),
    xaxis: {
      ...axis,
      ...shares,
      range: [0, 1],
      anchor: "y2",
      showgrid: false,
      title: { text: "highest probability", standoff: 6 },
    },
    yaxis: { ...axis, ...shares, range: [0, 1.03], domain: [0.3, 1], title: { text: "right", standoff: 4 } },
    yaxis2: { ...axis, domain: [0, 0.22], rangemode: "tozero", nticks: 3, title: { text: "images", standoff: 4 } },
    shapes: [
      {
        type: "line",
        x0: 0,
        y0: 0,
        x1: 1,
        y1: 1,
        line: { color: palette.muted, width: 1, dash: "dot" },
        layer: "above",
      },
    ],
  };
}
