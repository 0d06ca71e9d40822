// @ts-check
/** What this person has uploaded, whole or in part, until it expires. */

import { element, found } from "../dom.js";
import { formatBytes } from "../format.js";
import { toast } from "../main.js";
import { ARCHIVE } from "../upload/parcel.js";
import { deleteUpload, knownUploads, wordsOf } from "./server.js";

/** @typedef {import("./server.js").KnownUpload} KnownUpload */
/** @typedef {{currentId: () => string, use: (known: KnownUpload) => void, askFor: (known: KnownUpload) => void}} Wishes */

export class Shelf {
  /** @type {KnownUpload[]} */
  #known = [];
  #asked = 0;

  /**
   * @param {HTMLElement} root
   * @param {Wishes} wishes
   */
  constructor(root, wishes) {
    this.root = root;
    this.wishes = wishes;
    this.list = found("[data-shelf-list]", HTMLUListElement, root);
  }

  async refresh() {
    const turn = ++this.#asked;
    try {
      const known = await knownUploads();
      if (turn !== this.#asked) return;
      this.#known = known;
    } catch {
      // The list is a convenience; the upload itself says what is wrong with the server.
      return;
    }
    this.render();
  }

  /** Without the one that the panel shows. */
  render() {
    const others = this.#known.filter(({ id }) => id !== this.wishes.currentId());
    this.root.hidden = !others.length;
    this.list.replaceChildren(...others.map((known) => this.#row(known)));
  }

  /** @param {KnownUpload} known */
  #row(known) {
    const size = known.complete
      ? formatBytes(known.size)
      : `${formatBytes(known.offset)} of ${formatBytes(known.size)}`;
    const until = new Date(known.expires_at).toLocaleDateString(undefined, { day: "numeric", month: "short" });
    const facts = `${size}${known.complete ? "" : ", unfinished"}, kept until ${until}`;
    const words = element("div", { class: "shelf-words" });
    words.append(
      element("span", { class: "truncate" }, known.name),
      element("span", { class: "small muted num" }, facts),
    );
    return element("li", { class: "shelf-row" }, words, ...this.#buttons(known));
  }

  /** @param {KnownUpload} known */
  #buttons(known) {
    const buttons = [];
    // A text list is none of this tab's: it can only be taken away here.
    const fits = ARCHIVE.test(known.name);
    if (fits && known.complete) buttons.push(button("Use", known, () => this.wishes.use(known)));
    if (fits && !known.complete) buttons.push(button("Continue", known, () => this.wishes.askFor(known)));
    const remove = button("Delete", known, () => this.#delete(known));
    remove.classList.add("btn-danger");
    return [...buttons, remove];
  }

  /** @param {KnownUpload} known */
  async #delete(known) {
    try {
      await deleteUpload(known.id);
    } catch (error) {
      const { message, hint } = wordsOf(error);
      toast(`${message} ${hint}`.trim(), "error");
    }
    await this.refresh();
  }
}

/**
 * @param {string} label
 * @param {KnownUpload} known
 * @param {() => void} run
 */
function button(label, known, run) {
  const made = element(
    "button",
    { type: "button", class: "btn btn-small", "aria-label": `${label} ${known.name}` },
    label,
  );
  made.addEventListener("click", run);
  return made;
}
