// @ts-check
/**
 * Brings a job's events in order, each once, over a socket while there is one and over HTTP while there is not.
 *
 * The socket says what is new; what it did not say is fetched. Everything outside (socket, HTTP, clock, chance) is
 * passed in, so that a test can play a day of bad network in a millisecond.
 */

/** @typedef {import("./generated/events").Envelope} Envelope */
/**
 * What a person is told: `live` only while the server answers on the socket and reads the live tail itself.
 * @typedef {"connecting" | "live" | "reconnecting" | "polling" | "finished" | "signed-out" | "gone"} ConnectionState
 */
/** @typedef {{type: "events", events: Envelope[]} | {type: "changed"} | {type: "live", ok: boolean} | {type: "pong"}} ServerMessage */
/**
 * @typedef {{send: (text: string) => void, close: () => void, onopen: (() => void) | null,
 *   onmessage: ((event: {data: string}) => void) | null, onclose: ((event: {code: number}) => void) | null}} SocketLike
 */
/**
 * @typedef {{
 *   openSocket: (after: number) => SocketLike,
 *   fetchEvents: (after: number, limit: number) => Promise<Envelope[]>,
 *   setTimer: (run: () => void, delay_ms: number) => number,
 *   clearTimer: (timer: number) => void,
 *   random: () => number,
 * }} Surroundings
 */
/**
 * @typedef {{
 *   events: (envelopes: Envelope[]) => void,
 *   state: (state: ConnectionState) => void,
 *   changed: () => void,
 * }} Listeners
 */

export const PAGE_SIZE = 1000;
export const PING_EVERY_MS = 15_000;
export const ANSWER_WITHIN_MS = 8_000;
export const POLL_EVERY_MS = 2_000;
const HURRIED_ANSWER_WITHIN_MS = 3_000;
const RETRY_FILL_MS = 1_000;
const BACK_OFF_FIRST_MS = 500;
const BACK_OFF_LAST_MS = 10_000;
/** Beyond this, what waits behind a gap is forgotten and fetched with the gap. */
const PENDING_LIMIT = 5_000;
const CLOSE_SIGNED_OUT = 4401;
const CLOSE_GONE = 4404;

/** The server's no to a request for events. */
export class Refusal extends Error {
  /** @param {"signed-out" | "gone"} state */
  constructor(state) {
    super(state);
    this.state = state;
  }
}

export class Stream {
  #around;
  #on;
  #last;
  /** @type {SocketLike | null} */
  #socket = null;
  /** The server has answered on this socket. */
  #answered = false;
  /** The server reads the live tail (Redis) itself. */
  #tailReadable = true;
  #pollSucceeded = false;
  #failures = 0;
  /** @type {ConnectionState | null} */
  #final = null;
  /** @type {ConnectionState | null} */
  #told = null;
  /** @type {Envelope[]} */
  #pending = [];
  /** @type {Promise<boolean> | null} */
  #filling = null;
  /** @type {Map<string, number>} */
  #timers = new Map();

  /**
   * @param {number} after the seq up to which everything is known
   * @param {Surroundings} around
   * @param {Listeners} on
   */
  constructor(after, around, on) {
    this.#last = after;
    this.#around = around;
    this.#on = on;
  }

  get lastSeq() {
    return this.#last;
  }

  start() {
    this.#open();
  }

  /**
   * Nothing more will come.
   * @param {ConnectionState} [state]
   */
  stop(state = "finished") {
    if (this.#final) return;
    this.#final = state;
    for (const timer of this.#timers.values()) this.#around.clearTimer(timer);
    this.#timers.clear();
    this.#letGo();
    this.#tell();
  }

  /** The network or the page came back, or may have gone: find out now instead of at the next beat. */
  wake() {
    if (this.#final) return;
    if (this.#socket) this.#beat(HURRIED_ANSWER_WITHIN_MS);
    else this.#open();
  }

  /**
   * Fetches what is still missing.
   * @returns {Promise<boolean>} whether everything that the server had is here
   */
  catchUp() {
    this.#filling ??= this.#fill().finally(() => {
      this.#filling = null;
    });
    return this.#filling;
  }

  #open() {
    if (this.#final) return;
    this.#cancel("retry");
    this.#answered = false;
    this.#tailReadable = true;
    const socket = this.#around.openSocket(this.#last);
    this.#socket = socket;
    socket.onopen = () => this.#beat(ANSWER_WITHIN_MS);
    socket.onmessage = (event) => this.#receive(/** @type {ServerMessage} */ (JSON.parse(event.data)));
    socket.onclose = (event) => this.#lose(event.code);
    this.#later("answer", ANSWER_WITHIN_MS, () => this.#lose(0));
    this.#tell();
  }

  /** @param {ServerMessage} message */
  #receive(message) {
    this.#cancel("answer");
    if (message.type === "live") this.#tailReadable = message.ok;
    if (!this.#answered) this.#welcome(message.type === "events");
    else if (message.type === "live") this.#turnTo(message.ok);
    if (message.type === "events") this.#accept(message.events);
    else if (message.type === "changed") this.#on.changed();
  }

  /**
   * The first answer on a socket: whatever happened while there was none has to be asked for.
   * @param {boolean} isBrought the server is just sending it, and says afterwards whether the tail is live
   */
  #welcome(isBrought) {
    this.#answered = true;
    this.#failures = 0;
    this.#on.changed();
    if (!isBrought) return this.#turnTo(this.#tailReadable);
    this.#cancel("poll");
    this.#tell();
  }

  /** @param {boolean} tail whether events come over the socket, or have to be polled for */
  #turnTo(tail) {
    this.#pollSucceeded = false;
    if (tail) {
      this.#cancel("poll");
      void this.catchUp();
    } else {
      void this.#poll();
    }
    this.#tell();
  }

  /** @param {number} within_ms */
  #beat(within_ms) {
    if (!this.#socket) return;
    this.#later("beat", PING_EVERY_MS, () => this.#beat(ANSWER_WITHIN_MS));
    this.#later("answer", within_ms, () => this.#lose(0));
    try {
      this.#socket.send(JSON.stringify({ type: "ping" }));
    } catch {
      // Not open yet, or no longer: the answer will be missed, which is dealt with there.
    }
  }

  /** @param {number} code of the close frame, 0 where the server fell silent */
  #lose(code) {
    this.#letGo();
    if (code === CLOSE_SIGNED_OUT) return this.stop("signed-out");
    if (code === CLOSE_GONE) return this.stop("gone");
    this.#failures += 1;
    const most_ms = Math.min(BACK_OFF_LAST_MS, BACK_OFF_FIRST_MS * 2 ** this.#failures);
    const delay_ms = BACK_OFF_FIRST_MS + this.#around.random() * (most_ms - BACK_OFF_FIRST_MS);
    this.#later("retry", delay_ms, () => this.#open());
    // A first loss is mostly a restart that the first retry heals; from the second on, HTTP may still work.
    if (this.#failures > 1 && !this.#timers.has("poll")) void this.#poll();
    this.#tell();
  }

  #letGo() {
    const socket = this.#socket;
    this.#socket = null;
    this.#answered = false;
    this.#cancel("beat");
    this.#cancel("answer");
    if (!socket) return;
    socket.onopen = null;
    socket.onmessage = null;
    socket.onclose = null;
    socket.close();
  }

  async #poll() {
    // Holds the place, so that a second loss in the meantime does not start a second round.
    this.#later("poll", POLL_EVERY_MS, () => void this.#poll());
    this.#pollSucceeded = await this.catchUp();
    if (this.#pollSucceeded && !this.#final) this.#on.changed();
    this.#tell();
  }

  /** @param {Envelope[]} envelopes */
  #accept(envelopes) {
    if (this.#filling) {
      this.#pending.push(...envelopes);
      // The newest one stays: that it does not follow says that there is more to fetch.
      if (this.#pending.length > PENDING_LIMIT) this.#pending = this.#pending.slice(-1);
      return;
    }
    if (!this.#deliver(envelopes)) {
      this.#pending = envelopes;
      void this.catchUp();
    }
  }

  /**
   * Hands on what follows without a gap.
   * @param {Envelope[]} envelopes in order
   * @returns {boolean} whether there was no gap
   */
  #deliver(envelopes) {
    const next = [];
    let whole = true;
    for (const envelope of envelopes) {
      if (envelope.seq <= this.#last) continue;
      if (envelope.seq !== this.#last + 1) {
        whole = false;
        break;
      }
      this.#last = envelope.seq;
      next.push(envelope);
    }
    if (next.length > 0 && !this.#final) this.#on.events(next);
    return whole;
  }

  async #fill() {
    try {
      await this.#fetchPages();
    } catch (error) {
      if (error instanceof Refusal) this.stop(error.state);
      else this.#fillAgainLater();
      return false;
    }
    const pending = this.#pending;
    this.#pending = [];
    if (!this.#deliver(pending)) {
      this.#pending = pending;
      this.#fillAgainLater();
    }
    return true;
  }

  async #fetchPages() {
    let page;
    do {
      page = await this.#around.fetchEvents(this.#last, PAGE_SIZE);
    } while (this.#deliver(page) && page.length === PAGE_SIZE && !this.#final);
  }

  #fillAgainLater() {
    if (this.#answered) this.#later("fill", RETRY_FILL_MS, () => void this.catchUp());
  }

  #tell() {
    const state = this.#final ?? this.#present();
    if (state === this.#told) return;
    this.#told = state;
    this.#on.state(state);
  }

  /** @returns {ConnectionState} */
  #present() {
    if (this.#answered && this.#tailReadable) return "live";
    if (this.#pollSucceeded) return "polling";
    return this.#answered || this.#failures > 0 ? "reconnecting" : "connecting";
  }

  /**
   * @param {string} name
   * @param {number} delay_ms
   * @param {() => void} run
   */
  #later(name, delay_ms, run) {
    this.#cancel(name);
    if (this.#final) return;
    const timer = this.#around.setTimer(() => {
      this.#timers.delete(name);
      run();
    }, delay_ms);
    this.#timers.set(name, timer);
  }

  /** @param {string} name */
  #cancel(name) {
    const timer = this.#timers.get(name);
    if (timer !== undefined) this.#around.clearTimer(timer);
    this.#timers.delete(name);
  }
}
