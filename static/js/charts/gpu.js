// @ts-check
import { PERCENT } from "./panels.js";

const GPU_SERIES = /^gpu(\d+)\//;

/** @type {{measure: string, title: string, unit: string, colour: number, range?: [number, number]}[]} */
const MEASURES = [
  { measure: "util_pct", title: "use", unit: "%", colour: 1, range: PERCENT },
  { measure: "memory_gib", title: "memory", unit: "GiB", colour: 4 },
  { measure: "temperature_c", title: "temperature", unit: "°C", colour: 6 },
  { measure: "power_w", title: "power", unit: "W", colour: 2 },
];

/** Four charts for each GPU that the run has told about. */
/** @type {import("./panels.js").ChartKind} */
export const gpu = {
  kind: "gpu",
  panels: (names) => {
    const numbers = new Set([...names].flatMap((name) => GPU_SERIES.exec(name)?.[1] ?? []));
    const ascending = [...numbers].sort((a, b) => Number(a) - Number(b));
    return ascending.flatMap((number) => panelsOf(number, names));
  },
};

/**
 * @param {string} number
 * @param {ReadonlySet<string>} names
 * @returns {import("./panels.js").Panel[]}
 */
function panelsOf(number, names) {
  return MEASURES.filter(({ measure }) => names.has(`gpu${number}/${measure}`)).map(
    ({ measure, title, unit, colour, range }) => ({
      id: `gpu${number}-${measure.replace("_", "-")}`,
      title: `GPU ${number} ${title}`,
      group: "system",
      unit,
      smooth: true,
      zero: true,
      ...(range ? { range } : {}),
      lines: [{ series: `gpu${number}/${measure}`, label: title, colour }],
    }),
  );
}
