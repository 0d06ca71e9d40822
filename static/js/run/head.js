// @ts-check
/** The head of the page: title, status, progress, newest values. */

import { found, setText } from "../dom.js";
import { hasEnded } from "./api.js";
import { documentTitle, progressTexts, statusLabel } from "./progress.js";
import { tileTexts } from "./tiles.js";

/** @typedef {import("./api.js").JobSummary} JobSummary */
/** @typedef {import("../store.js").RunStore} RunStore */

const NUMBERS = /** @type {const} */ (["progress", "epoch", "step", "elapsed", "eta"]);

export class Head {
  #title = found("[data-run-title]", HTMLElement);
  #pill = found("[data-run-status]", HTMLElement);
  #bar = found("[data-progress-bar]", HTMLProgressElement);
  #deviceLabel = found('[data-tile-label="device"]', HTMLElement);

  /**
   * @param {JobSummary} job
   * @param {RunStore} store
   * @param {number} sinceFetch_s
   */
  show(job, store, sinceFetch_s) {
    const texts = progressTexts(job, store, sinceFetch_s);
    for (const name of NUMBERS) setText(found(`[data-number="${name}"]`, HTMLElement), texts[name]);
    this.#showBar(job, texts.share);
    setText(this.#title, job.title);
    setText(this.#pill, statusLabel(job.status));
    this.#pill.className = `pill pill-${job.status}`;
    this.#pill.dataset.status = job.status;
    document.title = documentTitle(job, texts.share);
    this.#showTiles(store);
  }

  /**
   * @param {JobSummary} job
   * @param {number | null} share
   */
  #showBar(job, share) {
    this.#bar.classList.toggle("progress-ended", hasEnded(job));
    // Without a value the bar moves to and fro: something is done, and nobody knows how much is left.
    if (share === null && job.status === "running") this.#bar.removeAttribute("value");
    else this.#bar.value = share ?? 0;
  }

  /** @param {RunStore} store */
  #showTiles(store) {
    const { "device-label": label, ...values } = tileTexts(store);
    setText(this.#deviceLabel, label ?? "");
    for (const [name, text] of Object.entries(values)) setText(found(`[data-tile="${name}"]`, HTMLElement), text);
  }
}
