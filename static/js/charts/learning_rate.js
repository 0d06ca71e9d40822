// @ts-check
import { presentLines } from "./panels.js";

/** Never smoothed: the schedule is exact, and a mean of it would show a rate that was never used. */
/** @type {import("./panels.js").ChartKind} */
export const learningRate = {
  kind: "learning_rate",
  panels: (names) => [
    {
      id: "learning-rate",
      title: "Learning rate",
      group: "training",
      unit: "",
      zero: true,
      lines: presentLines(names, [{ series: "lr", label: "learning rate", colour: 5 }]),
    },
  ],
};
