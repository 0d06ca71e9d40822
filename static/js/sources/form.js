// @ts-check
/** A form that asks where images are, in one of several ways, and whose start waits for the upload. */

import { found, setText } from "../dom.js";
import { PathCombobox } from "./combobox.js";
import { ListFile } from "./list_file.js";
import { UploadPanel } from "./panel.js";
import { Shelf } from "./shelf.js";

/**
 * @typedef {object} Words
 * @property {string} start On the button.
 * @property {string} stop On the button while the start waits.
 * @property {string} waits What it waits for.
 * @property {[string, string]} nothing What is said where nothing was chosen, and the next step.
 */

export class SourceForm {
  #startWhenDone = false;
  #leaving = false;
  /** Of the upload that the list of uploads was last made without. */
  #shownId = "";

  /**
   * @param {HTMLFormElement} form
   * @param {Words} words
   * @param {{classesNeeded?: boolean, onname?: (name: string) => void}} [settings] `onname` hears what a file is called.
   */
  constructor(form, words, settings = {}) {
    this.form = form;
    this.words = words;
    this.way = found("[data-way]", HTMLInputElement, form);
    for (const root of form.querySelectorAll("[data-combo]")) new PathCombobox(/** @type {HTMLElement} */ (root));
    this.lists = [...form.querySelectorAll("[data-path-field]")]
      .filter((root) => root.querySelector("[data-file-id]"))
      .map((root) => new ListFile(/** @type {HTMLElement} */ (root), () => this.#onTransfer()));
    this.panel = new UploadPanel(found("[data-upload]", HTMLElement, form), {
      onchange: () => queueMicrotask(() => this.#onTransfer()),
      onname: settings.onname ?? (() => {}),
      onremoved: () => this.shelf.refresh(),
      classesNeeded: settings.classesNeeded,
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
      this.form.dispatchEvent(new Event("fovea:source"));
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
    setText(state, waits ? this.words.waits : "");
    found("[data-start]", HTMLElement, this.form).classList.toggle("btn-primary", !waits);
    setText(found("[data-start-label]", HTMLElement, this.form), waits ? this.words.stop : this.words.start);
  }

  /** @param {string} wanted */
  #showWay(wanted) {
    this.way.value = wanted;
    for (const part of this.form.querySelectorAll("[data-panel]")) {
      part.toggleAttribute("hidden", part.getAttribute("data-panel") !== wanted);
    }
    for (const part of this.form.querySelectorAll("[data-help]")) {
      part.toggleAttribute("hidden", !part.getAttribute("data-help")?.split(" ").includes(wanted));
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
    this.form.dispatchEvent(new Event("fovea:source"));
  }

  /** @param {SubmitEvent} event */
  #onSubmit(event) {
    if (event.defaultPrevented) return;
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
    this.panel.showError(...this.words.nothing);
    found("[data-choose]", HTMLElement, this.form).focus();
  }
}
