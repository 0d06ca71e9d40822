/** A tus server, a network and a clock that a test plays. */

import assert from "node:assert/strict";
import { Upload } from "../../static/js/upload/tus.js";

export const ID = "0123456789abcdef0123456789abcdef";

/** Bytes that differ from place to place, so that a gap or a doubled piece shows. @param {number} n */
export function bytes(n) {
  return Uint8Array.from({ length: n }, (_, index) => (index * 7 + (index >> 8)) & 0xff);
}

export class FakeServer {
  /** What has arrived. @type {Uint8Array} */
  stored = new Uint8Array();
  /** @type {number | null} of the upload that exists */
  length = null;
  /** @type {{method: string, address: string, headers: Record<string, string>}[]} */
  requests = [];
  /** PATCH requests at the same time, now and at most. */
  open = 0;
  mostOpen = 0;
  /** What the next requests meet instead of the server. @type {((init: RequestInit) => Response | Error | null)[]} */
  trouble = [];
  /** Resolves what a request waits for, where a test holds them. @type {(() => void)[]} */
  held = [];
  holds = false;
  /** @type {{run: () => void, delay_ms: number, id: number}[]} */
  timers = [];
  now_ms = 0;
  /** How long a piece takes. */
  piece_ms = 0;
  #ids = 0;

  /** @returns {import("../../static/js/upload/tus.js").UploadWorld} */
  world() {
    return {
      fetch: (address, init) => this.#fetch(address, init),
      setTimer: (run, delay_ms) => {
        this.#ids += 1;
        this.timers.push({ run, delay_ms, id: this.#ids });
        return this.#ids;
      },
      clearTimer: (timer) => {
        this.timers = this.timers.filter(({ id }) => id !== timer);
      },
      now_ms: () => this.now_ms,
      random: () => 0,
      csrfToken: () => "token",
    };
  }

  /**
   * @param {Uint8Array} content
   * @param {string} [address]
   */
  upload(content, address = "") {
    const file = new File([/** @type {BlobPart} */ (content)], "ünïcode 猫.zip");
    return new Upload({ content: file, name: file.name, fingerprint: "file-1" }, this.world(), address);
  }

  /** @param {string} method */
  count(method) {
    return this.requests.filter((request) => request.method === method).length;
  }

  /** How long it waits before it asks again. */
  get waits_ms() {
    return this.timers.filter(({ delay_ms }) => delay_ms <= 30_000).map(({ delay_ms }) => delay_ms);
  }

  /** Lets every short wait end. */
  async tick() {
    const due = this.timers.filter(({ delay_ms }) => delay_ms <= 30_000);
    this.timers = this.timers.filter((timer) => !due.includes(timer));
    for (const { run } of due) run();
    await settled();
  }

  /**
   * @param {string} address
   * @param {RequestInit} init
   */
  async #fetch(address, init) {
    const headers = /** @type {Record<string, string>} */ (init.headers);
    const method = init.method ?? "GET";
    this.requests.push({ method, address, headers });
    assert.equal(headers["Tus-Resumable"], "1.0.0");
    assert.equal(headers["X-CSRFToken"], "token");
    if (method === "PATCH") {
      this.open += 1;
      this.mostOpen = Math.max(this.mostOpen, this.open);
    }
    try {
      if (this.holds) await this.#hold(init.signal);
      const met = this.trouble.shift()?.(init);
      if (met instanceof Error) throw met;
      return met ?? (await this.#answer(method, headers, init.body));
    } finally {
      if (method === "PATCH") this.open -= 1;
    }
  }

  /** @param {AbortSignal | null | undefined} signal */
  #hold(signal) {
    return new Promise((/** @type {(value: void) => void} */ resolve, reject) => {
      this.held.push(resolve);
      signal?.addEventListener("abort", () => reject(signal.reason));
    });
  }

  /**
   * @param {string} method
   * @param {Record<string, string>} headers
   * @param {BodyInit | null | undefined} body
   */
  async #answer(method, headers, body) {
    if (method === "POST") {
      this.length = Number(headers["Upload-Length"]);
      return new Response(null, { status: 201, headers: { Location: `/api/v1/uploads/${ID}` } });
    }
    if (this.length === null) return refusal(404, "upload.missing", "There is no such upload.", "Upload it again.");
    if (method === "DELETE") {
      this.length = null;
      return new Response(null, { status: 204 });
    }
    if (method === "PATCH") {
      if (Number(headers["Upload-Offset"]) !== this.stored.length) return refusal(409, "upload.offset", "Elsewhere.");
      assert.ok(body instanceof Blob);
      this.now_ms += this.piece_ms;
      this.take(new Uint8Array(await body.arrayBuffer()));
    }
    return new Response(null, {
      status: method === "HEAD" ? 200 : 204,
      headers: { "Upload-Offset": String(this.stored.length) },
    });
  }

  /** @param {Uint8Array} piece */
  take(piece) {
    const whole = new Uint8Array(this.stored.length + piece.length);
    whole.set(this.stored);
    whole.set(piece, this.stored.length);
    this.stored = whole;
  }
}

/**
 * @param {number} status
 * @param {string} code
 * @param {string} message
 * @param {string} [hint]
 */
export function refusal(status, code, message, hint = "") {
  return new Response(JSON.stringify({ error: { code, message, hint, fields: {} } }), { status });
}

/** After all that can happen without a timer has happened. */
export async function settled() {
  for (let turn = 0; turn < 60; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
