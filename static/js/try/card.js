// @ts-check
/** One image that was tried: its guesses, or why there are none, and the way to why and to the layers. */

import { element, found, setText } from "../dom.js";
import { ImageCard } from "./image_card.js";
import { Why } from "./why.js";
import { factsText, shareText } from "./words.js";

/** @typedef {import("./asking.js").TriedImage} TriedImage */
/** @typedef {import("./asking.js").Answer} Answer */
/** @typedef {{remove: (card: Card) => void, layers: (card: Card) => void, explain: import("./why.js").Explain, classes: string[], layersAddress: (card: Card) => string}} Hooks */

export class Card extends ImageCard {
  /** @type {Answer | null} */
  answer = null;
  /** @type {Why | null} */
  #why = null;

  /**
   * @param {TriedImage} image
   * @param {Hooks} hooks
   */
  constructor(image, hooks) {
    super(image, "#try-card");
    this.hooks = hooks;
    this.root.addEventListener("click", (event) => this.#onClick(event));
  }

  /** The words of its first guess, or why there is none. */
  get spoken() {
    const guess = this.answer?.images[0]?.top[0];
    return guess ? `${this.image.name}: ${guess.name}, ${shareText(guess.probability)}` : super.spoken;
  }

  /**
   * @param {Answer} answer about this image alone
   * @param {number} whole_ms
   */
  show(answer, whole_ms) {
    const image = answer.images[0];
    if (!image || image.error) return this.refuse(image?.error ?? { message: "There is no answer.", hint: "" });
    this.answer = answer;
    this.showImage(image);
    this.#showTop(image.top);
    this.judge(this.part("verdict"), image.top[0]?.name ?? "");
    setText(this.part("facts"), factsText(answer, image, whole_ms));
    this.#showActions(answer);
  }

  leave() {
    this.#why?.leave();
    super.leave();
  }

  /** An export answers as a whole: nobody can look into it. @param {Answer} answer */
  #showActions({ checkpoint }) {
    this.part("actions").hidden = false;
    this.part("closed").hidden = Boolean(checkpoint);
    found('[data-do="why"]', HTMLButtonElement, this.root).disabled = !checkpoint;
    const layers = found('[data-do="layers"]', HTMLAnchorElement, this.root);
    if (checkpoint) {
      layers.href = this.hooks.layersAddress(this);
    } else {
      layers.removeAttribute("href");
      layers.setAttribute("aria-disabled", "true");
    }
  }

  /** @param {import("./asking.js").Guess[]} top */
  #showTop(top) {
    const list = this.part("top");
    list.hidden = false;
    list.replaceChildren(
      ...top.map(({ name, probability }) => {
        const bar = element("progress", {
          class: "progress",
          max: "1",
          value: String(probability),
          "aria-hidden": "true",
        });
        const row = element("li", { class: "try-guess" });
        row.append(
          element("bdi", { class: "truncate", title: name }, name),
          bar,
          element("span", { class: "num" }, shareText(probability)),
        );
        if (this.image.truth && name === this.image.truth) row.toggleAttribute("data-truth", true);
        return row;
      }),
    );
  }

  /** @param {MouseEvent} event */
  #onClick(event) {
    const button = event.target instanceof Element ? event.target.closest("[data-do]") : null;
    const wish = button?.getAttribute("data-do");
    if (wish === "remove") this.hooks.remove(this);
    if (wish === "why" && button instanceof HTMLElement) this.#toggleWhy(button);
    if (wish === "layers" && this.answer?.checkpoint && !(event.ctrlKey || event.metaKey || event.shiftKey)) {
      event.preventDefault();
      this.hooks.layers(this);
    }
  }

  /** @param {HTMLElement} button */
  #toggleWhy(button) {
    const checkpoint = this.answer?.checkpoint;
    const place = this.part("why");
    place.hidden = !place.hidden;
    button.setAttribute("aria-expanded", String(!place.hidden));
    if (place.hidden || this.#why || !this.answer || !checkpoint) return;
    const { top } = this.answer.images[0] ?? { top: [] };
    this.#why = new Why(place, this.image, { checkpoint: checkpoint.id, top }, this.hooks.classes, this.hooks.explain);
  }
}
