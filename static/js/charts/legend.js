// @ts-check
/** The names of the lines, their present values, and which of them are shown. */

import { element, setText } from "../dom.js";
import { MISSING } from "../format.js";

/** @typedef {import("./panels.js").Line} Line */

export class Legend {
  root = element("ul", { class: "chart-legend" });
  /** Names of the series that are not drawn. @type {Set<string>} */
  hidden = new Set();
  /** @type {Map<string, {button: HTMLButtonElement, readout: HTMLElement}>} */
  #items = new Map();
  #onChange;

  /** @param {() => void} onChange */
  constructor(onChange) {
    this.#onChange = onChange;
  }

  #best = element("li", { class: "chart-best", hidden: "" });

  /** @param {Line[]} lines */
  setLines(lines) {
    this.#items.clear();
    this.root.replaceChildren(...lines.map((line) => element("li", {}, this.#button(line))), this.#best);
    this.#showPressed();
  }

  /** @param {string} text of the best value; empty where none is marked */
  setBest(text) {
    this.#best.hidden = text === "";
    setText(this.#best, `★ best ${text}`);
  }

  /**
   * @param {string} series
   * @param {string} text
   */
  setValue(series, text) {
    const item = this.#items.get(series);
    if (item) setText(item.readout, text);
  }

  /** @param {Line} line */
  #button(line) {
    const attributes = { class: "swatch", "data-colour": String(line.colour), "data-dash": line.dash ?? "solid" };
    const readout = element("span", { class: "num chart-value" }, MISSING);
    const name = element("span", { class: "muted" }, line.label);
    const button = element("button", { type: "button", class: "chart-legend-item" });
    button.append(element("span", attributes), name, readout);
    button.title = "Click to hide or show, double-click to show alone";
    button.addEventListener("click", () => this.#toggle(line.series));
    button.addEventListener("dblclick", () => this.#isolate(line.series));
    this.#items.set(line.series, { button, readout });
    return button;
  }

  /** @param {string} series */
  #toggle(series) {
    if (!this.hidden.delete(series)) this.hidden.add(series);
    this.#showPressed();
    this.#onChange();
  }

  /** Alone, or where it is alone already, all again. @param {string} series */
  #isolate(series) {
    const others = [...this.#items.keys()].filter((name) => name !== series);
    const alone = others.every((name) => this.hidden.has(name));
    this.hidden = new Set(alone ? [] : others);
    this.#showPressed();
    this.#onChange();
  }

  #showPressed() {
    for (const [series, { button }] of this.#items)
      button.setAttribute("aria-pressed", String(!this.hidden.has(series)));
  }
}
