// @ts-check
/** A text list that lies either on the server or on this computer: one field takes both. */

import { found, setText } from "../dom.js";
import { formatPercent } from "../format.js";
import { ChoiceError, parcelOfText } from "../upload/parcel.js";
import { wordsOf } from "./server.js";
import { Transfer } from "./transfer.js";

export class ListFile {
  /** @type {Transfer | null} */
  #transfer = null;

  /**
   * @param {HTMLElement} root
   * @param {() => void} onchange
   */
  constructor(root, onchange) {
    this.root = root;
    this.onchange = onchange;
    this.id = found("[data-file-id]", HTMLInputElement, root);
    this.path = found("[role=combobox]", HTMLInputElement, root);
    const input = found("[data-file-input]", HTMLInputElement, root);
    const choose = found("[data-choose-file]", HTMLButtonElement, root);
    choose.hidden = false;
    choose.addEventListener("click", () => input.click());
    input.addEventListener("change", () => {
      const file = input.files?.[0];
      if (file) this.#take(file);
      input.value = "";
    });
    found("[data-file-clear]", HTMLElement, root).addEventListener("click", () => this.#clear());
    this.path.addEventListener("input", () => {
      if (this.path.value && (this.id.value || this.#transfer)) this.#clear();
    });
  }

  get isUnderWay() {
    return this.#transfer?.isUnderWay ?? false;
  }

  /** @param {File} file */
  async #take(file) {
    this.#clear();
    try {
      this.#transfer = new Transfer(parcelOfText(file), () => this.#render());
      this.path.value = "";
      this.#show(file.name, "Uploading");
      await this.#transfer.start();
    } catch (error) {
      this.#transfer = null;
      const { message, hint } = error instanceof ChoiceError ? error : wordsOf(error);
      this.#fail(`${message} ${hint}`);
    }
  }

  #render() {
    const transfer = this.#transfer;
    if (!transfer) return;
    const { state, offset, size, error } = transfer.upload;
    if (state === "failed") {
      this.#transfer = null;
      this.#fail(`${error?.message ?? ""} ${error?.hint ?? ""}`);
      return;
    }
    if (state === "complete") this.id.value = transfer.upload.id;
    this.#show(transfer.parcel.name, state === "complete" ? "Uploaded" : formatPercent((100 * offset) / size, 0));
    this.onchange();
  }

  #clear() {
    this.#transfer?.cancel();
    this.#transfer = null;
    this.id.value = "";
    this.#show("", "");
    this.#error("");
    this.onchange();
  }

  /**
   * @param {string} name
   * @param {string} state
   */
  #show(name, state) {
    found("[data-file-chosen]", HTMLElement, this.root).hidden = name === "";
    setText(found("[data-file-name]", HTMLElement, this.root), name);
    setText(found("[data-file-state]", HTMLElement, this.root), state);
  }

  /** @param {string} text */
  #fail(text) {
    this.#show("", "");
    this.#error(text.trim());
    this.onchange();
  }

  /** @param {string} text */
  #error(text) {
    setText(found(".field-error", HTMLElement, this.root), text);
  }
}
