// @ts-check
/** The table of the classes: sorted by a column, filtered by name. */

import { found, setText } from "../dom.js";
import { formatCount } from "../format.js";

/** @typedef {"ascending" | "descending"} Direction */

/**
 * Orders two cells; a missing value comes last, whatever the direction.
 * @param {string | number | null} a
 * @param {string | number | null} b
 * @param {Direction} direction
 */
export function compared(a, b, direction) {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  const order =
    typeof a === "string" || typeof b === "string"
      ? String(a).localeCompare(String(b), undefined, { numeric: true })
      : a - b;
  return direction === "ascending" ? order : -order;
}

/**
 * `1,234` and `91.20 %` as numbers; a dash is none.
 * @param {string} text
 */
export function valueIn(text) {
  const number = Number.parseFloat(text.replaceAll(",", ""));
  return Number.isNaN(number) ? null : number;
}

export class ClassTable {
  #table = found("[data-classes]", HTMLTableElement);
  #filter = found("[data-classes-filter]", HTMLInputElement);
  #rows;

  constructor() {
    this.#rows = [...(this.#table.tBodies[0]?.rows ?? [])].map((row) => ({
      row,
      name: (row.cells[0]?.textContent ?? "").trim().toLocaleLowerCase(),
    }));
    for (const [column, head] of [...(this.#table.tHead?.rows[0]?.cells ?? [])].entries()) {
      head.querySelector("button")?.addEventListener("click", () => this.#sort(head, column));
    }
    this.#filter.addEventListener("input", () => this.#narrow());
  }

  /**
   * Names begin with A; of numbers the smallest are what one looks for.
   * @param {HTMLTableCellElement} head
   * @param {number} column
   */
  #sort(head, column) {
    const direction = head.ariaSort === "ascending" ? "descending" : "ascending";
    for (const each of head.parentElement?.children ?? []) each.removeAttribute("aria-sort");
    head.ariaSort = direction;
    const isText = head.dataset.sort === "text";
    const keyed = this.#rows.map(({ row, name }) => ({
      row,
      key: isText ? name : valueIn(row.cells[column]?.textContent ?? ""),
    }));
    keyed.sort((a, b) => compared(a.key, b.key, direction));
    this.#table.tBodies[0]?.append(...keyed.map(({ row }) => row));
  }

  #narrow() {
    const wanted = this.#filter.value.trim().toLocaleLowerCase();
    let nShown = 0;
    for (const { row, name } of this.#rows) {
      row.hidden = !name.includes(wanted);
      if (!row.hidden) nShown += 1;
    }
    setText(
      found("[data-classes-count]", HTMLElement),
      wanted ? `${formatCount(nShown)} of ${formatCount(this.#rows.length)}` : "",
    );
    found("[data-classes-none]", HTMLElement).hidden = nShown > 0;
  }
}
