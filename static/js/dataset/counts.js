// @ts-check
/** Images per class and split as horizontal bars. Pure: no element is read or changed. */

import { escapeText } from "../charts/plotly.js";
import { stillLayout } from "../charts/still.js";
import { formatCount } from "../format.js";

/** @typedef {import("../charts/figure.js").Palette} Palette */
/** `scrolls`: only the upper part is in sight at first, so the axis stands there. */
/** @typedef {import("../charts/figure.js").Size & {scrolls: boolean}} Size */
/** @typedef {"train" | "val" | "test"} Split */
/** @typedef {"label" | "largest" | "smallest"} Order */
/** @typedef {{label: number, name: string, counts: Partial<Record<Split, number>>, n_images: number}} ClassCount */

/** @type {readonly {split: Split, label: string, colour: number}[]} */
export const SPLITS = [
  { split: "train", label: "training", colour: 0 },
  { split: "val", label: "validation", colour: 1 },
  { split: "test", label: "test", colour: 2 },
];
/** As many classes are shown until all are asked for. */
export const FIRST = 30;
const NAME_LENGTH = 24;
const ROW_PX = 22;
const THIN_ROW_PX = 11;
const MARGIN = { l: 12, r: 18, t: 8, b: 40 };
const MARGIN_AXIS_ABOVE = { ...MARGIN, t: MARGIN.b, b: MARGIN.t };

/**
 * The classes in the order that is asked for, and no more than `limit` of them.
 * @param {readonly ClassCount[]} classes by label
 * @param {Order} order
 * @param {number} limit
 */
export function ordered(classes, order, limit) {
  const sorted = [...classes];
  if (order === "largest") sorted.sort((a, b) => b.n_images - a.n_images || a.label - b.label);
  if (order === "smallest") sorted.sort((a, b) => a.n_images - b.n_images || a.label - b.label);
  return sorted.slice(0, limit);
}

/**
 * A name that leaves room for the bars; what is cut is told where the bar is pointed at.
 * @param {string} name
 */
export function shortName(name) {
  const letters = [...name];
  return letters.length <= NAME_LENGTH ? name : `${letters.slice(0, NAME_LENGTH - 1).join("")}…`;
}

/**
 * How high the chart is with every row readable.
 * @param {number} nRows
 * @param {number} nSplits
 * @param {boolean} log
 */
export function heightOf(nRows, nSplits, log) {
  const row = log && nSplits > 1 ? nSplits * THIN_ROW_PX + 6 : ROW_PX;
  return nRows * row + MARGIN.t + MARGIN.b;
}

/**
 * Lengths on a logarithmic axis do not add up, so there the splits lie under one another in place of end to end.
 * @param {readonly ClassCount[]} rows from top to bottom
 * @param {boolean} log
 * @param {Palette} palette
 * @param {Size} size
 */
export function countsFigure(rows, log, palette, size) {
  const present = SPLITS.filter(({ split }) => rows.some((row) => row.counts[split] !== undefined));
  return {
    data: present.map(({ split, label, colour }) => ({
      type: "bar",
      orientation: "h",
      name: label,
      // Places, not names: plotly would take two equal names for one row, and "7" for a number.
      y: rows.map((_, index) => index),
      x: rows.map((row) => row.counts[split] ?? 0),
      marker: { color: palette.series[colour] },
      hoverinfo: "text",
      hovertext: rows.map((row) => hoverText(row, split, label)),
      textposition: "none",
    })),
    layout: layoutOf(rows, log, palette, size),
  };
}

/**
 * @param {ClassCount} row
 * @param {Split} split
 * @param {string} label
 */
function hoverText(row, split, label) {
  const part = `${formatCount(row.counts[split] ?? 0)} of ${formatCount(row.n_images)} images`;
  return `<b>${escapeText(row.name)}</b><br>${label}: ${part}`;
}

/**
 * @param {readonly ClassCount[]} rows
 * @param {boolean} log
 * @param {Palette} palette
 * @param {Size} size
 */
function layoutOf(rows, log, palette, size) {
  const largest = Math.max(1, ...rows.map((row) => row.n_images));
  const range = log ? [Math.log10(0.7), Math.log10(largest * 1.15)] : [0, largest * 1.04];
  const axis = { color: palette.muted, gridcolor: palette.line, zeroline: false, fixedrange: true };
  return {
    width: size.width,
    height: size.height,
    margin: size.scrolls ? MARGIN_AXIS_ABOVE : MARGIN,
    ...stillLayout(palette),
    barmode: log ? "group" : "stack",
    bargap: 0.28,
    bargroupgap: 0,
    font: { family: palette.font, size: 12, color: palette.text },
    xaxis: {
      ...axis,
      type: log ? "log" : "linear",
      side: size.scrolls ? "top" : "bottom",
      range,
      title: { text: "images", standoff: 6 },
      separatethousands: true,
      ...(log ? { dtick: 1 } : { nticks: Math.max(3, Math.floor(size.width / 110)), tickformat: ",d" }),
    },
    yaxis: {
      ...axis,
      color: palette.text,
      showgrid: false,
      automargin: true,
      range: [rows.length - 0.5, -0.5],
      tickmode: "array",
      tickvals: rows.map((_, index) => index),
      ticktext: rows.map((row) => escapeText(shortName(row.name))),
      ticklabelstandoff: 6,
    },
  };
}
