// @ts-check

/** A draw takes at most one part in this many of the main thread. */
const BREATH = 3;

/**
 * Draws as soon as it is asked to, but never so often that the page would stop answering: the next draw begins no
 * earlier than three times the duration of the last one after that one began. Requests in between become one.
 */
export class Pacer {
  #draw;
  #around;
  #scheduled = false;
  #nextStart_ms = 0;

  /**
   * @param {() => void} draw
   * @param {{now: () => number, setTimer: (run: () => void, delay_ms: number) => unknown,
   *   nextFrame: (run: () => void) => unknown}} around
   */
  constructor(draw, around) {
    this.#draw = draw;
    this.#around = around;
  }

  request() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    const wait_ms = this.#nextStart_ms - this.#around.now();
    if (wait_ms > 0) this.#around.setTimer(() => this.#around.nextFrame(() => this.#run()), wait_ms);
    else this.#around.nextFrame(() => this.#run());
  }

  #run() {
    this.#scheduled = false;
    const began_ms = this.#around.now();
    this.#draw();
    this.#nextStart_ms = began_ms + BREATH * (this.#around.now() - began_ms);
  }
}
