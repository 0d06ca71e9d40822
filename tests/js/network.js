/** A day of bad network for a stream: socket, HTTP, clock and chance that a test plays. */

import assert from "node:assert/strict";
import { Refusal, Stream } from "../../static/js/stream.js";
import { envelope, scalars } from "./events.js";

/** @typedef {import("../../static/js/generated/events").Envelope} Envelope */

/** @param {number} seq */
export const event = (seq) => envelope(seq, scalars(seq, { a: seq }));

/** @param {number} first @param {number} last */
export const events = (first, last) => Array.from({ length: last - first + 1 }, (_, index) => event(first + index));

/** A server, a network and a clock, of which a test turns the hands. */
export class World {
  /** What is recorded on the server, up to this seq. */
  recorded = 0;
  reachable = true;
  /** @type {Refusal | null} */
  refusal = null;
  now_ms = 0;
  /** @type {{id: number, at_ms: number, run: () => void}[]} */
  timers = [];
  /** @type {FakeSocket[]} */
  sockets = [];
  /** @type {number[]} */
  fetchedAfter = [];
  /** @type {number[]} */
  seen = [];
  /** @type {string[]} */
  states = [];
  changed = 0;
  chance = 0;
  #ids = 0;

  stream(after = 0) {
    return new Stream(
      after,
      {
        openSocket: (from) => {
          const socket = new FakeSocket(from);
          this.sockets.push(socket);
          return socket;
        },
        fetchEvents: async (from, limit) => {
          this.fetchedAfter.push(from);
          if (this.refusal) throw this.refusal;
          if (!this.reachable) throw new TypeError("network");
          return events(from + 1, Math.min(this.recorded, from + limit));
        },
        setTimer: (run, delay_ms) => {
          this.#ids += 1;
          this.timers.push({ id: this.#ids, at_ms: this.now_ms + delay_ms, run });
          return this.#ids;
        },
        clearTimer: (timer) => {
          this.timers = this.timers.filter(({ id }) => id !== timer);
        },
        random: () => this.chance,
      },
      {
        events: (envelopes) => this.seen.push(...envelopes.map(({ seq }) => seq)),
        state: (state) => this.states.push(state),
        changed: () => {
          this.changed += 1;
        },
      },
    );
  }

  get socket() {
    const socket = this.sockets.at(-1);
    assert.ok(socket, "no socket was opened");
    return socket;
  }

  get state() {
    return this.states.at(-1);
  }

  /** @param {number} ms */
  async pass(ms) {
    const until_ms = this.now_ms + ms;
    await settled();
    for (;;) {
      const due = this.timers.filter(({ at_ms }) => at_ms <= until_ms).sort((a, b) => a.at_ms - b.at_ms)[0];
      if (!due) break;
      this.now_ms = due.at_ms;
      this.timers = this.timers.filter((timer) => timer !== due);
      due.run();
      await settled();
    }
    this.now_ms = until_ms;
  }
}

export class FakeSocket {
  /** @type {(() => void) | null} */
  onopen = null;
  /** @type {((event: {data: string}) => void) | null} */
  onmessage = null;
  /** @type {((event: {code: number}) => void) | null} */
  onclose = null;
  closed = false;
  /** @type {string[]} */
  sent = [];

  /** @param {number} after */
  constructor(after) {
    this.after = after;
  }

  /** @param {string} text */
  send(text) {
    this.sent.push(JSON.parse(text).type);
  }

  close() {
    this.closed = true;
  }

  /** @param {object} message */
  say(message) {
    this.onmessage?.({ data: JSON.stringify(message) });
  }

  open() {
    this.onopen?.();
    this.say({ type: "pong" });
  }

  /** @param {Envelope[]} envelopes */
  tell(envelopes) {
    this.say({ type: "events", events: envelopes });
  }
}

/** Lets every promise that can settle do so. */
export async function settled() {
  for (let turn = 0; turn < 30; turn += 1) await null;
}

export async function live(world = new World(), after = 0) {
  const stream = world.stream(after);
  stream.start();
  world.socket.open();
  await settled();
  return { world, stream };
}
