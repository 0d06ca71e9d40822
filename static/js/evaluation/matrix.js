// @ts-check
/** A confusion matrix as two heat maps, one of right answers and one of wrong ones. Pure. */

import { escapeText } from "../charts/plotly.js";
import { stillLayout } from "../charts/still.js";
import { sharesOf } from "./confusion.js";

/** @typedef {import("../charts/figure.js").Palette} Palette */
/** @typedef {import("./confusion.js").Matrix} Matrix */
/** @typedef {"count" | "share"} Scale */
/** Where the cells lie, in pixels. @typedef {{n: number, left: number, top: number, right: number, bottom: number, cellWidth: number, cellHeight: number, angle: number}} Geometry */

const MOST_CELL_PX = 44;
const MOST_HEIGHT_PX = 680;
const TICK_PX = 13;
const SLANTED_TICK_PX = 17;
const TITLE_PX = 26;
const TEXT_FROM = { width: 34, height: 18 };
const GAPS_FROM_PX = 7;
/** Of the colour that a cell of one image has. */
const FAINTEST = 0.25;
/** Places of the colours in the palette, as in the key below the chart. */
const RIGHT = 0;
const WRONG = 1;

/**
 * @param {string} name
 * @param {number} width of the chart
 */
export function tickText(name, width) {
  const most = width < 520 ? 11 : 20;
  const letters = [...name];
  return letters.length <= most ? name : `${letters.slice(0, most - 1).join("")}…`;
}

/**
 * @param {number} n classes
 * @param {number} width of the chart
 * @param {number} labelWidth of the longest label
 * @returns {Geometry}
 */
export function geometryOf(n, width, labelWidth) {
  const left = Math.ceil(labelWidth) + TITLE_PX + 8;
  const right = 14;
  const cellWidth = Math.max(1, width - left - right) / n;
  const angle = labelWidth + 8 <= cellWidth ? 0 : -45;
  return {
    n,
    left,
    right,
    top: 10,
    bottom: (angle ? Math.ceil(labelWidth * 0.71) + 14 : 20) + TITLE_PX,
    cellWidth,
    cellHeight: Math.min(MOST_CELL_PX, cellWidth, MOST_HEIGHT_PX / n),
    angle,
  };
}

/** @param {Geometry} geometry */
export function heightOf({ n, top, bottom, cellHeight }) {
  return Math.ceil(top + n * cellHeight + bottom);
}

/**
 * The cell at a place of the chart, or null beside all of them.
 * @param {Geometry} geometry
 * @param {number} x
 * @param {number} y
 */
export function cellAt({ n, left, top, cellWidth, cellHeight }, x, y) {
  const column = Math.floor((x - left) / cellWidth);
  const row = Math.floor((y - top) / cellHeight);
  return column >= 0 && column < n && row >= 0 && row < n ? { row, column } : null;
}

/**
 * The largest value on the diagonal and beside it; a share on the diagonal is measured against all of the row.
 * @param {readonly number[][]} values
 * @param {Scale} scale
 */
export function largest(values, scale) {
  let right = scale === "share" ? 1 : 0;
  let wrong = 0;
  for (const [row, each] of values.entries()) {
    for (const [column, value] of each.entries()) {
      if (row === column) right = Math.max(right, value);
      else wrong = Math.max(wrong, value);
    }
  }
  return { right, wrong };
}

/**
 * @param {Matrix} matrix
 * @param {Scale} scale
 * @param {Palette} palette
 * @param {Geometry} geometry
 * @param {number} width of the chart
 */
export function matrixFigure(matrix, scale, palette, geometry, width) {
  const values = scale === "share" ? sharesOf(matrix) : matrix.counts;
  const { right, wrong } = largest(values, scale);
  const written = geometry.cellWidth >= TEXT_FROM.width && geometry.cellHeight >= TEXT_FROM.height;
  /** @param {boolean} onDiagonal @param {number} most @param {number} place */
  const trace = (onDiagonal, most, place) => {
    // A cell without images is left out, not coloured: it is a gap on the ground.
    const z = values.map((row, r) => row.map((value, c) => ((r === c) === onDiagonal && value > 0 ? value : null)));
    const colour = palette.series[place] ?? palette.text;
    return {
      type: "heatmap",
      z,
      zmin: 0,
      zmax: most || 1,
      colorscale: [
        [0, mixed(palette.surface, colour, FAINTEST)],
        [1, colour],
      ],
      showscale: false,
      hoverinfo: "skip",
      xgap: geometry.cellWidth >= GAPS_FROM_PX ? 1 : 0,
      ygap: geometry.cellHeight >= GAPS_FROM_PX ? 1 : 0,
      ...(written ? { text: z.map((row) => row.map((value) => cellText(value, scale))), texttemplate: "%{text}" } : {}),
    };
  };
  return {
    data: [trace(true, right, RIGHT), trace(false, wrong, WRONG)],
    layout: layoutOf(matrix, palette, geometry, width),
  };
}

/**
 * @param {number | null} value
 * @param {Scale} scale
 */
function cellText(value, scale) {
  if (value === null) return "";
  return scale === "share" ? `${Math.round(100 * value)} %` : String(value);
}

/**
 * @param {Matrix} matrix
 * @param {Palette} palette
 * @param {Geometry} geometry
 * @param {number} width
 */
function layoutOf(matrix, palette, geometry, width) {
  const { n, left, right, top, bottom, cellWidth, cellHeight, angle } = geometry;
  const texts = matrix.names.map((name) => escapeText(tickText(name, width)));
  /** @param {number} cellPx @param {number} leastPx */
  const ticks = (cellPx, leastPx) => {
    const step = Math.ceil(leastPx / cellPx);
    const tickvals = texts.map((_, place) => place).filter((place) => place % step === 0);
    return { tickmode: "array", tickvals, ticktext: tickvals.map((place) => texts[place]) };
  };
  const axis = {
    color: palette.text,
    showgrid: false,
    zeroline: false,
    fixedrange: true,
    automargin: false,
    ticks: "",
    tickfont: { size: 11 },
  };
  const title = { font: { size: 12, color: palette.muted } };
  return {
    width,
    height: heightOf(geometry),
    margin: { l: left, r: right, t: top, b: bottom, pad: 0 },
    ...stillLayout(palette),
    hovermode: false,
    font: { family: palette.font, size: 11, color: palette.text },
    plot_bgcolor: mixed(palette.surface, palette.line, 0.4),
    xaxis: {
      ...axis,
      ...ticks(cellWidth, SLANTED_TICK_PX),
      range: [-0.5, n - 0.5],
      tickangle: angle,
      ticklabelstandoff: 4,
    },
    yaxis: { ...axis, ...ticks(cellHeight, TICK_PX), range: [n - 0.5, -0.5], ticklabelstandoff: 6 },
    annotations: [
      { ...title, text: "taken for", xref: "paper", x: 0.5, yref: "paper", y: 0, yshift: 12 - bottom },
      { ...title, text: "true class", xref: "paper", x: 0, yref: "paper", y: 0.5, xshift: 12 - left, textangle: -90 },
    ].map((note) => ({ ...note, showarrow: false, xanchor: "center", yanchor: "middle" })),
  };
}

/**
 * A colour between two hexadecimal ones.
 * @param {string} from
 * @param {string} to
 * @param {number} share
 */
export function mixed(from, to, share) {
  const [a, b] = [from, to].map((colour) => [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16)));
  const parts = (a ?? []).map((part, place) => Math.round(part + ((b?.[place] ?? part) - part) * share));
  return `rgb(${parts.join(", ")})`;
}
