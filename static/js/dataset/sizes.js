// @ts-check
/** Widths and heights of the images as circles, larger where there are more. Pure. */

import { stillLayout } from "../charts/still.js";
import { formatCount } from "../format.js";

/** @typedef {import("../charts/figure.js").Palette} Palette */
/** @typedef {import("../charts/figure.js").Size} Size */
/** @typedef {{width_px: number, height_px: number, n_images: number}} SizeCount */
/** Sizes of one square of `bin_px` are counted together. @typedef {{bin_px: number, sizes: SizeCount[]}} ImageSizes */

const LEAST_PX = 6;
const MOST_PX = 30;

/**
 * @param {ImageSizes} sizes
 * @param {Palette} palette
 * @param {Size} size
 */
export function sizesFigure({ bin_px, sizes }, palette, size) {
  const most = Math.max(1, ...sizes.map(({ n_images }) => n_images));
  const middle = (bin_px - 1) / 2;
  const axis = {
    color: palette.muted,
    gridcolor: palette.line,
    zeroline: false,
    fixedrange: true,
    rangemode: "tozero",
  };
  return {
    data: [
      {
        type: "scatter",
        mode: "markers",
        x: sizes.map(({ width_px }) => width_px + middle),
        y: sizes.map(({ height_px }) => height_px + middle),
        marker: {
          color: palette.series[0],
          opacity: 0.55,
          line: { color: palette.surface, width: 1 },
          size: sizes.map(({ n_images }) => LEAST_PX + (MOST_PX - LEAST_PX) * Math.sqrt(n_images / most)),
        },
        cliponaxis: false,
        hoverinfo: "text",
        hovertext: sizes.map((each) => hoverText(each, bin_px)),
      },
    ],
    layout: {
      ...size,
      margin: { l: 58, r: 24, t: 18, b: 42 },
      ...stillLayout(palette),
      xaxis: { ...axis, title: { text: "width (px)", standoff: 6 }, tickformat: ",d" },
      yaxis: { ...axis, title: { text: "height (px)", standoff: 8 }, tickformat: ",d" },
    },
  };
}

/**
 * @param {SizeCount} each
 * @param {number} bin_px
 */
function hoverText({ width_px, height_px, n_images }, bin_px) {
  const images = `${formatCount(n_images)} image${n_images === 1 ? "" : "s"}`;
  return `<b>${side(width_px, bin_px)} × ${side(height_px, bin_px)} px</b><br>${images}`;
}

/**
 * @param {number} start_px
 * @param {number} bin_px
 */
function side(start_px, bin_px) {
  return bin_px === 1 ? formatCount(start_px) : `${formatCount(start_px)} to ${formatCount(start_px + bin_px - 1)}`;
}
