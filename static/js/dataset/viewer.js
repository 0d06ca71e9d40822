// @ts-check
/** One picture in full, and the way to those before and after it in the order of the filter. */

import { found, setText } from "../dom.js";
import { formatCount } from "../format.js";
import { apiQuery, pageQuery, withImage } from "./address.js";

/**
 * @typedef {{id: number, name: string, split: "train" | "val" | "test", class_name: string, width_px: number,
 *   height_px: number, original: string, previous: number | null, next: number | null, n_before: number,
 *   n_samples: number}} SampleDetail
 */

const SPLIT_LABELS = { train: "Training", val: "Validation", test: "Test" };
/** Enough for a screen; more is in the original. */
const VIEW_PX = 2048;
const SMALL_PX = 64;

export class Viewer {
  #dialog;
  #image;
  #problem;
  /** @type {SampleDetail | null} */
  #shown = null;
  #nAsked = 0;

  /** @param {HTMLDialogElement} dialog */
  constructor(dialog) {
    this.#dialog = dialog;
    this.#image = found("[data-view='image']", HTMLImageElement, dialog);
    this.#problem = found("[data-view='problem']", HTMLElement, dialog);
    dialog.addEventListener("keydown", (event) => this.#onKey(event));
    dialog.addEventListener("close", () => void this.#onClose());
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close();
    });
    for (const button of dialog.querySelectorAll("[data-view-step]")) {
      const direction = button.getAttribute("data-view-step") === "next" ? "next" : "previous";
      button.addEventListener("click", () => this.step(direction));
    }
    this.#image.addEventListener("error", () => this.#fail("This picture cannot be drawn at the moment."));
    this.#image.addEventListener("load", () => {
      this.#problem.hidden = true;
    });
  }

  /** @param {number} id */
  open(id) {
    if (!this.#dialog.open) this.#dialog.showModal();
    void this.#show(id);
  }

  /** @param {"previous" | "next"} direction */
  step(direction) {
    const id = this.#shown?.[direction] ?? null;
    if (id !== null) void this.#show(id);
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    this.step(event.key === "ArrowRight" ? "next" : "previous");
  }

  /** @param {number} id */
  async #show(id) {
    this.#nAsked += 1;
    const asked = this.#nAsked;
    history.replaceState(history.state, "", withImage(location.href, id));
    try {
      const response = await fetch(`${this.#address(id)}?${apiQuery(this.#gallery().dataset.query ?? "")}`);
      const body = await response.json();
      if (asked !== this.#nAsked) return;
      if (response.ok) this.#fill(body);
      else this.#fail(body.error?.message ?? "This picture cannot be found.");
    } catch {
      if (asked === this.#nAsked) this.#fail("The server does not answer.");
    }
  }

  /** @param {SampleDetail} sample */
  #fill(sample) {
    this.#shown = sample;
    this.#problem.hidden = true;
    this.#image.hidden = false;
    this.#image.src = this.#picture(sample.id);
    this.#image.alt = `${sample.class_name}: ${sample.name}`;
    this.#image.width = sample.width_px;
    this.#image.height = sample.height_px;
    this.#image.classList.toggle("viewer-small", Math.max(sample.width_px, sample.height_px) <= SMALL_PX);
    this.#say("class", sample.class_name);
    this.#say("name", sample.name);
    this.#say("split", SPLIT_LABELS[sample.split]);
    this.#say("size", `${formatCount(sample.width_px)} × ${formatCount(sample.height_px)} px`);
    this.#say("place", `${formatCount(sample.n_before + 1)} of ${formatCount(sample.n_samples)}`);
    this.#link("link", withImage(new URL(this.#dialog.dataset.pageUrl ?? "", location.href).href, sample.id));
    this.#link("original", sample.original);
    for (const button of this.#dialog.querySelectorAll("[data-view-step]")) {
      const id = button.getAttribute("data-view-step") === "next" ? sample.next : sample.previous;
      // Not `disabled`, which would take the focus away at the end of the list.
      button.setAttribute("aria-disabled", String(id === null));
      if (id !== null) new Image().src = this.#picture(id);
    }
  }

  /** @param {string} text */
  #fail(text) {
    this.#image.hidden = true;
    this.#problem.hidden = false;
    setText(this.#problem, text);
  }

  /** The page of the gallery that holds what was seen last, with the focus on it. */
  async #onClose() {
    this.#nAsked += 1;
    history.replaceState(history.state, "", withImage(location.href, null));
    const sample = this.#shown;
    if (!sample) return;
    if (!this.#tile(sample.id)) {
      const { query = "", pageSize = "60" } = this.#gallery().dataset;
      const address = `${this.#dialog.dataset.galleryUrl}?${pageQuery(query, sample.n_before, Number(pageSize))}`;
      await htmx.ajax("GET", address, { target: "#gallery", swap: "outerHTML" });
    }
    this.#tile(sample.id)?.focus();
  }

  #gallery() {
    return found("#gallery", HTMLElement);
  }

  /** @param {number} id */
  #tile(id) {
    const tile = this.#gallery().querySelector(`[data-sample="${id}"]`);
    return tile instanceof HTMLElement ? tile : null;
  }

  /** @param {number} id */
  #address(id) {
    return `${this.#dialog.dataset.samples}${id}`;
  }

  /** @param {number} id */
  #picture(id) {
    return `${this.#address(id)}/picture?px=${VIEW_PX}&v=${this.#dialog.dataset.version}`;
  }

  /**
   * @param {string} part
   * @param {string} text
   */
  #say(part, text) {
    setText(found(`[data-view='${part}']`, HTMLElement, this.#dialog), text);
  }

  /**
   * @param {string} part
   * @param {string} href
   */
  #link(part, href) {
    found(`[data-view='${part}']`, HTMLAnchorElement, this.#dialog).href = href;
  }
}
