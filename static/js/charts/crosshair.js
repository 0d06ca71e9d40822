// @ts-check
/** The vertical line under the pointer, on the chart that is pointed at and on all others at the same place. */

import { element, setText } from "../dom.js";
import { fromPixel, toPixel } from "./cursor.js";
import { MARGIN } from "./figure.js";

/** @typedef {import("./axis.js").Range} Range */
/**
 * - `range`: what the axis shows, null before the first drawing. - `point`: the pointer is at this position, or left.
 * - `step`: where an arrow key leads from a position.
 * @typedef {{range: () => Range | null, point: (x: number | null) => void,
 *   step: (from: number, direction: -1 | 1, coarse: boolean) => number}} Target
 */

export class Crosshair {
  /** A button is down on the plot: a drawing now would end the drag. */
  pressed = false;
  #line = element("div", { class: "chart-cursor", hidden: "" });
  #moment = element("div", { class: "chart-moment num", hidden: "" });
  #stage;
  #target;
  /** @type {number | null} */
  #x = null;

  /**
   * @param {HTMLElement} stage
   * @param {Target} target
   * @param {() => void} onRelease
   */
  constructor(stage, target, onRelease) {
    this.#stage = stage;
    this.#target = target;
    stage.append(this.#line, this.#moment);
    stage.addEventListener("pointermove", (event) => this.#follow(event));
    stage.addEventListener("pointerleave", () => this.#leave());
    stage.addEventListener("blur", () => this.#leave());
    stage.addEventListener("keydown", (event) => this.#onKey(event));
    stage.addEventListener("pointerdown", (event) => {
      this.#follow(event);
      this.pressed = true;
    });
    for (const end of ["pointerup", "pointercancel"]) {
      addEventListener(end, () => {
        if (!this.pressed) return;
        this.pressed = false;
        onRelease();
      });
    }
  }

  /**
   * Shows the line at `x`, or takes it away where that is null or out of sight.
   * @param {number | null} x
   * @param {string} [text] what to write beside it
   */
  show(x, text = "") {
    const range = this.#target.range();
    const inside = x !== null && range !== null && x >= range[0] && x <= range[1];
    this.#x = inside ? x : null;
    this.#line.hidden = !inside;
    this.#moment.hidden = !inside || text === "";
    if (!inside) return;
    const px = toPixel(x, range, MARGIN.l, this.#width_px);
    this.#line.style.translate = `${px}px 0`;
    this.#moment.style.translate = `${px}px 0`;
    this.#moment.dataset.side = px > this.#stage.clientWidth / 2 ? "left" : "right";
    setText(this.#moment, text);
  }

  get #width_px() {
    return Math.max(1, this.#stage.clientWidth - MARGIN.l - MARGIN.r);
  }

  /** @param {PointerEvent} event */
  #follow(event) {
    const range = this.#target.range();
    if (!range || this.pressed) return;
    const px = event.clientX - this.#stage.getBoundingClientRect().left;
    const inside = px >= MARGIN.l && px <= MARGIN.l + this.#width_px;
    if (inside) this.#target.point(fromPixel(px, range, MARGIN.l, this.#width_px));
    else this.#leave();
  }

  #leave() {
    if (this.#x !== null) this.#target.point(null);
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const range = this.#target.range();
    if (!range || event.target !== this.#stage) return;
    if (event.key === "Escape") return this.#leave();
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    const direction = event.key === "ArrowRight" ? 1 : -1;
    const from = this.#x ?? range[direction > 0 ? 0 : 1];
    this.#target.point(this.#target.step(from, direction, event.shiftKey));
  }
}
