// @ts-check
/** From a declaration and a store to what plotly draws. Pure: no element is read or changed. */

import { labelling, positions, resumePositions } from "./axis.js";
import { escapeText } from "./plotly.js";
import { densestSpacing, smooth } from "./smoothing.js";
import { thin, visiblePart } from "./thinning.js";
import { verticalAxis } from "./vertical.js";

/** @typedef {import("../store.js").RunStore} RunStore */
/** @typedef {import("./axis.js").Range} Range */
/** @typedef {import("./axis.js").XAxis} XAxis */
/** @typedef {import("./panels.js").Line} Line */
/** @typedef {import("./panels.js").Panel} Panel */

/** What all charts have in common. `window` is what was zoomed to, in the unit of `positions`. */
/** @typedef {{x: XAxis, smoothing: number, domain: Range, window: Range | null}} View */
/** What one chart has of its own. `yWindow` is in the axis' own terms: exponents on a logarithmic one. */
/** @typedef {{log: boolean, hidden: ReadonlySet<string>, yWindow: Range | null}} OwnView */
/** @typedef {{text: string, muted: string, line: string, surface: string, ok: string, font: string, series: string[]}} Palette */
/** A line with all its points; `drawn` is what the eye follows, smoothed where asked. */
/** @typedef {{line: Line, xs: readonly number[], raw: (number | null)[], drawn: (number | null)[]}} Curve */
/** @typedef {{curves: Curve[], best: {x: number, y: number} | null, resumes: number[]}} Content */
/** @typedef {{width: number, height: number}} Size */

export const MARGIN = { l: 54, r: 14, t: 10, b: 38 };
const MOST_POINTS = 1000;
const MARKERS_UP_TO = 40;
const RAW_OPACITY = 0.28;

/**
 * The values of a panel as they are and smoothed, at full resolution.
 * @param {Panel} panel
 * @param {RunStore} store
 * @param {View} view
 * @returns {Content}
 */
export function contentOf(panel, store, view) {
  const unit = densestSpacing(panel.lines.map((line) => store.series.get(line.series)?.step ?? []));
  const curves = panel.lines.flatMap((line) => curveOf(panel, line, store, view, unit));
  return { curves, best: bestOf(panel, store, curves), resumes: resumePositions(store, view.x) };
}

/**
 * @param {Panel} panel
 * @param {Line} line
 * @param {RunStore} store
 * @param {View} view
 * @param {number} unit of smoothing, in steps
 * @returns {Curve[]}
 */
function curveOf(panel, line, store, view, unit) {
  const series = store.series.get(line.series);
  if (!series || series.step.length === 0) return [];
  const raw = series.value;
  const drawn = panel.smooth && view.smoothing > 0 ? smooth(raw, series.step, view.smoothing, unit) : raw;
  return [{ line, xs: positions(series, view.x, store), raw, drawn }];
}

/**
 * @param {Panel} panel
 * @param {RunStore} store
 * @param {Curve[]} curves
 */
function bestOf(panel, store, curves) {
  const curve = curves.find((candidate) => candidate.line.series === panel.best);
  const index = store.best && panel.best ? (store.series.get(panel.best)?.step.lastIndexOf(store.best.step) ?? -1) : -1;
  const x = curve?.xs[index];
  const y = curve?.raw[index];
  return x === undefined || y === undefined || y === null ? null : { x, y };
}

/**
 * @param {Panel} panel
 * @param {Content} content
 * @param {RunStore} store
 * @param {View} view
 * @param {OwnView} own
 * @param {Palette} palette
 * @param {Size} size
 * @returns {{data: Record<string, unknown>[], layout: Record<string, unknown>}}
 */
export function figureOf(panel, content, store, view, own, palette, size) {
  const { divisor, title } = labelling(view.x, view.domain[1], store);
  const shown = content.curves.filter((curve) => !own.hidden.has(curve.line.series));
  const data = shown.flatMap((curve) => tracesOf(curve, view, divisor, palette));
  const marked = shown.some((curve) => curve.line.series === panel.best);
  if (content.best && marked) data.push(bestTrace(content.best, divisor, palette));
  return { data, layout: layoutOf(panel, content, view, own, palette, size, { divisor, title }) };
}

/**
 * The same figure to stand alone: with a title, a legend and an opaque ground.
 * @param {ReturnType<typeof figureOf>} figure
 * @param {string} title
 * @param {Palette} palette
 */
export function standAlone(figure, title, palette) {
  const layout = {
    ...figure.layout,
    width: 1000,
    height: 520,
    margin: { l: 70, r: 24, t: 56, b: 56 },
    paper_bgcolor: palette.surface,
    plot_bgcolor: palette.surface,
    title: { text: escapeText(title), x: 0.02, xanchor: "left", font: { size: 16, color: palette.text } },
    showlegend: true,
    legend: { orientation: "h", x: 1, xanchor: "right", y: 1.02, yanchor: "bottom" },
  };
  return { data: figure.data, layout };
}

/**
 * @param {Curve} curve
 * @param {View} view
 * @param {number} divisor
 * @param {Palette} palette
 * @returns {Record<string, unknown>[]}
 */
function tracesOf(curve, view, divisor, palette) {
  const main = traceOf(curve, curve.drawn, view, divisor, palette);
  if (curve.drawn === curve.raw) return [main];
  const faint = traceOf(curve, curve.raw, view, divisor, palette);
  return [{ ...faint, opacity: RAW_OPACITY, showlegend: false }, main];
}

/**
 * @param {Curve} curve
 * @param {(number | null)[]} values
 * @param {View} view
 * @param {number} divisor
 * @param {Palette} palette
 */
function traceOf(curve, values, view, divisor, palette) {
  const colour = palette.series[curve.line.colour - 1] ?? palette.text;
  const [from, to] = visiblePart(curve.xs, view.window);
  const indices = thin(values, MOST_POINTS, from, to);
  const y = indices.map((index) => values[index] ?? null);
  return {
    type: "scatter",
    name: escapeText(curve.line.label),
    x: indices.map((index) => /** @type {number} */ (curve.xs[index]) / divisor),
    y,
    ...markersOf(y, colour),
    line: { color: colour, width: 1.8, dash: curve.line.dash ?? "solid" },
    connectgaps: false,
    hoverinfo: "skip",
  };
}

/**
 * A line of few points shows them. In a long one only a point between two gaps needs a marker, having no line.
 * @param {(number | null)[]} values
 * @param {string} color
 */
function markersOf(values, color) {
  if (values.length <= MARKERS_UP_TO) return { mode: "lines+markers", marker: { color, size: 5 } };
  const alone = values.map((value, index) => value !== null && isGap(values, index - 1) && isGap(values, index + 1));
  if (!alone.includes(true)) return { mode: "lines" };
  return { mode: "lines+markers", marker: { color, size: 4, opacity: alone.map(Number) } };
}

/**
 * @param {(number | null)[]} values
 * @param {number} index
 */
function isGap(values, index) {
  return (values[index] ?? null) === null;
}

/**
 * @param {{x: number, y: number}} best
 * @param {number} divisor
 * @param {Palette} palette
 * @returns {Record<string, unknown>}
 */
function bestTrace(best, divisor, palette) {
  return {
    type: "scatter",
    name: "best",
    mode: "markers",
    x: [best.x / divisor],
    y: [best.y],
    marker: { symbol: "star", size: 12, color: palette.ok, line: { color: palette.surface, width: 1.5 } },
    hoverinfo: "skip",
  };
}

/**
 * @param {Panel} panel
 * @param {Content} content
 * @param {View} view
 * @param {OwnView} own
 * @param {Palette} palette
 * @param {Size} size
 * @param {{divisor: number, title: string}} label
 */
function layoutOf(panel, content, view, own, palette, size, label) {
  const [start, end] = view.window ?? view.domain;
  const axis = {
    color: palette.muted,
    gridcolor: palette.line,
    linecolor: palette.line,
    zeroline: false,
    exponentformat: "e",
    automargin: false,
  };
  return {
    ...size,
    margin: MARGIN,
    autosize: false,
    showlegend: false,
    hovermode: false,
    dragmode: "zoom",
    font: { family: palette.font, size: 11, color: palette.muted },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    xaxis: {
      ...axis,
      range: [start / label.divisor, end / label.divisor],
      title: { text: label.title, standoff: 6 },
      showgrid: false,
      ticks: "outside",
      ticklen: 3,
      nticks: Math.max(3, Math.floor(size.width / 90)),
    },
    yaxis: { ...axis, nticks: Math.max(4, Math.floor(size.height / 38)), ...verticalAxis(panel, content, own) },
    shapes: content.resumes.map((x) => ({
      type: "line",
      xref: "x",
      yref: "paper",
      x0: x / label.divisor,
      x1: x / label.divisor,
      y0: 0,
      y1: 1,
      line: { color: palette.muted, width: 1, dash: "dot" },
      opacity: 0.6,
    })),
  };
}
