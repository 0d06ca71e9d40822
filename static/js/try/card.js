// @ts-check
/** One image that was tried: the picture, what the network saw, its guesses, or why there are none. */

import { element, found, setText } from "../dom.js";
import { Why } from "./why.js";
import { factsText, shareText } from "./words.js";

/** @typedef {import("./asking.js").TriedImage} TriedImage */
/** @typedef {import("./asking.js").Answer} Answer */
/** @typedef {{remove: (card: Card) => void, layers: (card: Card) => void, explain: import("./why.js").Explain, classes: string[], layersAddress: (card: Card) => string}} Hooks */

const SMALL_PX = 96;

export class Card {
  /** @type {Answer | null} */
  answer = null;
  #address = "";
  /** @type {Why | null} */
  #why = null;

  /**
   * @param {TriedImage} image
   * @param {Hooks} hooks
   */
  constructor(image, hooks) {
    this.image = image;
    this.hooks = hooks;
    const made = found("#try-card", HTMLTemplateElement).content.cloneNode(true);
    this.root = found(".try-card", HTMLElement, /** @type {DocumentFragment} */ (made));
    setText(this.#part("name"), image.name);
    this.#part("name").parentElement?.setAttribute("title", image.name);
    this.#showTruth("");
    if (!image.file) this.#showPicture(image.picture);
    this.say("waiting", "Waiting for its turn");
    this.root.addEventListener("click", (event) => this.#onClick(event));
  }

  /** The words of its first guess, or why there is none; for those who do not see it appear. */
  get spoken() {
    const guess = this.answer?.images[0]?.top[0];
    if (!guess) return `${this.image.name}: ${this.#part("state").textContent}`;
    return `${this.image.name}: ${guess.name}, ${shareText(guess.probability)}`;
  }

  /**
   * @param {"waiting" | "asking" | "refused"} state
   * @param {string} words
   */
  say(state, words) {
    this.root.dataset.state = state;
    this.#part("state").hidden = false;
    setText(this.#part("state"), words);
  }

  /** @param {{message: string, hint: string}} problem */
  refuse({ message, hint }) {
    this.say("refused", `${message} ${hint}`.trim());
  }

  /**
   * @param {Answer} answer about this image alone
   * @param {number} whole_ms
   */
  show(answer, whole_ms) {
    const image = answer.images[0];
    if (!image || image.error) return this.refuse(image?.error ?? { message: "There is no answer.", hint: "" });
    this.answer = answer;
    this.root.dataset.state = "answered";
    this.#part("state").hidden = true;
    if (this.image.file) {
      this.#address = URL.createObjectURL(this.image.file);
      this.#showPicture(this.#address, image.seen);
    }
    const isSmall = Math.max(image.width, image.height) <= SMALL_PX;
    this.#part("frame").toggleAttribute("data-small", isSmall);
    this.#part("frame").querySelector("img")?.classList.toggle("try-pixels", isSmall);
    this.#showSeen(image.seen);
    this.#showTop(image.top);
    this.#showTruth(image.top[0]?.name ?? "");
    setText(this.#part("facts"), factsText(answer, image, whole_ms));
    this.#part("actions").hidden = false;
    found('[data-do="layers"]', HTMLAnchorElement, this.root).href = this.hooks.layersAddress(this);
  }

  /** What the browser holds for it is let go. */
  leave() {
    if (this.#address) URL.revokeObjectURL(this.#address);
    this.#why?.leave();
    this.root.remove();
  }

  /** @param {string} name */
  #part(name) {
    return found(`[data-card="${name}"]`, HTMLElement, this.root);
  }

  /**
   * @param {string} address
   * @param {string} [otherwise] where the browser cannot draw what the server can read
   */
  #showPicture(address, otherwise = "") {
    const picture = element("img", { class: "try-picture", alt: "", src: address });
    picture.addEventListener(
      "error",
      () => {
        if (otherwise) picture.src = otherwise;
        else picture.remove();
      },
      { once: true },
    );
    this.#part("frame").replaceChildren(picture);
  }

  /** @param {string} seen */
  #showSeen(seen) {
    const picture = found('[data-card="seen"]', HTMLImageElement, this.root);
    this.#part("seen-figure").hidden = !seen;
    if (!seen) return;
    picture.addEventListener(
      "load",
      () => setText(this.#part("seen-px"), `${picture.naturalWidth} × ${picture.naturalHeight} px`),
      { once: true },
    );
    picture.src = seen;
  }

  /** @param {import("./asking.js").Guess[]} top */
  #showTop(top) {
    const list = this.#part("top");
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

  /** @param {string} guess */
  #showTruth(guess) {
    const { truth } = this.image;
    this.#part("truth").hidden = !truth;
    setText(this.#part("truth-name"), truth);
    const verdict = this.#part("verdict");
    verdict.hidden = !guess;
    if (!guess) return;
    setText(verdict, guess === truth ? "right" : "wrong");
    verdict.classList.toggle("pill-succeeded", guess === truth);
    verdict.classList.toggle("pill-failed", guess !== truth);
  }

  /** @param {MouseEvent} event */
  #onClick(event) {
    const button = event.target instanceof Element ? event.target.closest("[data-do]") : null;
    const wish = button?.getAttribute("data-do");
    if (wish === "remove") this.hooks.remove(this);
    if (wish === "why" && button instanceof HTMLElement) this.#toggleWhy(button);
    if (wish === "layers" && !(event.ctrlKey || event.metaKey || event.shiftKey)) {
      event.preventDefault();
      this.hooks.layers(this);
    }
  }

  /** @param {HTMLElement} button */
  #toggleWhy(button) {
    const place = this.#part("why");
    place.hidden = !place.hidden;
    button.setAttribute("aria-expanded", String(!place.hidden));
    if (place.hidden || this.#why || !this.answer) return;
    this.#why = new Why(place, this.image, this.answer, this.hooks.classes, this.hooks.explain);
  }
}
