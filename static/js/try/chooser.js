// @ts-check
/** The checkpoint that is asked. While the run goes on, others come and go: the list is fetched again. */

import { found } from "../dom.js";

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
    return found("[data-checkpoint]", HTMLSelectElement);
  }

  get isEmpty() {
    return this.#select.disabled;
  }

  /** Id of the checkpoint; null leaves the choice to the server. @returns {number | null} */
  get chosen() {
    const option = this.#select.selectedOptions[0];
    const id = option?.dataset.id ?? option?.value;
    return id ? Number(id) : null;
  }

  async refresh() {
    try {
      const answer = await fetch(this.address, { headers: { Accept: "text/html" } });
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.querySelector("[data-checkpoint]");
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
