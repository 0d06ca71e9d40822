// @ts-check
import { presentLines } from "./panels.js";

/** @type {import("./panels.js").ChartKind} */
export const loss = {
  kind: "loss",
  panels: (names) => [
    {
      id: "loss",
      title: "Loss",
      group: "training",
      unit: "",
      smooth: true,
      best: "val/loss",
      lines: presentLines(names, [
        { series: "train/loss", label: "train", colour: 1 },
        { series: "val/loss", label: "validation", colour: 2, dash: "dash" },
      ]),
    },
  ],
};
