// @ts-check
import { presentLines } from "./panels.js";

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
      title: "Waiting for data",
      group: "system",
      unit: "%",
      smooth: true,
      range: [0, 100],
      lines: presentLines(names, [{ series: "time/data_wait_pct", label: "share of time", colour: 6 }]),
    },
  ],
};
