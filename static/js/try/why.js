// @ts-check
/** Where in the image the network found what speaks for a class: heat over the picture, with one sentence about it. */

import { element, found, setText } from "../dom.js";
import { formatPercent } from "../format.js";
import { AskError } from "./asking.js";
import { heatPixels } from "./heat.js";
import { shareText, whySentence } from "./words.js";

/** @typedef {import("./asking.js").TriedImage} TriedImage */
/** @typedef {{label: number, class_name: string, probability: number, layer: string, heat: number[][], seen: string}} Explanation */
/** @typedef {(image: TriedImage, checkpoint: number, label: number, signal: AbortSignal) => Promise<Explanation>} Explain */

export class Why {
  #asked = new AbortController();

  /**
   * @param {HTMLElement} place
   * @param {TriedImage} image
   * @param {{checkpoint: number, top: import("./asking.js").Guess[]}} answer
   * @param {string[]} classes of the network, as many as are known
   * @param {Explain} explain
   */
  constructor(place, image, answer, classes, explain) {
    this.image = image;
    this.checkpoint = answer.checkpoint;
    this.explain = explain;
    place.append(found("#try-why", HTMLTemplateElement).content.cloneNode(true));
    this.root = found(".why", HTMLElement, place);
    this.choice = found('[data-why="class"]', HTMLSelectElement, place);
    this.#offer(answer.top, classes);
    this.choice.addEventListener("change", () => this.#ask());
    const opacity = found('[data-why="opacity"]', HTMLInputElement, place);
    opacity.addEventListener("input", () => this.#mix(Number(opacity.value)));
    this.#mix(Number(opacity.value));
    this.#ask();
  }

  leave() {
    this.#asked.abort();
  }

  /** @param {string} name */
  #part(name) {
    return found(`[data-why="${name}"]`, HTMLElement, this.root);
  }

  /**
   * @param {import("./asking.js").Guess[]} top
   * @param {string[]} classes
   */
  #offer(top, classes) {
    const guesses = element("optgroup", { label: "What it guessed" });
    guesses.append(
      ...top.map(({ label, name, probability }) =>
        element("option", { value: String(label) }, `${name}, ${shareText(probability)}`),
      ),
    );
    const known = new Set(top.map(({ label }) => label));
    const others = element("optgroup", { label: "Every other class" });
    for (const [label, name] of classes.entries()) {
      if (!known.has(label)) others.append(element("option", { value: String(label) }, name));
    }
    this.choice.append(guesses, ...(others.childElementCount ? [others] : []));
  }

  /** @param {number} percent */
  #mix(percent) {
    this.#part("heat").style.opacity = String(percent / 100);
    setText(this.#part("share"), formatPercent(percent, 0));
  }

  async #ask() {
    this.#asked.abort();
    this.#asked = new AbortController();
    const { signal } = this.#asked;
    this.root.dataset.state = "asking";
    setText(this.#part("sentence"), "Looking where it looked");
    try {
      this.#show(await this.explain(this.image, this.checkpoint, Number(this.choice.value), signal));
    } catch (error) {
      if (signal.aborted) return;
      this.root.dataset.state = "refused";
      const words = error instanceof AskError ? `${error.message} ${error.hint}`.trim() : "This could not be shown.";
      setText(this.#part("sentence"), words);
    }
  }

  /** @param {Explanation} found_ */
  #show(found_) {
    this.root.dataset.state = "answered";
    const seen = found('[data-why="seen"]', HTMLImageElement, this.root);
    seen.alt = `What the network saw of ${this.image.name}`;
    seen.src = found_.seen;
    const canvas = found('[data-why="heat"]', HTMLCanvasElement, this.root);
    const { width, height, data } = heatPixels(found_.heat);
    canvas.width = Math.max(1, width);
    canvas.height = Math.max(1, height);
    if (width && height) canvas.getContext("2d")?.putImageData(new ImageData(data, width, height), 0, 0);
    setText(this.#part("sentence"), whySentence(found_));
  }
}
