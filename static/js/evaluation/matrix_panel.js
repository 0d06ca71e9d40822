// @ts-check
/** The confusion matrix on the page: which classes, which scale, and the cell that is pointed at. */

import { Plot } from "../dataset/plot.js";
import { found, setText } from "../dom.js";
import { formatCount } from "../format.js";
import { FIRST, matrixOf, mostConfused, READABLE, sentenceOf, sharesOf } from "./confusion.js";
import { cellAt, geometryOf, heightOf, largest, matrixFigure, tickText } from "./matrix.js";

/** @typedef {import("../charts/plotly.js").Plotly} Plotly */
/** @typedef {import("./confusion.js").ClassScore} ClassScore */
/** @typedef {import("./confusion.js").Pair} Pair */
/** @typedef {import("./matrix.js").Scale} Scale */
/** @typedef {{row: number, column: number}} Cell */

const STEPS = new Map([
  ["ArrowUp", { row: -1, column: 0 }],
  ["ArrowDown", { row: 1, column: 0 }],
  ["ArrowLeft", { row: 0, column: -1 }],
  ["ArrowRight", { row: 0, column: 1 }],
]);

export class MatrixPanel {
  #pairs;
  #classes;
  #open;
  #which = found("[data-matrix-which]", HTMLSelectElement);
  #scales = found("[data-matrix-scale]", HTMLFieldSetElement);
  #root = found("[data-matrix-plot]", HTMLElement);
  #surface = found("[data-matrix-surface]", HTMLElement);
  #box = found("[data-matrix-cell]", HTMLElement);
  #tip = found("[data-matrix-tip]", HTMLElement);
  #matrix;
  #geometry = geometryOf(1, 1, 0);
  /** @type {Cell | null} */
  #cell = null;
  #plot;

  /**
   * @param {{classes: ClassScore[], confusion: Pair[]}} split
   * @param {Plotly} plotly
   * @param {(label: number, predicted: number) => void} open shows the pictures of a cell
   */
  constructor({ classes, confusion }, plotly, open) {
    this.#pairs = confusion;
    this.#classes = classes;
    this.#open = open;
    this.#which.hidden = classes.length <= READABLE;
    this.#matrix = this.#chosen();
    this.#plot = new Plot(this.#root, plotly, (palette, width) => {
      this.#geometry = geometryOf(this.#matrix.labels.length, width, longestWidth(this.#matrix.names, width));
      this.#root.style.height = `${heightOf(this.#geometry)}px`;
      this.#point(null);
      return matrixFigure(this.#matrix, this.#scale(), palette, this.#geometry, width);
    });
    this.#showKey();
    this.#which.addEventListener("change", () => this.#redraw());
    this.#scales.addEventListener("change", () => this.#redraw());
    this.#surface.addEventListener("pointermove", (event) => this.#point(this.#cellOf(event)));
    this.#surface.addEventListener("pointerleave", () => this.#point(null));
    this.#surface.addEventListener("blur", () => this.#point(null));
    this.#surface.addEventListener("keydown", (event) => this.#onKey(event));
    this.#surface.addEventListener("click", (event) => this.#enter(this.#cellOf(event)));
  }

  #redraw() {
    this.#matrix = this.#chosen();
    this.#plot.draw();
    this.#showKey();
  }

  #chosen() {
    const n = this.#classes.length;
    const few = n > READABLE && this.#which.value !== "all";
    return matrixOf(this.#pairs, this.#classes, mostConfused(this.#pairs, n, few ? FIRST : n));
  }

  /** @returns {Scale} */
  #scale() {
    return this.#scales.querySelector("input[value='share']:checked") ? "share" : "count";
  }

  /** What the ends of the two colour scales mean. */
  #showKey() {
    const scale = this.#scale();
    const most = largest(scale === "share" ? sharesOf(this.#matrix) : this.#matrix.counts, scale);
    for (const which of /** @type {const} */ (["right", "wrong"])) {
      const text = scale === "share" ? `${Math.round(100 * most[which])} %` : formatCount(most[which]);
      setText(found(`[data-matrix-least='${which}']`, HTMLElement), scale === "share" ? "0 %" : "0");
      setText(found(`[data-matrix-most='${which}']`, HTMLElement), text);
    }
  }

  /** @param {MouseEvent} event */
  #cellOf(event) {
    const { left, top } = this.#surface.getBoundingClientRect();
    return cellAt(this.#geometry, event.clientX - left, event.clientY - top);
  }

  /** @param {Cell | null} cell */
  #enter(cell) {
    const label = cell && this.#matrix.labels[cell.row];
    const predicted = cell && this.#matrix.labels[cell.column];
    if (typeof label === "number" && typeof predicted === "number") this.#open(label, predicted);
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const step = STEPS.get(event.key);
    if (step) {
      event.preventDefault();
      const last = this.#matrix.labels.length - 1;
      const from = this.#cell ?? { row: -step.row, column: -step.column };
      this.#point({ row: within(from.row + step.row, last), column: within(from.column + step.column, last) });
    } else if (event.key === "Enter") {
      this.#enter(this.#cell);
    }
  }

  /** Frames a cell and says what it holds; null takes both away. @param {Cell | null} cell */
  #point(cell) {
    this.#cell = cell;
    this.#box.hidden = this.#tip.hidden = cell === null;
    if (!cell) return;
    const { left, top, cellWidth, cellHeight } = this.#geometry;
    const x = left + cell.column * cellWidth;
    const y = top + cell.row * cellHeight;
    Object.assign(this.#box.style, {
      left: `${x}px`,
      top: `${y}px`,
      width: `${cellWidth}px`,
      height: `${cellHeight}px`,
    });
    setText(this.#tip, sentenceOf(this.#matrix, cell.row, cell.column));
    const room = this.#surface.clientWidth - this.#tip.offsetWidth - 8;
    const above = y - this.#tip.offsetHeight - 8;
    this.#tip.style.left = `${Math.max(8, Math.min(room, x + cellWidth / 2 - this.#tip.offsetWidth / 2))}px`;
    this.#tip.style.top = `${above > 0 ? above : y + cellHeight + 8}px`;
  }
}

/**
 * @param {number} place
 * @param {number} last
 */
function within(place, last) {
  return Math.max(0, Math.min(last, place));
}

/**
 * Of the labels as they are cut, in pixels.
 * @param {readonly string[]} names
 * @param {number} width of the chart
 */
function longestWidth(names, width) {
  const context = document.createElement("canvas").getContext("2d");
  if (!context) return 100;
  context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  return Math.max(24, ...names.map((name) => context.measureText(tickText(name, width)).width));
}
