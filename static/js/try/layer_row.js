// @ts-check
/** One layer in the list; its pictures are fetched when it is opened and let go when it is closed. */

import { element, setText } from "../dom.js";
import { formatCount, formatValue } from "../format.js";
import { AskError } from "./asking.js";
import { histogram } from "./histogram.js";
import { shapeText } from "./words.js";

/**
 * @typedef {{shape: number[], n_nonfinite: number, mean: number | null, std: number | null, min: number | null,
 *   max: number | null, histogram: number[]}} Values
 */
/**
 * @typedef {{name: string, type: string, n_parameters: number, activations: Values, weights: Values | null,
 *   has_activation_tiles: boolean, has_weight_tiles: boolean}} Layer
 */
/** @typedef {"activations" | "weights"} What */
/** @typedef {(layer: string, what: What, signal: AbortSignal) => Promise<Blob>} Draw */

const MOST_TILES = 256;
const NOT_DRAWN = {
  activations: "No channel of them is a picture, so there is nothing to draw.",
  weights: "They are no kernels, so there is nothing to draw.",
};

export class LayerRow {
  #given = new AbortController();
  /** @type {string[]} */
  #addresses = [];

  /**
   * @param {Layer} layer
   * @param {number} number counted from 1
   * @param {Draw} draw
   */
  constructor(layer, number, draw) {
    this.layer = layer;
    this.draw = draw;
    this.button = element("button", {
      type: "button",
      class: "layer-row",
      "aria-expanded": "false",
      "aria-controls": `layer-${number}`,
    });
    this.button.append(...cellsOf(layer, number));
    this.body = element("div", { class: "layer-body", id: `layer-${number}`, hidden: "" });
    this.root = element("li", { class: "layer" }, this.button, this.body);
    this.button.addEventListener("click", () => this.toggle());
  }

  toggle() {
    const opens = this.body.hidden;
    this.body.hidden = !opens;
    this.button.setAttribute("aria-expanded", String(opens));
    if (opens) this.#fill();
    else this.leave();
  }

  leave() {
    this.#given.abort();
    this.#given = new AbortController();
    for (const address of this.#addresses) URL.revokeObjectURL(address);
    this.#addresses = [];
    this.body.replaceChildren();
  }

  #fill() {
    const { activations, weights, has_activation_tiles, has_weight_tiles } = this.layer;
    this.body.append(this.#part("activations", "Activations", activations, has_activation_tiles));
    if (weights) this.body.append(this.#part("weights", "Weights", weights, has_weight_tiles));
  }

  /**
   * @param {What} what
   * @param {string} title
   * @param {Values} values
   * @param {boolean} hasTiles
   */
  #part(what, title, values, hasTiles) {
    const range = `${formatValue(values.min)} to ${formatValue(values.max)}`;
    const part = element("section", { class: "layer-part" });
    const facts = element("dl", { class: "kv small num" });
    for (const [name, text] of factsOf(values)) facts.append(element("dt", {}, name), element("dd", {}, text));
    part.append(element("h3", {}, title), facts);
    if (values.histogram.length) {
      const label = `Histogram of the ${what} of ${this.layer.name}, ${range}`;
      const ends = element("p", { class: "row row-spread small muted num" });
      ends.append(element("span", {}, formatValue(values.min)), element("span", {}, formatValue(values.max)));
      part.append(histogram(values.histogram, { width: 300, height: 80, label }), ends);
    }
    const tiles = element("div", { class: "layer-tiles" });
    part.append(tiles);
    if (hasTiles) this.#drawTiles(tiles, what, values);
    else tiles.append(element("p", { class: "small muted" }, NOT_DRAWN[what]));
    return part;
  }

  /**
   * @param {HTMLElement} place
   * @param {What} what
   * @param {Values} values
   */
  async #drawTiles(place, what, values) {
    const { signal } = this.#given;
    const state = element("p", { class: "small muted", role: "status" }, "Drawing");
    place.append(state);
    try {
      const address = URL.createObjectURL(await this.draw(this.layer.name, what, signal));
      if (signal.aborted) return URL.revokeObjectURL(address);
      this.#addresses.push(address);
      place.prepend(tilesPicture(address, `${what} of ${this.layer.name}`));
      setText(state, tilesText(what, values));
    } catch (error) {
      if (signal.aborted) return;
      setText(state, error instanceof AskError ? `${error.message} ${error.hint}`.trim() : "This could not be drawn.");
    }
    return undefined;
  }
}

/**
 * Small tiles are drawn larger, by whole factors, so that every pixel stays a square.
 * @param {string} address
 * @param {string} what
 */
function tilesPicture(address, what) {
  const picture = element("img", { class: "try-pixels", alt: `Tiles of the ${what}`, src: address });
  picture.addEventListener("load", () => {
    const factor = Math.max(1, Math.floor(360 / Math.max(picture.naturalWidth, 1)));
    picture.width = picture.naturalWidth * factor;
  });
  return picture;
}

/**
 * @param {What} what
 * @param {Values} values
 */
function tilesText(what, { shape }) {
  const n = shape[0] ?? 1;
  const one = what === "activations" ? "channel" : "kernel";
  const cut = n > MOST_TILES ? `the first ${MOST_TILES} of ${formatCount(n)} ${one}s` : `${formatCount(n)} ${one}s`;
  return `A tile for each: ${cut}, each from its darkest to its brightest value.`;
}

/** @param {Values} values @returns {[string, string][]} */
function factsOf(values) {
  /** @type {[string, string][]} */
  const facts = [
    ["Shape", shapeText(values.shape)],
    ["Mean", formatValue(values.mean)],
    ["Standard deviation", formatValue(values.std)],
  ];
  if (values.n_nonfinite) facts.push(["Not finite", `${formatCount(values.n_nonfinite)} values`]);
  return facts;
}

/**
 * @param {Layer} layer
 * @param {number} number
 */
function cellsOf(layer, number) {
  const { activations } = layer;
  const name = element("span", { class: "layer-name" });
  name.append(
    element("bdi", { class: "mono truncate", title: layer.name }, layer.name),
    element("span", { class: "small muted" }, layer.type),
  );
  const cell = (/** @type {string} */ label, /** @type {string} */ text) => {
    const made = element("span", { class: "num", "data-label": label });
    made.append(element("span", { class: "layer-label" }, `${label} `), text);
    return made;
  };
  return [
    element("span", { class: "num muted layer-number" }, String(number)),
    name,
    cell("Parameters", layer.n_parameters ? formatCount(layer.n_parameters) : "–"),
    cell("Output", shapeText(activations.shape)),
    cell("Mean", formatValue(activations.mean)),
    cell("Std", formatValue(activations.std)),
    histogram(activations.histogram, { width: 120, height: 24, label: "" }),
  ];
}
