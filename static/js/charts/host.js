// @ts-check
import { PERCENT, presentLines } from "./panels.js";

/** @type {import("./panels.js").ChartKind} */
export const host = {
  kind: "host",
  panels: (names) => [
    {
      id: "cpu",
      title: "CPU",
      group: "system",
      unit: "%",
      smooth: true,
      range: PERCENT,
      lines: presentLines(names, [{ series: "cpu/util_pct", label: "utilisation", colour: 7 }]),
    },
    {
      id: "ram",
      title: "RAM",
      group: "system",
      unit: "GiB",
      smooth: true,
      zero: true,
      lines: presentLines(names, [{ series: "ram/used_gib", label: "used", colour: 8 }]),
    },
  ],
};
