// @ts-check
/**
 * One upload by tus 1.0: made, asked how much arrived, sent in pieces. What the server has is what it says it has, so that a
 * cut connection, a restarted server or a closed tab costs at most a piece. Never more than one piece is under way.
 */

import { addressOf } from "../addresses.js";
import { backoff_ms, bytesOf, Halt, headersOf, isPassing, UploadError, uploadErrorOf } from "./answers.js";

/** @typedef {import("./tar.js").Sliceable} Sliceable */
/** @typedef {"idle" | "uploading" | "waiting" | "paused" | "complete" | "failed" | "cancelled"} UploadState */
/**
 * Why it waits: nobody answers, the server has trouble, or another tab or computer sends the same upload.
 * @typedef {"offline" | "server" | "elsewhere"} WaitReason
 */
/**
 * @typedef {{
 *   fetch: (address: string, init: RequestInit) => Promise<Response>,
 *   setTimer: (run: () => void, delay_ms: number) => number,
 *   clearTimer: (timer: number) => void,
 *   now_ms: () => number,
 *   random: () => number,
 *   csrfToken: () => string,
 * }} UploadWorld
 */
/** @typedef {{content: Sliceable, name: string, fingerprint: string}} Load */

export const ENDPOINT = addressOf("/api/v1/uploads/");
export const MIN_PIECE_BYTES = 256 * 1024;
export const MAX_PIECE_BYTES = 16 * 1024 * 1024;
export const FIRST_PIECE_BYTES = 1024 * 1024;
/** A piece of this length keeps the display lively and the overhead small. */
export const PIECE_MS = 1500;
/** A request that takes longer is given up and asked about. */
export const STALLED_MS = 90_000;

export class Upload {
  /** @type {UploadState} */
  state = "idle";
  /** @type {WaitReason | null} */
  waits = null;
  /** @type {UploadError | null} */
  error = null;
  /** Bytes that the server has said it has. */
  offset = 0;
  /** What is called after each change. @type {() => void} */
  onchange = () => {};
  /** @type {boolean} */
  #asked = false;
  #piece_bytes = FIRST_PIECE_BYTES;
  #failures = 0;
  /** @type {AbortController | null} */
  #request = null;
  /** @type {(() => void) | null} */
  #wake = null;
  /** The loop, while it runs; a new one begins when it has ended. @type {Promise<void>} */
  #loop = Promise.resolve();

  /**
   * @param {Load} load
   * @param {UploadWorld} world
   * @param {string} [address] of an upload to go on with
   */
  constructor(load, world, address = "") {
    this.load = load;
    this.world = world;
    this.address = address;
  }

  get size() {
    return this.load.content.size;
  }

  /** Empty until the server has made it. */
  get id() {
    return this.address.replace(/\/$/, "").split("/").at(-1) ?? "";
  }

  /** Begins, or goes on after a pause or an error. */
  start() {
    if (["uploading", "waiting", "complete", "cancelled"].includes(this.state)) return;
    this.error = null;
    this.#asked = false;
    this.#failures = 0;
    this.#enter("uploading");
    this.#loop = this.#loop.then(() => this.#run());
  }

  pause() {
    if (this.state !== "uploading" && this.state !== "waiting") return;
    this.#enter("paused");
    this.#interrupt();
  }

  /** Stops, and takes away what the server has of it. */
  async cancel() {
    this.#enter("cancelled");
    this.#interrupt();
    await this.#loop;
    if (!this.address) return;
    try {
      await this.#send("DELETE", this.address, {});
    } catch {
      // It expires by itself, and the list of uploads offers to delete it.
    }
  }

  /** The connection is back: do not wait any longer. */
  retryNow() {
    if (this.state === "waiting") this.#wake?.();
  }

  async #run() {
    while (this.state === "uploading" || this.state === "waiting") {
      try {
        await this.#step();
      } catch (error) {
        if (this.#isOver()) return;
        await this.#onTrouble(error);
      }
    }
  }

  async #step() {
    if (!this.address) await this.#create();
    else if (!this.#asked) await this.#askOffset();
    else await this.#sendPiece();
    if (this.#isOver()) return;
    if (this.#asked && this.offset >= this.size) this.#enter("complete");
    else if (this.state === "waiting") this.#enter("uploading");
  }

  async #create() {
    const { name, fingerprint } = this.load;
    const metadata = `filename ${base64(name)},fingerprint ${base64(fingerprint)}`;
    const headers = { "Upload-Length": String(this.size), "Upload-Metadata": metadata };
    const answer = await this.#send("POST", ENDPOINT, headers);
    this.address = new URL(answer.headers.get("Location") ?? "", new URL(ENDPOINT, "http://localhost")).pathname;
    this.offset = 0;
    this.#asked = true;
    this.#failures = 0;
    this.onchange();
  }

  async #askOffset() {
    const answer = await this.#send("HEAD", this.address, {});
    this.#take(answer);
    this.#asked = true;
    // Another client may hold it still: only a piece that was taken proves that the trouble is over.
    this.onchange();
  }

  async #sendPiece() {
    const began_ms = this.world.now_ms();
    const end = Math.min(this.size, this.offset + this.#piece_bytes);
    const nBytes = end - this.offset;
    const body = this.load.content.slice(this.offset, end);
    const headers = { "Upload-Offset": String(this.offset), "Content-Type": "application/offset+octet-stream" };
    this.#take(await this.#send("PATCH", this.address, headers, body));
    this.#failures = 0;
    const took_ms = Math.max(1, this.world.now_ms() - began_ms);
    // At most doubled at a time, so that one lucky piece does not make the next one endless.
    const wanted = Math.min((nBytes * PIECE_MS) / took_ms, 2 * this.#piece_bytes);
    this.#piece_bytes = Math.round(Math.min(MAX_PIECE_BYTES, Math.max(MIN_PIECE_BYTES, wanted)));
    this.onchange();
  }

  /** @param {Response} answer */
  #take(answer) {
    const offset = bytesOf(answer, "Upload-Offset");
    if (offset > this.size) {
      throw new UploadError(0, "", "The server has more than this file holds.", "Delete that upload and begin anew.");
    }
    this.offset = offset;
  }

  /**
   * @param {string} method
   * @param {string} address
   * @param {Record<string, string>} headers
   * @param {Blob} [body]
   */
  async #send(method, address, headers, body) {
    const control = new AbortController();
    this.#request = control;
    const timer = this.world.setTimer(() => control.abort(), STALLED_MS);
    try {
      const answer = await this.world.fetch(address, {
        method,
        headers: headersOf(headers, this.world.csrfToken()),
        signal: control.signal,
        ...(body ? { body } : {}),
      });
      if (!answer.ok) throw await uploadErrorOf(answer);
      return answer;
    } finally {
      this.world.clearTimer(timer);
      this.#request = null;
    }
  }

  /** @param {unknown} error */
  async #onTrouble(error) {
    this.#asked = false;
    if (error instanceof Halt) return;
    const found = error instanceof UploadError ? error : null;
    if (found && !isPassing(found)) {
      this.#fail(found);
      return;
    }
    if (!found && !(await this.#canRead())) {
      this.#fail(
        new UploadError(0, "", "A file was changed, moved or deleted since it was chosen.", "Choose it again."),
      );
      return;
    }
    this.#failures += 1;
    this.#piece_bytes = Math.max(MIN_PIECE_BYTES, this.#piece_bytes / 2);
    this.error = found;
    await this.#rest(found);
  }

  /** @param {UploadError | null} found */
  async #rest(found) {
    // One refusal is no news: the server may not have noticed yet that the earlier request of this very tab has ended.
    const held = found?.status === 423 || found?.status === 409;
    this.waits = held ? "elsewhere" : found ? "server" : "offline";
    if (!held || this.#failures > 2) this.#enter("waiting");
    await this.#sleep(backoff_ms(this.#failures, this.world.random()));
  }

  /** A network error and a file that has gone look the same to `fetch`. */
  async #canRead() {
    const end = Math.min(this.size, this.offset + this.#piece_bytes);
    try {
      await this.load.content.slice(this.offset, end).arrayBuffer();
      return true;
    } catch {
      return false;
    }
  }

  /** @param {UploadError} error */
  #fail(error) {
    // What has expired or was deleted elsewhere can only begin anew.
    if (error.status === 404 || error.status === 410) {
      this.address = "";
      this.offset = 0;
    }
    this.error = error;
    this.#enter("failed");
  }

  /** @param {number} delay_ms */
  #sleep(delay_ms) {
    return new Promise((/** @type {(value: void) => void} */ resolve) => {
      const timer = this.world.setTimer(() => this.#wake?.(), delay_ms);
      this.#wake = () => {
        this.world.clearTimer(timer);
        this.#wake = null;
        resolve();
      };
    });
  }

  #interrupt() {
    this.#request?.abort(new Halt());
    this.#wake?.();
  }

  #isOver() {
    return this.state !== "uploading" && this.state !== "waiting";
  }

  /** @param {UploadState} state */
  #enter(state) {
    this.state = state;
    if (state !== "waiting" && state !== "failed") this.error = null;
    if (state !== "waiting") this.waits = null;
    this.onchange();
  }
}

/** @param {string} text */
function base64(text) {
  return btoa(Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join(""));
}
