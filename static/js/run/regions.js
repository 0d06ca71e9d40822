// @ts-check
/** Parts of the page that the server renders: fetched again as one, put in place one by one. */

import { addressOf } from "../addresses.js";

const GATHER_MS = 250;

export class Regions {
  #url;
  #timer = 0;

  /** @param {number} jobId */
  constructor(jobId) {
    this.#url = addressOf(`/runs/${jobId}/regions`);
  }

  /** Soon: several reasons within a moment are one request. */
  request() {
    if (this.#timer) return;
    this.#timer = window.setTimeout(() => void this.#refresh(), GATHER_MS);
  }

  async #refresh() {
    this.#timer = 0;
    const response = await fetch(this.#url).catch(() => null);
    // While there is no connection the old state stays; a new one asks again.
    if (!response?.ok || response.redirected) return;
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const region of fresh.querySelectorAll("[data-region]")) this.#replace(region);
  }

  /** @param {Element} region */
  #replace(region) {
    const name = region.getAttribute("data-region") ?? "";
    const old = document.querySelector(`[data-region="${CSS.escape(name)}"]`);
    if (!old || sameText(old, region)) return;
    const fresh = document.importNode(region, true);
    old.replaceWith(fresh);
    // Dialog links inside are driven by htmx, which knows only what it has seen.
    htmx.process(fresh);
  }
}

/**
 * An unchanged region stays: an open menu, a focus or a selection in it survives.
 * @param {Element} old
 * @param {Element} fresh
 */
function sameText(old, fresh) {
  return contentOf(old) === contentOf(fresh);
}

/** @param {Element} region */
function contentOf(region) {
  const copy = /** @type {Element} */ (region.cloneNode(true));
  for (const time of copy.querySelectorAll("time")) time.replaceWith(time.dateTime);
  for (const menu of copy.querySelectorAll("details")) menu.removeAttribute("open");
  return copy.innerHTML;
}
