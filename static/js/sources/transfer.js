// @ts-check
/** One file or folder on its way to the server: found again there if it began earlier, and sent by one tab at a time. */

import { ENDPOINT, Upload } from "../upload/tus.js";
import { browserWorld, knownUploads } from "./server.js";

/** @typedef {import("../upload/parcel.js").Parcel} Parcel */
/** @typedef {import("../upload/tus.js").UploadState} UploadState */

export class Transfer {
  /** Whether another tab of this browser sends the same just now. */
  elsewhere = false;
  #given = new AbortController();
  /** @type {() => void} */
  #release = () => {};

  /**
   * @param {Parcel} parcel
   * @param {() => void} onchange
   */
  constructor(parcel, onchange) {
    this.parcel = parcel;
    this.upload = new Upload(
      { content: parcel.content, name: parcel.name, fingerprint: parcel.fingerprint },
      browserWorld,
    );
    this.onchange = onchange;
    this.upload.onchange = () => {
      if (["complete", "failed", "cancelled"].includes(this.upload.state)) this.#release();
      this.onchange();
    };
    this.retryNow = () => this.upload.retryNow();
    window.addEventListener("online", this.retryNow);
  }

  /** @returns {boolean} whether leaving the page would stop something */
  get isUnderWay() {
    return this.elsewhere || ["uploading", "waiting", "paused", "idle"].includes(this.upload.state);
  }

  /** Begins, or goes on after a pause or an error. Fails where not even the list of uploads can be had. */
  async start() {
    await this.#take();
    if (this.#given.signal.aborted) return;
    if (!this.upload.address) {
      const { fingerprint, content } = this.parcel;
      const known = await knownUploads();
      const earlier = known.find((each) => each.fingerprint === fingerprint && each.size === content.size);
      if (earlier) this.upload.address = ENDPOINT + earlier.id;
    }
    if (!this.#given.signal.aborted) this.upload.start();
  }

  /** Stops; what the server has of it is taken away, unless another tab is sending it. */
  async cancel() {
    this.#given.abort();
    if (this.elsewhere) this.upload.address = "";
    await this.upload.cancel();
    this.#release();
    window.removeEventListener("online", this.retryNow);
  }

  /** Waits while another tab has it. Locks exist in secure contexts only; elsewhere the server's 423 has to do. */
  async #take() {
    this.#release();
    const name = `fovea-upload-${this.parcel.fingerprint}`;
    const locks = navigator.locks;
    if (!locks) return;
    if (await this.#request(locks, name, { ifAvailable: true })) return;
    this.elsewhere = true;
    this.onchange();
    try {
      await this.#request(locks, name, { signal: this.#given.signal });
    } catch (error) {
      if (!this.#given.signal.aborted) throw error;
    }
    this.elsewhere = false;
    this.onchange();
  }

  /**
   * @param {LockManager} locks
   * @param {string} name
   * @param {LockOptions} options
   * @returns {Promise<boolean>} whether it is held now; it is until `#release` is called
   */
  #request(locks, name, options) {
    return new Promise((resolve, reject) => {
      const grant = (/** @type {Lock | null} */ lock) => {
        if (!lock) return resolve(false);
        return new Promise((/** @type {(value: void) => void} */ release) => {
          this.#release = release;
          resolve(true);
        });
      };
      locks.request(name, options, grant).catch(reject);
    });
  }
}
