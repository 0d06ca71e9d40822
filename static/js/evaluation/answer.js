// @ts-check
/** One picture in full with what the network answered, and the way to those before and after it. */

import { element, found, setText } from "../dom.js";
import { formatCount, formatPercent, formatValue } from "../format.js";

/**
 * @typedef {{name: string, sample: number | null, label: number | null, label_name: string | null,
 *   predicted_name: string | null, loss: number | null, wrong: boolean | null, error: string | null,
 *   top: {label: number, name: string, probability: number}[]}} Answer
 */
/** @typedef {{total: number, items: Answer[]}} AnswerPage */

/** Enough for a screen. */
const VIEW_PX = 1024;
const SMALL_PX = 64;

export class AnswerView {
  #dialog;
  #image;
  #problem;
  #place = 0;
  #total = 0;
  #nAsked = 0;

  /** @param {HTMLDialogElement} dialog */
  constructor(dialog) {
    this.#dialog = dialog;
    this.#image = found("[data-view='image']", HTMLImageElement, dialog);
    this.#problem = this.#part("problem");
    dialog.addEventListener("keydown", (event) => this.#onKey(event));
    dialog.addEventListener("close", () => this.#onClose());
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close();
    });
    for (const button of dialog.querySelectorAll("[data-view-step]")) {
      button.addEventListener("click", () => this.#step(directionOf(button)));
    }
    this.#image.addEventListener("error", () => this.#fail("This picture cannot be drawn at the moment."));
    this.#image.addEventListener("load", () => {
      this.#problem.hidden = true;
      const { naturalWidth, naturalHeight } = this.#image;
      this.#image.classList.toggle("viewer-small", Math.max(naturalWidth, naturalHeight) <= SMALL_PX);
    });
  }

  /** @param {number} place in the order of the filter, counted from 0 */
  open(place) {
    if (!this.#dialog.open) this.#dialog.showModal();
    void this.#show(place);
  }

  /** @param {number} by */
  #step(by) {
    const place = this.#place + by;
    if (place >= 0 && place < this.#total) void this.#show(place);
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    this.#step(event.key === "ArrowRight" ? 1 : -1);
  }

  /** @param {number} place */
  async #show(place) {
    this.#nAsked += 1;
    const asked = this.#nAsked;
    const query = found("#gallery", HTMLElement).dataset.query ?? "";
    try {
      const response = await fetch(`${this.#dialog.dataset.predictions}?${query}&offset=${place}&limit=1`);
      const body = await response.json();
      if (asked !== this.#nAsked) return;
      if (response.ok) this.#fill(place, body);
      else this.#fail(body.error?.message ?? "This answer cannot be found.");
    } catch {
      if (asked === this.#nAsked) this.#fail("The server does not answer.");
    }
  }

  /**
   * @param {number} place
   * @param {AnswerPage} page
   */
  #fill(place, { total, items: [answer] }) {
    if (!answer) return this.#fail("There is no such answer any more.");
    const { samples, datasetUrl, version } = this.#dialog.dataset;
    this.#place = place;
    this.#total = total;
    this.#problem.hidden = true;
    this.#image.hidden = false;
    this.#image.src = `${samples}${answer.sample}/picture?px=${VIEW_PX}&v=${version}`;
    this.#image.alt = answer.name;
    setText(this.#part("truth"), answer.label_name ?? "–");
    setText(this.#part("name"), answer.name);
    setText(this.#part("place"), `${formatCount(place + 1)} of ${formatCount(total)}`);
    setText(this.#part("verdict"), verdictOf(answer));
    this.#part("top").replaceChildren(...answer.top.map((each) => rowOf(each, each.label === answer.label)));
    found("[data-view='link']", HTMLAnchorElement, this.#dialog).href = `${datasetUrl}?image=${answer.sample}`;
    for (const button of this.#dialog.querySelectorAll("[data-view-step]")) {
      const next = place + directionOf(button);
      // Not `disabled`, which would take the focus away at the end of the list.
      button.setAttribute("aria-disabled", String(next < 0 || next >= total));
    }
  }

  /** @param {string} text */
  #fail(text) {
    this.#image.hidden = true;
    this.#problem.hidden = false;
    setText(this.#problem, text);
  }

  #onClose() {
    this.#nAsked += 1;
    const tile = document.querySelector(`[data-place="${this.#place}"]`);
    if (tile instanceof HTMLElement) tile.focus();
  }

  /** @param {string} name */
  #part(name) {
    return found(`[data-view='${name}']`, HTMLElement, this.#dialog);
  }
}

/** @param {Answer} answer */
export function verdictOf({ wrong, error, label_name, predicted_name, loss }) {
  if (predicted_name === null) return `No answer${error ? `: the image ${error}` : ""}`;
  const told = wrong ? `${label_name} was taken for ${predicted_name}` : `Recognised as ${predicted_name}`;
  return `${told}, loss ${formatValue(loss)}`;
}

/**
 * @param {{name: string, probability: number}} answer
 * @param {boolean} right
 */
function rowOf({ name, probability }, right) {
  const bar = element("progress", { class: "progress", max: "1", value: String(probability), "aria-hidden": "true" });
  const text = element("bdi", { class: "truncate", title: name }, name);
  const row = element(
    "li",
    {},
    text,
    bar,
    element("span", { class: "num" }, formatPercent(100 * probability)),
    element("span", { class: "answer-mark" }, right ? "true class" : ""),
  );
  row.classList.toggle("answer-is-true", right);
  return row;
}

/** @param {Element} button */
function directionOf(button) {
  return button.getAttribute("data-view-step") === "next" ? 1 : -1;
}
