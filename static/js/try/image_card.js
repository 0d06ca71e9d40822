// @ts-check
/** One image that networks are asked about: the picture, what they saw, its truth, and why there is no answer. */

import { element, found, setText } from "../dom.js";

/** @typedef {import("./asking.js").TriedImage} TriedImage */
/** @typedef {import("./asking.js").ImageAnswer} ImageAnswer */

const SMALL_PX = 96;

/** The parts are marked `data-card` in the page's own template; `seen` and `verdict` may be absent there. */
export class ImageCard {
  #address = "";

  /**
   * @param {TriedImage} image
   * @param {string} template
   */
  constructor(image, template) {
    this.image = image;
    const made = found(template, HTMLTemplateElement).content.cloneNode(true);
    this.root = found(".try-card", HTMLElement, /** @type {DocumentFragment} */ (made));
    setText(this.part("name"), image.name);
    this.part("name").parentElement?.setAttribute("title", image.name);
    this.part("truth").hidden = !image.truth;
    setText(this.part("truth-name"), image.truth);
    if (!image.file) this.#showPicture(image.picture);
    this.say("waiting", "Waiting for its turn");
  }

  /** Told to those who do not see it appear. */
  get spoken() {
    return `${this.image.name}: ${this.part("state").textContent}`;
  }

  /**
   * @param {"waiting" | "asking" | "refused"} state
   * @param {string} words
   */
  say(state, words) {
    this.root.dataset.state = state;
    this.part("state").hidden = false;
    setText(this.part("state"), words);
  }

  /** @param {{message: string, hint: string}} problem */
  refuse({ message, hint }) {
    this.say("refused", `${message} ${hint}`.trim());
  }

  /** What the browser holds for it is let go. */
  leave() {
    if (this.#address) URL.revokeObjectURL(this.#address);
    this.root.remove();
  }

  /** @param {string} name */
  part(name) {
    return found(`[data-card="${name}"]`, HTMLElement, this.root);
  }

  /** @param {ImageAnswer} answer */
  showImage(answer) {
    this.root.dataset.state = "answered";
    this.part("state").hidden = true;
    if (this.image.file && !this.#address) {
      this.#address = URL.createObjectURL(this.image.file);
      this.#showPicture(this.#address, answer.seen);
    }
    const isSmall = Math.max(answer.width, answer.height) <= SMALL_PX;
    this.part("frame").toggleAttribute("data-small", isSmall);
    this.part("frame").querySelector("img")?.classList.toggle("try-pixels", isSmall);
    this.#showSeen(answer.seen);
  }

  /**
   * A pill that says whether a guess is the truth, where that is known.
   * @param {HTMLElement} pill
   * @param {string} guess empty where there is none
   */
  judge(pill, guess) {
    const { truth } = this.image;
    pill.hidden = !(guess && truth);
    if (pill.hidden) return;
    setText(pill, guess === truth ? "right" : "wrong");
    pill.classList.toggle("pill-succeeded", guess === truth);
    pill.classList.toggle("pill-failed", guess !== truth);
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
    this.part("frame").replaceChildren(picture);
  }

  /** @param {string} seen */
  #showSeen(seen) {
    const picture = found('[data-card="seen"]', HTMLImageElement, this.root);
    this.part("seen-figure").hidden = !seen;
    if (!seen) return;
    picture.addEventListener(
      "load",
      () => setText(this.part("seen-px"), `${picture.naturalWidth} × ${picture.naturalHeight} px`),
      { once: true },
    );
    picture.src = seen;
  }
}
