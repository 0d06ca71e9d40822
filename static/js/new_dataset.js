// @ts-check
/** The page of a new dataset: tabs, the upload, and an import that waits for it. */

import { found, setText } from "./dom.js";
import { PathCombobox } from "./new_dataset/combobox.js";
import { ListFile } from "./new_dataset/list_file.js";
import { UploadPanel } from "./new_dataset/panel.js";
import { Shelf } from "./new_dataset/shelf.js";
import { ARCHIVE } from "./upload/parcel.js";

const WAITS = "Imports when the upload is complete. Keep this page open until then.";

class Page {
  #importWhenDone = false;
  #leaving = false;
  /** Of the upload that the list of uploads was last made without. */
  #shownId = "";

  /** @param {HTMLFormElement} form */
  constructor(form) {
    this.form = form;
    this.way = found("[data-way]", HTMLInputElement, form);
    this.name = found("[name=name]", HTMLInputElement, form);
    /** What this page wrote into the name; what a person wrote stays. */
    this.suggested = this.name.value;
    for (const root of form.querySelectorAll("[data-combo]")) new PathCombobox(/** @type {HTMLElement} */ (root));
    this.lists = [...form.querySelectorAll("[data-path-field]")]
      .filter((root) => root.querySelector("[data-file-id]"))
      .map((root) => new ListFile(/** @type {HTMLElement} */ (root), () => this.#onTransfer()));
    this.panel = new UploadPanel(found("[data-upload]", HTMLElement, form), {
      onchange: () => queueMicrotask(() => this.#onTransfer()),
      onname: (name) => this.#suggest(name),
      onremoved: () => this.shelf.refresh(),
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
    this.form.addEventListener("change", (event) => this.#onEdit(event.target));
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
    if (this.#importWhenDone && !this.#isUnderWay) {
      this.#wait(false);
      if (this.way.value !== "upload" || this.panel.isReady) this.form.requestSubmit();
    }
  }

  /** @param {string} text */
  #suggest(text) {
    if (this.name.value !== "" && this.name.value !== this.suggested) return;
    this.suggested = text.replace(ARCHIVE, "");
    this.name.value = this.suggested;
  }

  /** @param {boolean} waits */
  #wait(waits) {
    this.#importWhenDone = waits;
    const state = found("[data-import-state]", HTMLElement, this.form);
    state.hidden = !waits;
    setText(state, waits ? WAITS : "");
    found("[data-import]", HTMLElement, this.form).classList.toggle("btn-primary", !waits);
    setText(found("[data-import-label]", HTMLElement, this.form), waits ? "Do not import yet" : "Import");
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
    if (this.#importWhenDone) this.#wait(false);
    this.#showWay(tab.dataset.tab ?? "upload");
    this.form.dispatchEvent(new Event("fovea:source"));
  }

  /** @param {EventTarget | null} field */
  #onEdit(field) {
    if (!(field instanceof HTMLInputElement)) return;
    if (field.name === "sample") this.#suggest(field.dataset.name ?? "");
    if (!["path", "lists_folder"].includes(field.name)) return;
    this.#suggest(field.value.split("/").filter(Boolean).at(-1) ?? "");
  }

  /** @param {SubmitEvent} event */
  #onSubmit(event) {
    if (event.defaultPrevented) return;
    if (this.#importWhenDone) {
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
    this.panel.showError("There is nothing to import yet.", "Choose an archive, a folder or files.");
    found("[data-choose]", HTMLElement, this.form).focus();
  }
}

const form = document.querySelector("[data-import-form]");
if (form instanceof HTMLFormElement) new Page(form);
