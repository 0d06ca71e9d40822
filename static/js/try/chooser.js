// @ts-check
/** The checkpoint or export that is asked. While the run goes on, others come and go: the list is fetched again. */

import { found } from "../dom.js";

/** The id of one of the two; none of them is the best checkpoint. @typedef {{checkpoint?: number, export?: number}} NetworkQuery */

const EXPORT = "export:";
const EVERY_MS = 10_000;

export class Chooser {
  /**
   * @param {string} address of the list
   * @param {() => void} onchange
   */
  constructor(address, onchange) {
    this.address = address;
    this.onchange = onchange;
    setInterval(() => {
      if (this.#select.dataset.live === "yes" && !document.hidden && document.activeElement !== this.#select)
        this.refresh();
    }, EVERY_MS);
  }

  get #select() {
    return found("[data-network]", HTMLSelectElement);
  }

  get isEmpty() {
    return this.#select.disabled;
  }

  /** What goes along with a question; nothing leaves the choice to the server. @returns {NetworkQuery} */
  get chosen() {
    const option = this.#select.selectedOptions[0];
    return queryOf(option?.dataset.id ?? option?.value ?? "");
  }

  async refresh() {
    try {
      const answer = await fetch(this.address, { headers: { Accept: "text/html" } });
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.querySelector("[data-network]");
      if (!(fresh instanceof HTMLSelectElement)) return;
      const { value } = this.#select;
      if ([...fresh.options].some((option) => option.value === value)) fresh.value = value;
      this.#select.replaceWith(fresh);
      this.onchange();
    } catch {
      // The next question says what is wrong with the server.
    }
  }
}

/**
 * @param {string} value of an option: empty, the id of a checkpoint, or that of an export after a word
 * @returns {NetworkQuery}
 */
export function queryOf(value) {
  if (!value) return {};
  return value.startsWith(EXPORT) ? { export: Number(value.slice(EXPORT.length)) } : { checkpoint: Number(value) };
}
