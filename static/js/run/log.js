// @ts-check
/** The end of a log, which grows while the run goes on and is followed while one looks at its end. */

import { getJson } from "./api.js";

/** @typedef {import("./api.js").LogChunk} LogChunk */

const TAIL_BYTES = 64 * 1024;
/** Text beyond this is dropped from the front; the whole log has a link of its own. */
const MOST_CHARACTERS = 2 * TAIL_BYTES;
const NEAR_END_PX = 24;
const EVERY_MS = 2000;

export class LogTail {
  #jobId;
  #target;
  /** @type {number | null} the attempt that is shown; null follows the latest */
  #attempt = null;
  #end = 0;
  /** The attempt whose text is on the page, 0 for none yet. */
  #shown = 0;
  #busy = false;
  #visible = false;
  #live = true;

  /**
   * @param {number} jobId
   * @param {HTMLElement} target
   */
  constructor(jobId, target) {
    this.#jobId = jobId;
    this.#target = target;
    new IntersectionObserver((entries) => {
      this.#visible = entries.some((entry) => entry.isIntersecting);
      if (this.#visible) void this.refresh();
    }).observe(target);
    setInterval(() => {
      if (this.#live) void this.refresh();
    }, EVERY_MS);
  }

  /** @param {number} attempt */
  show(attempt) {
    this.#attempt = attempt;
    this.#shown = 0;
    void this.refresh();
  }

  /** Nothing more will be written: read once more, then rest. */
  finish() {
    this.#live = false;
    void this.refresh();
  }

  /** Reads on from where the last piece ended, if anybody can see it. */
  async refresh() {
    if (this.#busy || !this.#visible || document.hidden) return;
    this.#busy = true;
    try {
      this.#take(await getJson(this.#url()));
    } catch {
      // The connection's state is told elsewhere; the next round reads on from the same place.
    } finally {
      this.#busy = false;
    }
  }

  #url() {
    const query = new URLSearchParams();
    if (this.#shown > 0) query.set("offset", String(this.#end));
    else query.set("tail", String(TAIL_BYTES));
    // Without an attempt the answer is the latest one's, for which an offset in an older log would be wrong.
    const attempt = this.#attempt ?? this.#shown;
    if (attempt > 0) query.set("attempt", String(attempt));
    return `/api/v1/jobs/${this.#jobId}/log?${query}`;
  }

  /** @param {LogChunk} chunk */
  #take(chunk) {
    const atEnd = this.#target.scrollHeight - this.#target.scrollTop - this.#target.clientHeight < NEAR_END_PX;
    const first = this.#shown !== chunk.attempt;
    this.#end = chunk.end;
    this.#shown = chunk.attempt;
    const text = first ? chunk.text : (this.#target.textContent ?? "") + chunk.text;
    if (first || chunk.text !== "") this.#target.textContent = text.slice(-MOST_CHARACTERS);
    if (first || atEnd) this.#target.scrollTop = this.#target.scrollHeight;
  }

  /** A new attempt has a new log. */
  restart() {
    if (this.#attempt !== null) return;
    this.#shown = 0;
    void this.refresh();
  }
}
