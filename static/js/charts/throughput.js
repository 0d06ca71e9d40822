// @ts-check
import { PERCENT, presentLines } from "./panels.js";

/** @type {import("./panels.js").ChartKind} */
export const throughput = {
  kind: "throughput",
  panels: (names) => [
    {
      id: "throughput",
      title: "Throughput",
      group: "training",
      unit: "images/s",
      smooth: true,
      zero: true,
      lines: presentLines(names, [{ series: "time/images_s", label: "images/s", colour: 3 }]),
    },
    {
      id: "data-wait",
      title: "Data wait",
      group: "system",
      unit: "%",
      smooth: true,
      range: PERCENT,
      lines: presentLines(names, [{ series: "time/data_wait_pct", label: "share of time", colour: 6 }]),
    },
  ],
};
