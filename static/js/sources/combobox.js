// @ts-check
/** Completion of a path on the server: the arrow keys choose, Enter or Tab takes, Escape closes. */

import { addressOf } from "../addresses.js";
import { element, found } from "../dom.js";

/** @typedef {{path: string, name: string, is_dir: boolean}} Entry */

const DELAY_MS = 120;

export class PathCombobox {
  /** @type {Entry[]} */
  #entries = [];
  #active = -1;
  #timer = 0;
  #asked = 0;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.input = found("[role=combobox]", HTMLInputElement, root);
    this.list = found("[role=listbox]", HTMLUListElement, root);
    this.foldersOnly = root.hasAttribute("data-folders-only");
    this.input.addEventListener("input", () => this.#later());
    this.input.addEventListener("focus", () => this.#later());
    this.input.addEventListener("blur", () => this.#close());
    this.input.addEventListener("keydown", (event) => this.#onKey(event));
    // Before the field loses the focus, which would close the list.
    this.list.addEventListener("mousedown", (event) => {
      event.preventDefault();
      const option = event.target instanceof Element ? event.target.closest("[role=option]") : null;
      const index = option ? [...this.list.children].indexOf(option) : -1;
      if (index >= 0) this.#take(index);
    });
  }

  get #isOpen() {
    return !this.list.hidden;
  }

  #later() {
    window.clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => this.#ask(), DELAY_MS);
  }

  async #ask() {
    const turn = ++this.#asked;
    const address = addressOf(`/api/v1/server-folders?prefix=${encodeURIComponent(this.input.value.trim())}`);
    try {
      const answer = await fetch(address, { headers: { Accept: "application/json" } });
      if (!answer.ok) throw new Error(String(answer.status));
      const { entries } = await answer.json();
      if (turn === this.#asked && document.activeElement === this.input) this.#open(entries);
    } catch {
      // Completion is a help; without it the path can still be written, and the server checks it.
      this.#close();
    }
  }

  /** @param {Entry[]} entries */
  #open(entries) {
    const typed = this.input.value.trim().replace(/\/$/, "");
    this.#entries = entries.filter(({ is_dir, path }) => (is_dir || !this.foldersOnly) && path !== typed);
    this.#active = -1;
    this.list.replaceChildren(
      ...this.#entries.map(({ path, name, is_dir }, index) => {
        const label = this.input.value.startsWith("/") ? name || path : path;
        const made = element("li", { role: "option", id: `${this.list.id}-${index}`, "aria-selected": "false" });
        made.append(is_dir ? `${label}/` : label);
        return made;
      }),
    );
    this.list.hidden = !this.#entries.length;
    this.input.setAttribute("aria-expanded", String(this.#isOpen));
    this.input.removeAttribute("aria-activedescendant");
  }

  #close() {
    window.clearTimeout(this.#timer);
    this.#asked += 1;
    this.list.hidden = true;
    this.#active = -1;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    if (event.key === "ArrowDown" && !this.#isOpen) this.#ask();
    if (!this.#isOpen) return;
    const run = this.#runOf(event);
    if (!run) return;
    event.preventDefault();
    run();
  }

  /**
   * What a key does while the list is open; null leaves it to the browser.
   * @param {KeyboardEvent} event
   */
  #runOf({ key, shiftKey }) {
    const n = this.#entries.length;
    const only = n === 1 ? 0 : -1;
    switch (key) {
      case "ArrowDown":
        return () => this.#mark((this.#active + 1) % n);
      case "ArrowUp":
        return () => this.#mark((Math.max(this.#active, 0) + n - 1) % n);
      case "Enter":
        return this.#active >= 0 ? () => this.#take(this.#active) : null;
      case "Tab": {
        const index = this.#active >= 0 ? this.#active : only;
        return index >= 0 && !shiftKey ? () => this.#take(index) : null;
      }
      case "Escape":
        return () => this.#close();
      default:
        return null;
    }
  }

  /** @param {number} index */
  #mark(index) {
    this.#active = index;
    for (const [at, option] of [...this.list.children].entries()) {
      option.setAttribute("aria-selected", String(at === index));
      if (at === index) option.scrollIntoView({ block: "nearest" });
    }
    this.input.setAttribute("aria-activedescendant", `${this.list.id}-${index}`);
  }

  /** A folder is followed by what lies in it. @param {number} index */
  #take(index) {
    const entry = this.#entries[index];
    if (!entry) return;
    this.input.value = entry.is_dir ? `${entry.path}/` : entry.path;
    this.#close();
    this.input.dispatchEvent(new Event("input", { bubbles: true }));
  }
}
