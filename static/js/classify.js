// @ts-check
/** The form of a classification: where the images are, and a start that waits for the upload. */

import { found, setText } from "./dom.js";
import { PathCombobox } from "./new_dataset/combobox.js";
import { ListFile } from "./new_dataset/list_file.js";
import { UploadPanel } from "./new_dataset/panel.js";
import { Shelf } from "./new_dataset/shelf.js";

const WAITS = "Starts when the upload is complete. Keep this page open until then.";

class Page {
  #startWhenDone = false;
  #leaving = false;
  /** Of the upload that the list of uploads was last made without. */
  #shownId = "";

  /** @param {HTMLFormElement} form */
  constructor(form) {
    this.form = form;
    this.way = found("[data-way]", HTMLInputElement, form);
    for (const root of form.querySelectorAll("[data-combo]")) new PathCombobox(/** @type {HTMLElement} */ (root));
    this.lists = [...form.querySelectorAll("[data-path-field]")]
      .filter((root) => root.querySelector("[data-file-id]"))
      .map((root) => new ListFile(/** @type {HTMLElement} */ (root), () => this.#onTransfer()));
    this.panel = new UploadPanel(found("[data-upload]", HTMLElement, form), {
      onchange: () => queueMicrotask(() => this.#onTransfer()),
      onname: () => {},
      onremoved: () => this.shelf.refresh(),
      classesNeeded: false,
    });
    this.shelf = new Shelf(found("[data-shelf]", HTMLElement, form), {
      currentId: () => this.panel.currentId,
      use: (known) => this.panel.use(known),
      askFor: (known) => this.panel.askFor(known),
    });
    this.#showWay(this.way.value);
    this.#listen();
  }

  get #isUnderWay() {
    if (this.way.value === "lists") return this.lists.some((list) => list.isUnderWay);
    return this.way.value === "upload" && this.panel.isUnderWay;
  }

  #listen() {
    this.form.addEventListener("click", (event) => this.#onClick(event));
    this.form.addEventListener("submit", (event) => this.#onSubmit(event));
    window.addEventListener("beforeunload", (event) => {
      const sends = this.panel.isUnderWay || this.lists.some((list) => list.isUnderWay);
      if (sends && !this.#leaving) event.preventDefault();
    });
    // A page that comes back from the browser's history may be sent again.
    window.addEventListener("pageshow", () => {
      this.#leaving = false;
      this.shelf.refresh();
    });
  }

  #onTransfer() {
    const id = this.panel.currentId;
    if (id !== this.#shownId) {
      this.#shownId = id;
      this.shelf.refresh();
    }
    if (this.#startWhenDone && !this.#isUnderWay) {
      this.#wait(false);
      if (this.way.value !== "upload" || this.panel.isReady) this.form.requestSubmit();
    }
  }

  /** @param {boolean} waits */
  #wait(waits) {
    this.#startWhenDone = waits;
    const state = found("[data-start-state]", HTMLElement, this.form);
    state.hidden = !waits;
    setText(state, waits ? WAITS : "");
    found("[data-start]", HTMLElement, this.form).classList.toggle("btn-primary", !waits);
    setText(found("[data-start-label]", HTMLElement, this.form), waits ? "Do not start yet" : "Classify");
  }

  /** @param {string} wanted */
  #showWay(wanted) {
    this.way.value = wanted;
    for (const part of this.form.querySelectorAll("[data-panel]")) {
      part.toggleAttribute("hidden", part.getAttribute("data-panel") !== wanted);
    }
    for (const tab of this.form.querySelectorAll("[data-tab]")) {
      if (tab.getAttribute("data-tab") === wanted) tab.setAttribute("aria-current", "page");
      else tab.removeAttribute("aria-current");
    }
  }

  /** @param {MouseEvent} event */
  #onClick(event) {
    const tab = event.target instanceof Element ? event.target.closest("[data-tab]") : null;
    const plain = !(event.ctrlKey || event.metaKey || event.shiftKey);
    if (!(tab instanceof HTMLAnchorElement) || !plain) return;
    // Without a reload: an upload goes on, and what was filled in stays.
    event.preventDefault();
    history.replaceState(null, "", tab.href);
    if (this.#startWhenDone) this.#wait(false);
    this.#showWay(tab.dataset.tab ?? "upload");
  }

  /** @param {SubmitEvent} event */
  #onSubmit(event) {
    if (this.#startWhenDone) {
      event.preventDefault();
      this.#wait(false);
    } else if (this.#isUnderWay) {
      event.preventDefault();
      this.#wait(true);
      this.panel.goOn();
    } else if (this.way.value === "upload" && !this.panel.isReady) {
      event.preventDefault();
      this.#askForFiles();
    } else this.#leaving = true;
  }

  /** Nothing was chosen, or what was chosen has failed. */
  #askForFiles() {
    if (this.panel.transfer) {
      this.panel.goOn();
      this.#wait(true);
      return;
    }
    this.panel.showError("There is nothing to classify yet.", "Choose images, a folder or an archive.");
    found("[data-choose]", HTMLElement, this.form).focus();
  }
}

const form = document.querySelector("[data-classify-form]");
if (form instanceof HTMLFormElement) new Page(form);
