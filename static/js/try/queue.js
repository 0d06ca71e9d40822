// @ts-check
/** Things done one after the other, in the order in which they came; what fails as a whole holds all that follow. */

/** @template Item */
export class Queue {
  /** @type {Item[]} */
  #waiting = [];
  #isRunning = false;
  #isHeld = false;

  /**
   * @param {(item: Item) => Promise<void>} work fails only where the next one would fail too
   * @param {(error: unknown) => void} onhold
   */
  constructor(work, onhold) {
    this.work = work;
    this.onhold = onhold;
  }

  /** How many are not done, with the one that is under way. */
  get length() {
    return this.#waiting.length;
  }

  /** @param {Item} item */
  add(item) {
    this.#waiting.push(item);
    this.#run();
  }

  /** @param {Item} item */
  remove(item) {
    this.#waiting = this.#waiting.filter((each) => each !== item);
  }

  clear() {
    this.#waiting = [];
    this.#isHeld = false;
  }

  /** Goes on with what it was held at. */
  resume() {
    this.#isHeld = false;
    this.#run();
  }

  async #run() {
    if (this.#isRunning) return;
    this.#isRunning = true;
    while (this.#waiting.length && !this.#isHeld) {
      const item = /** @type {Item} */ (this.#waiting[0]);
      try {
        await this.work(item);
        this.remove(item);
      } catch (error) {
        // Somebody may have taken it away meanwhile: then nobody waits for it.
        if (!this.#waiting.includes(item)) continue;
        this.#isHeld = true;
        this.onhold(error);
      }
    }
    this.#isRunning = false;
  }
}
