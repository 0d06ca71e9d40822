// @ts-check
/** What sets all charts at once: smoothing, horizontal axis, zoom. The choice is kept for the next run that is opened. */

import { found, setText } from "../dom.js";

/** @typedef {import("../charts/board.js").Board} Board */
/** @typedef {import("../charts/axis.js").XAxis} XAxis */

const KEPT = "fovea:charts";
const AXES = /** @type {const} */ (["step", "epoch", "time"]);

/** @param {Board} board */
export function mountControls(board) {
  const slider = found("[data-smoothing]", HTMLInputElement);
  const output = found("[data-smoothing-value]", HTMLOutputElement);
  const kept = read();
  slider.value = String(kept.smoothing);
  const smooth = () => {
    const smoothing = Number(slider.value);
    setText(output, smoothing === 0 ? "off" : smoothing.toFixed(2));
    board.setSmoothing(smoothing);
    keep(board);
  };
  slider.addEventListener("input", smooth);
  for (const radio of document.querySelectorAll('input[name="x"]')) {
    if (!(radio instanceof HTMLInputElement)) continue;
    radio.checked = radio.value === kept.x;
    radio.addEventListener("change", () => {
      board.setX(axisOf(radio.value));
      keep(board);
    });
  }
  found("[data-reset-zoom]", HTMLButtonElement).addEventListener("click", () => board.zoom(null));
  board.setX(kept.x);
  smooth();
}

/** @param {boolean} zoomed */
export function showZoomed(zoomed) {
  found("[data-reset-zoom]", HTMLButtonElement).hidden = !zoomed;
}

/** @param {unknown} value */
function axisOf(value) {
  return AXES.find((axis) => axis === value) ?? "step";
}

/** @param {Board} board */
function keep(board) {
  try {
    localStorage.setItem(KEPT, JSON.stringify({ smoothing: board.smoothing, x: board.x }));
  } catch {
    // A browser that keeps nothing starts from the defaults each time.
  }
}

/** @returns {{smoothing: number, x: XAxis}} */
function read() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT) ?? "{}");
    const smoothing = Number(kept.smoothing);
    return { smoothing: smoothing > 0 && smoothing <= 0.99 ? smoothing : 0, x: axisOf(kept.x) };
  } catch {
    return { smoothing: 0, x: "step" };
  }
}
