// @ts-check
/** Which two are compared, as the form says, and how each of them is asked about an image. */

import { found } from "../dom.js";

/** `query` is null where it cannot be asked, and `why_not` says why. @typedef {{name: string, query: import("../try/chooser.js").NetworkQuery | null, why_not: string}} Side */

export class Sides {
  /**
   * @param {HTMLFormElement} form
   * @param {Record<string, Side>} known by key
   * @param {() => void} onchange
   */
  constructor(form, known, onchange) {
    this.known = known;
    this.selects = ["#compare-a", "#compare-b"].map((id) => found(id, HTMLSelectElement, form));
    form.addEventListener("change", onchange);
    found("[data-swap]", HTMLElement, form).addEventListener("click", () => {
      const [a, b] = this.selects.map(({ value }) => value);
      this.#set([b ?? "", a ?? ""]);
      // The form's own request follows a change as if somebody had made it.
      form.dispatchEvent(new Event("change", { bubbles: true }));
    });
  }

  /** @returns {Side[]} A, then B */
  get chosen() {
    return this.selects.map(({ value }) => this.known[value] ?? { name: value, query: null, why_not: "It is gone." });
  }

  /** @param {string[]} values */
  #set(values) {
    for (const [place, select] of this.selects.entries()) select.value = values[place] ?? "";
  }
}
