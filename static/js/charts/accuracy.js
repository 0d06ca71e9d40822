// @ts-check
import { presentLines } from "./panels.js";

/** @type {import("./panels.js").ChartKind} */
export const accuracy = {
  kind: "accuracy",
  panels: (names) => [
    {
      id: "accuracy",
      title: "Accuracy",
      group: "training",
      unit: "%",
      smooth: true,
      best: "val/top1",
      lines: presentLines(names, [
        { series: "train/top1", label: "train", colour: 1 },
        { series: "val/top1", label: "validation", colour: 2, dash: "dash" },
      ]),
    },
  ],
};
