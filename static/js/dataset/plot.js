// @ts-check
/** An element that plotly draws in, drawn again when the theme or the width changes. */

import { readPalette } from "../charts/palette.js";

/** @typedef {import("../charts/figure.js").Palette} Palette */
/** @typedef {import("../charts/plotly.js").Plotly} Plotly */
/** @typedef {import("../charts/plotly.js").PlotElement} PlotElement */
/** @typedef {(palette: Palette, width: number) => {data: object[], layout: object}} FigureOf */

const CONFIG = { displayModeBar: false, doubleClick: false, showTips: false, responsive: false };

export class Plot {
  #root;
  #plotly;
  #figureOf;
  #width = 0;

  /**
   * @param {HTMLElement} root
   * @param {Plotly} plotly
   * @param {FigureOf} figureOf
   */
  constructor(root, plotly, figureOf) {
    this.#root = root;
    this.#plotly = plotly;
    this.#figureOf = figureOf;
    root.replaceChildren();
    this.draw();
    document.addEventListener("fovea:theme", () => this.draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    new ResizeObserver(() => {
      if (root.clientWidth !== this.#width) this.draw();
    }).observe(root);
  }

  draw() {
    this.#width = this.#root.clientWidth;
    if (this.#width === 0) return;
    const { data, layout } = this.#figureOf(readPalette(), this.#width);
    void this.#plotly.react(this.#root, data, layout, CONFIG);
  }

  /**
   * @param {(point: {curveNumber: number, pointNumber: number}) => void} listener told of the bar or circle
   */
  onClick(listener) {
    const drawn = /** @type {PlotElement} */ (this.#root);
    drawn.on("plotly_click", (detail) => {
      const point = /** @type {{curveNumber: number, pointNumber: number}[]} */ (detail?.points)?.[0];
      if (point) listener(point);
    });
  }
}
