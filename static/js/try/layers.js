// @ts-check
/** Every layer of the network for one image: a list to filter, whose rows open. */

import { element, found, setText } from "../dom.js";
import { formatCount } from "../format.js";
import { AskError, ask } from "./asking.js";
import { LayerRow } from "./layer_row.js";
import { msText } from "./words.js";

/** @typedef {import("./asking.js").TriedImage} TriedImage */
/** @typedef {import("./layer_row.js").Layer} Layer */
/** @typedef {{layers: string, "layer-tiles": string}} Addresses */

const STEPS = /** @type {Record<string, number>} */ ({ ArrowDown: 1, ArrowUp: -1 });

export class LayersView {
  /** @type {LayerRow[]} */
  #rows = [];
  #asked = new AbortController();
  /** What is shown, or was last. @type {{image: TriedImage, checkpoint: number | null} | null} */
  current = null;

  /**
   * @param {HTMLElement} root
   * @param {Addresses} addresses
   */
  constructor(root, addresses) {
    this.root = root;
    this.addresses = addresses;
    this.list = found("[data-layers-list]", HTMLOListElement, root);
    this.text = found("[data-layers-q]", HTMLInputElement, root);
    this.type = found("[data-layers-type]", HTMLSelectElement, root);
    this.text.addEventListener("input", () => this.#filter());
    this.type.addEventListener("change", () => this.#filter());
    found("[data-layers-filter]", HTMLFormElement, root).addEventListener("submit", (event) => event.preventDefault());
    found("[data-layers-retry]", HTMLElement, root).addEventListener("click", () => {
      if (this.current) this.open(this.current.image, this.current.checkpoint);
    });
    this.list.addEventListener("keydown", (event) => this.#onKey(event));
  }

  /**
   * @param {TriedImage} image
   * @param {number | null} checkpoint
   */
  async open(image, checkpoint) {
    this.close();
    this.current = { image, checkpoint };
    this.root.hidden = false;
    const { signal } = this.#asked;
    setText(this.#part("name"), image.name);
    this.#say("Putting the image through the network, layer by layer");
    found("#layers-title", HTMLElement, this.root).focus();
    try {
      const answer = await ask(this.addresses.layers, image, { checkpoint }, signal);
      this.#show(await answer.json());
    } catch (error) {
      if (!signal.aborted) this.#refuse(error);
    }
  }

  close() {
    this.#asked.abort();
    this.#asked = new AbortController();
    for (const row of this.#rows) row.leave();
    this.#rows = [];
    this.list.replaceChildren();
    this.text.value = "";
    this.root.hidden = true;
    for (const part of ["card", "problem", "seen"]) this.#part(part).hidden = true;
  }

  /** @param {string} name */
  #part(name) {
    return found(`[data-layers-${name}]`, HTMLElement, this.root);
  }

  /** @param {string} words */
  #say(words) {
    setText(this.#part("state"), words);
    this.#part("state").hidden = !words;
  }

  /** @param {unknown} error */
  #refuse(error) {
    this.#say("");
    this.#part("problem").hidden = false;
    const known = error instanceof AskError ? error : { message: "The layers cannot be shown.", hint: "Try again." };
    setText(this.#part("message"), known.message);
    setText(this.#part("hint"), known.hint);
  }

  /** @param {{layers: Layer[], n_parameters: number, seen: string, ms: number, checkpoint: {id: number, name: string}}} found_ */
  #show({ layers, n_parameters, seen, ms, checkpoint }) {
    if (!this.current) return;
    const { image } = this.current;
    this.#say("");
    const picture = found("[data-layers-seen]", HTMLImageElement, this.root);
    picture.hidden = !seen;
    picture.src = seen;
    setText(this.#part("name"), `${image.name}, ${checkpoint.name}`);
    this.#rows = layers.map(
      (layer, index) => new LayerRow(layer, index + 1, (...wish) => this.#draw(image, checkpoint.id, ...wish)),
    );
    this.list.replaceChildren(...this.#rows.map(({ root }) => root));
    const types = [...new Set(layers.map(({ type }) => type))].sort();
    this.type.replaceChildren(
      element("option", { value: "" }, "Any type"),
      ...types.map((type) => element("option", { value: type }, type)),
    );
    const inside = layers.reduce((sum, each) => sum + each.n_parameters, 0);
    const rest = n_parameters > inside ? `, ${formatCount(n_parameters - inside)} of them outside these layers` : "";
    setText(this.#part("total"), `${formatCount(n_parameters)} parameters in all${rest}. Took ${msText(ms)}.`);
    this.#part("card").hidden = false;
    this.#filter();
  }

  /**
   * @param {TriedImage} image
   * @param {number} checkpoint
   * @param {string} layer
   * @param {import("./layer_row.js").What} what
   * @param {AbortSignal} signal
   */
  async #draw(image, checkpoint, layer, what, signal) {
    const answer = await ask(this.addresses["layer-tiles"], image, { layer, what, checkpoint }, signal);
    return answer.blob();
  }

  #filter() {
    const wanted = this.text.value.trim().toLowerCase();
    let n = 0;
    for (const { root, layer } of this.#rows) {
      const fits = layer.name.toLowerCase().includes(wanted) && (!this.type.value || layer.type === this.type.value);
      root.hidden = !fits;
      if (fits) n += 1;
    }
    const all = this.#rows.length;
    setText(this.#part("count"), n === all ? `${all} layers` : `${n} of ${all} layers`);
  }

  /** The arrow keys go from row to row. @param {KeyboardEvent} event */
  #onKey(event) {
    const step = STEPS[event.key];
    const at = document.activeElement;
    if (!step || !(at instanceof HTMLButtonElement) || !at.classList.contains("layer-row")) return;
    const shown = this.#rows.filter(({ root }) => !root.hidden).map(({ button }) => button);
    event.preventDefault();
    shown[shown.indexOf(at) + step]?.focus();
  }
}
