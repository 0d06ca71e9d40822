// @ts-check
/** The tab where a person drops files: from the choice to the finished upload. */

import { found, setText } from "../dom.js";
import { formatBytes, formatCount } from "../format.js";
import { choiceOfDrop, choiceOfFiles } from "../upload/drop.js";
import { Meter, readingText } from "../upload/meter.js";
import { ChoiceError, parcelOf } from "../upload/parcel.js";
import { wordsOf } from "./server.js";
import { Transfer } from "./transfer.js";

/** @typedef {import("../upload/drop.js").Choice} Choice */
/** @typedef {import("./server.js").KnownUpload} KnownUpload */
/**
 * `onname` hears what the dataset may be called, `onremoved` that the server no longer has an upload.
 * @typedef {{onchange: () => void, onname: (name: string) => void, onremoved: () => void, classesNeeded?: boolean}} Hooks
 */

const TITLE = "Drop an archive, a folder or many images here";

export class UploadPanel {
  /** @type {Transfer | null} */
  transfer = null;
  /** An unfinished upload that the person wants to go on with. @type {KnownUpload | null} */
  wanted = null;
  #meter = new Meter(0);
  #said = "";

  /**
   * @param {HTMLElement} root
   * @param {Hooks} hooks
   */
  constructor(root, hooks) {
    this.root = root;
    this.hooks = hooks;
    this.id = found("[data-upload-id]", HTMLInputElement, root);
    this.drop = found("[data-drop]", HTMLElement, root);
    this.current = found("[data-current]", HTMLElement, root);
    this.#mountChoosers();
    this.#mountDrop();
    for (const button of root.querySelectorAll("[data-do]")) {
      button.addEventListener("click", () => this.#do(button.getAttribute("data-do") ?? ""));
    }
    this.render();
  }

  /** Something may still come: the import can wait for it. */
  get isUnderWay() {
    return this.transfer?.isUnderWay ?? false;
  }

  /** Of the upload that is shown, once the server has made it. */
  get currentId() {
    return this.id.value || this.transfer?.upload.id || "";
  }

  get isReady() {
    return this.id.value !== "";
  }

  /** A complete upload of earlier. @param {KnownUpload} known */
  use(known) {
    this.transfer = null;
    this.#setReady(known.id, known.name, known.size);
    this.hooks.onname(known.name);
    this.showError("");
    this.render();
  }

  /** An unfinished upload of earlier: the browser has to be shown its file again. @param {KnownUpload} known */
  askFor(known) {
    this.wanted = known;
    this.showError("");
    this.render();
    this.#open(known.fingerprint.startsWith("tar-") ? "folder" : "files");
  }

  /** For the import that a person wants now. */
  async goOn() {
    if (!this.transfer) return;
    if (["paused", "failed"].includes(this.transfer.upload.state)) await this.#start();
  }

  /**
   * @param {string} message
   * @param {string} [hint]
   * @param {boolean} [signedOut]
   */
  showError(message, hint = "", signedOut = false) {
    const box = found("[data-upload-error]", HTMLElement, this.root);
    box.hidden = message === "";
    setText(found("[data-upload-error-message]", HTMLElement, box), message);
    setText(found("[data-upload-error-hint]", HTMLElement, box), hint);
    found("[data-upload-sign-in]", HTMLElement, box).hidden = !signedOut;
  }

  #mountChoosers() {
    for (const button of this.root.querySelectorAll("[data-choose]")) {
      button.addEventListener("click", () => this.#open(button.getAttribute("data-choose") ?? "files"));
    }
    for (const input of this.root.querySelectorAll("[data-input]")) {
      if (!(input instanceof HTMLInputElement)) continue;
      input.addEventListener("change", () => {
        const choice = choiceOfFiles(input.files ?? []);
        const isFolder = input.dataset.input === "folder";
        // An empty folder gives no files at all, just as a closed window does.
        if (choice.files.length || isFolder) this.#take(Promise.resolve(choice));
        input.value = "";
      });
    }
  }

  /** @param {string} which */
  #open(which) {
    found(`[data-input="${which}"]`, HTMLInputElement, this.root).click();
  }

  #mountDrop() {
    // Missing the zone must not make the browser leave the page for the file.
    document.addEventListener("dragover", (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      const inside = event.target instanceof Node && this.root.contains(event.target);
      event.dataTransfer.dropEffect = inside && !this.drop.hidden ? "copy" : "none";
      this.drop.toggleAttribute("data-over", inside);
    });
    document.addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) this.drop.removeAttribute("data-over");
    });
    document.addEventListener("drop", (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      this.drop.removeAttribute("data-over");
      const inside = event.target instanceof Node && this.root.contains(event.target);
      if (!inside || this.drop.hidden) return;
      const say = (/** @type {number} */ n) => this.#title(`Reading the folder, ${formatCount(n)} files`);
      this.#take(choiceOfDrop(event.dataTransfer, say));
    });
  }

  /** @param {string} text */
  #title(text) {
    setText(found("[data-drop-title]", HTMLElement, this.drop), text);
  }

  /** @param {Promise<Choice>} choosing */
  async #take(choosing) {
    this.showError("");
    try {
      const parcel = parcelOf(await choosing, { classesNeeded: this.hooks.classesNeeded ?? true });
      this.#refuseAnother(parcel);
      this.wanted = null;
      this.transfer = new Transfer(parcel, () => this.render());
      this.#meter = new Meter(parcel.content.size);
      this.#clearReady();
      this.hooks.onname(parcel.title);
      this.render();
      await this.#start();
    } catch (error) {
      if (error instanceof ChoiceError) this.showError(error.message, error.hint);
      else this.showError("The files could not be read.", "Check that they are still there, then choose them again.");
    }
    this.#title(TITLE);
    this.render();
  }

  /** @param {import("../upload/parcel.js").Parcel} parcel */
  #refuseAnother({ fingerprint, name, content }) {
    const wanted = this.wanted;
    if (!wanted || (wanted.fingerprint === fingerprint && wanted.size === content.size)) return;
    this.wanted = null;
    const what = name === wanted.name ? `This ${name} differs in size or date from` : `${name} is not`;
    throw new ChoiceError(
      `${what} the ${wanted.name} that was begun.`,
      "Choose it once more to upload it from its start.",
    );
  }

  async #start() {
    this.#meter.restart();
    try {
      await this.transfer?.start();
    } catch (error) {
      const { message, hint, status } = wordsOf(error);
      this.showError(message, hint, status === 401);
      this.render();
    }
  }

  /** @param {string} wish */
  async #do(wish) {
    const transfer = this.transfer;
    if (wish === "pause") transfer?.upload.pause();
    if (wish === "resume") {
      this.showError("");
      await this.#start();
    }
    if (wish === "cancel" && transfer) {
      this.transfer = null;
      this.showError("");
      this.hooks.onname("");
      this.render();
      await transfer.cancel();
      this.hooks.onremoved();
    }
    if (wish === "other") {
      this.transfer = null;
      this.#clearReady();
      this.hooks.onname("");
      this.render();
    }
  }

  /**
   * @param {string} id
   * @param {string} name
   * @param {number} size
   */
  #setReady(id, name, size) {
    this.id.value = id;
    this.id.dataset.name = name;
    this.id.dataset.size = String(size);
  }

  #clearReady() {
    this.#setReady("", "", 0);
  }

  render() {
    const upload = this.transfer?.upload;
    if (this.transfer && upload?.state === "complete" && this.id.value !== upload.id) {
      this.#setReady(upload.id, this.transfer.parcel.name, upload.size);
    }
    const shown = Boolean(this.transfer || this.id.value);
    this.drop.hidden = shown;
    this.current.hidden = !shown;
    this.current.dataset.state = this.#state();
    if (shown) this.#renderCurrent();
    if (upload?.error && upload.state === "failed") {
      this.showError(upload.error.message, upload.error.hint, upload.error.status === 401);
    }
    this.hooks.onchange();
  }

  /** @returns {string} */
  #state() {
    if (!this.transfer) return "complete";
    if (this.transfer.elsewhere) return "elsewhere";
    return this.transfer.upload.state;
  }

  #renderCurrent() {
    const state = this.#state();
    const upload = this.transfer?.upload;
    const nFiles = this.transfer?.parcel.nFiles;
    const name = this.transfer ? this.transfer.parcel.title : (this.id.dataset.name ?? "");
    const title = this.transfer && nFiles === null ? this.transfer.parcel.name : name;
    setText(
      found("[data-current-name]", HTMLElement, this.current),
      nFiles ? `${title}, ${formatCount(nFiles)} files` : title,
    );
    const bar = found("[data-current-bar]", HTMLProgressElement, this.current);
    bar.value = upload ? upload.offset / Math.max(1, upload.size) : 1;
    bar.hidden = state === "complete";
    setText(found("[data-current-text]", HTMLElement, this.current), this.#text(state));
    this.#say(state);
    const buttons = {
      pause: state === "uploading" || state === "waiting",
      resume: state === "paused" || state === "failed" || state === "idle",
      cancel: state !== "complete",
      other: state === "complete",
    };
    for (const [wish, offered] of Object.entries(buttons)) {
      found(`[data-do="${wish}"]`, HTMLElement, this.current).hidden = !offered;
    }
  }

  /** @param {string} state */
  #text(state) {
    const upload = this.transfer?.upload;
    if (!upload) return `${formatBytes(Number(this.id.dataset.size))}, uploaded.`;
    const safe = `${formatBytes(upload.offset)} of ${formatBytes(upload.size)} are safe`;
    switch (state) {
      case "complete":
        return `${formatBytes(upload.size)}, uploaded.`;
      case "elsewhere":
        return "Another tab is uploading this. It goes on here when that tab is closed.";
      case "paused":
        return `Paused; ${safe}.`;
      case "failed":
      case "idle":
        return `${safe}.`;
      case "waiting":
        return waitingText(upload, safe);
      default:
        return readingText(this.#meter.read(upload.offset, performance.now() / 1000));
    }
  }

  /** Changes of the state are announced; each piece is not. @param {string} state */
  #say(state) {
    if (state === this.#said) return;
    this.#said = state;
    const words = state === "uploading" ? "Uploading." : this.#text(state);
    setText(found("[data-current-spoken]", HTMLElement, this.current), words);
  }
}

/**
 * @param {import("../upload/tus.js").Upload} upload
 * @param {string} safe
 */
function waitingText({ waits, error }, safe) {
  if (waits === "elsewhere")
    return `Another tab or computer is uploading this. ${safe}; it goes on here when that stops.`;
  if (waits === "server") return `${error?.message ?? "The server has trouble."} ${safe}; trying again.`;
  return `Waiting for the connection; ${safe}.`;
}
