// @ts-check
import { accuracy } from "./accuracy.js";
import { gpu } from "./gpu.js";
import { host } from "./host.js";
import { learningRate } from "./learning_rate.js";
import { loss } from "./loss.js";
import { N_COLOURS } from "./panels.js";
import { throughput } from "./throughput.js";

/** @typedef {import("./panels.js").ChartKind} ChartKind */
/** @typedef {import("./panels.js").Panel} Panel */

/** Every kind of chart, in the order of the page. A new kind is a new file and one line here. */
/** @type {readonly ChartKind[]} */
export const KINDS = [loss, accuracy, learningRate, throughput, host, gpu];

/**
 * The charts of a run that has these series. What no kind draws gets a chart for each metric, all splits in one.
 * @param {ReadonlySet<string>} names
 * @returns {Panel[]}
 */
export function panelsFor(names) {
  const panels = KINDS.flatMap((kind) => kind.panels(names));
  const drawn = new Set(panels.flatMap((panel) => panel.lines.map((line) => line.series)));
  return [...panels, ...remaining([...names].filter((name) => !drawn.has(name)))];
}

/** @param {string[]} names */
function remaining(names) {
  /** @type {Map<string, string[]>} */
  const byMetric = new Map();
  for (const name of [...names].sort()) {
    const metric = name.slice(name.indexOf("/") + 1);
    byMetric.set(metric, [...(byMetric.get(metric) ?? []), name]);
  }
  return [...byMetric].map(([metric, members]) => panelOf(metric, members));
}

/**
 * @param {string} metric
 * @param {string[]} members
 * @returns {Panel}
 */
function panelOf(metric, members) {
  return {
    id: `series-${members[0]}`,
    title: metric,
    group: "training",
    unit: "",
    smooth: true,
    lines: members.map((series, index) => ({
      series,
      label: series.includes("/") ? series.slice(0, series.indexOf("/")) : series,
      colour: (index % N_COLOURS) + 1,
      dash: series.startsWith("val/") ? "dash" : "solid",
    })),
  };
}
