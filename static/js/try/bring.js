// @ts-check
/** The ways in which images come: dropped anywhere, chosen, pasted, or taken from the dataset. */

import { found, setText } from "../dom.js";
import { choiceOfDrop, choiceOfFiles } from "../upload/drop.js";
import { ChoiceError } from "../upload/parcel.js";
import { chosenOf } from "./choice.js";

/** @typedef {import("./choice.js").Chosen} Chosen */
/** @typedef {import("../upload/drop.js").PathedFile} PathedFile */

const UNREADABLE = {
  message: "The files could not be read.",
  hint: "Check that they are still there, then choose them again.",
};

export class Bring {
  /**
   * @param {HTMLElement} root
   * @param {{at_once: number, most_bytes: number}} limits
   * @param {(chosen: Chosen[]) => void} take
   */
  constructor(root, limits, take) {
    this.root = root;
    this.limits = limits;
    this.take = take;
    this.zone = found("[data-drop]", HTMLElement, root);
    this.#mountChoice();
    this.#mountDrop();
    this.#mountPicker();
    document.addEventListener("paste", (event) => this.#onPaste(event));
  }

  /**
   * @param {{message: string, hint: string}} problem without a message none
   * @param {boolean} [isForJob] whether classifying as a job is the way out
   */
  refuse({ message, hint }, isForJob = false) {
    found("[data-refused]", HTMLElement, this.root).hidden = !message;
    setText(found("[data-refused-message]", HTMLElement, this.root), message);
    setText(found("[data-refused-hint]", HTMLElement, this.root), hint);
    found("[data-refused-classify]", HTMLElement, this.root).hidden = !isForJob;
  }

  #mountChoice() {
    const input = found("[data-input]", HTMLInputElement, this.root);
    found("[data-choose]", HTMLElement, this.root).addEventListener("click", () => input.click());
    input.addEventListener("change", () => {
      const { files } = choiceOfFiles(input.files ?? []);
      if (files.length) this.#bring(Promise.resolve({ files }));
      input.value = "";
    });
  }

  /** The whole page takes what is dropped: missing the zone must not make the browser leave for the file. */
  #mountDrop() {
    document.addEventListener("dragover", (event) => {
      event.preventDefault();
      if (event.dataTransfer) event.dataTransfer.dropEffect = "copy";
      this.zone.toggleAttribute("data-over", true);
    });
    document.addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) this.zone.removeAttribute("data-over");
    });
    document.addEventListener("drop", (event) => {
      event.preventDefault();
      this.zone.removeAttribute("data-over");
      const transfer = event.dataTransfer;
      if (transfer?.types.includes("Files")) this.#bring(choiceOfDrop(transfer));
      else this.refuse({ message: "That was no file.", hint: "Save the picture first, or copy and paste it." });
    });
  }

  /** @param {ClipboardEvent} event */
  #onPaste(event) {
    if (event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement) return;
    const files = [...(event.clipboardData?.files ?? [])];
    event.preventDefault();
    if (!files.length) {
      this.refuse({ message: "There is no image in the clipboard.", hint: "Copy a picture, then paste it here." });
      return;
    }
    this.#bring(Promise.resolve({ files: files.map((file) => ({ path: file.name || "Pasted image", file })) }));
  }

  #mountPicker() {
    const toggle = this.root.querySelector("[data-picker-toggle]");
    if (!(toggle instanceof HTMLButtonElement)) return;
    const picker = found("[data-picker]", HTMLElement, this.root);
    toggle.addEventListener("click", () => {
      picker.hidden = !picker.hidden;
      toggle.setAttribute("aria-expanded", String(!picker.hidden));
      // Drawn when it is opened for the first time.
      if (!picker.hidden && !picker.querySelector("[data-pick]"))
        htmx.trigger(found("form", HTMLFormElement, picker), "fovea:open");
    });
    picker.addEventListener("click", (event) => {
      const pick = event.target instanceof Element ? event.target.closest("[data-pick]") : null;
      if (!(pick instanceof HTMLElement)) return;
      const { dataset, sample, name, truth, picture } = pick.dataset;
      const known = { name: name ?? "", truth: truth ?? "", picture: picture ?? "" };
      const image = { ...known, file: null, dataset: Number(dataset), id: Number(sample) };
      this.refuse({ message: "", hint: "" });
      this.take([{ image, problem: null }]);
    });
  }

  /** @param {Promise<{files: PathedFile[]}>} choosing */
  async #bring(choosing) {
    this.refuse({ message: "", hint: "" });
    try {
      const { files } = await choosing;
      this.take(chosenOf(files, this.limits));
    } catch (error) {
      if (error instanceof ChoiceError) this.refuse(error, error.hint.includes("job"));
      else this.refuse(UNREADABLE);
    }
  }
}
