// @ts-check
/** The list of images that are asked about: newest on top, answered one after the other, held where all would fail. */

import { found, setText } from "../dom.js";
import { formatCount } from "../format.js";
import { AskError } from "./asking.js";
import { Queue } from "./queue.js";

/**
 * @template {import("./image_card.js").ImageCard} Kind
 */
export class Answers {
  /** @type {Kind[]} */
  cards = [];
  #asked = new AbortController();

  /**
   * @param {(card: Kind, signal: AbortSignal) => Promise<void>} ask fails only where the next one would fail too
   * @param {(status: number) => void} onhold the status of HTTP that it was held at, 0 where there is none
   */
  constructor(ask, onhold) {
    this.ask = ask;
    this.onhold = onhold;
    this.list = found("[data-cards]", HTMLElement);
    this.queue = new Queue(
      (/** @type {Kind} */ card) => this.#answer(card),
      (error) => this.#hold(error),
    );
    found("[data-clear]", HTMLElement).addEventListener("click", () => this.#clear());
    found("[data-problem-retry]", HTMLElement).addEventListener("click", () => this.resume());
  }

  /**
   * @param {Kind} card
   * @param {{message: string, hint: string} | null} problem why it need not be asked about
   */
  add(card, problem) {
    this.cards.push(card);
    this.list.prepend(card.root);
    if (problem) card.refuse(problem);
    else this.queue.add(card);
    this.#showCount();
  }

  /** @param {Kind} card */
  remove(card) {
    this.queue.remove(card);
    this.cards = this.cards.filter((each) => each !== card);
    card.leave();
    if (!this.queue.length) this.#showProblem(false);
    this.#showCount();
  }

  resume() {
    this.#showProblem(false);
    this.queue.resume();
  }

  /** Asks about all of them anew. */
  again() {
    this.#stop();
    for (const card of this.cards) {
      card.say("waiting", "Waiting for its turn");
      this.queue.add(card);
    }
    this.#showCount();
  }

  /** Once more where it was told to ask anew meanwhile. @param {Kind} card */
  async #answer(card) {
    let signal;
    do {
      ({ signal } = this.#asked);
      try {
        await this.ask(card, signal);
      } catch (error) {
        if (signal.aborted) continue;
        if (!(error instanceof AskError && error.isOfImage)) {
          card.say("waiting", "Waiting");
          throw error;
        }
        card.refuse(error);
      }
    } while (signal.aborted && this.cards.includes(card));
    this.#showCount();
    setText(found("[data-spoken]", HTMLElement), card.spoken);
  }

  /** What stands in the way of all of them. @param {unknown} error */
  #hold(error) {
    const known =
      error instanceof AskError
        ? error
        : { status: 0, message: "Something went wrong in this page.", hint: "Reload it." };
    const box = found("[data-problem]", HTMLElement);
    setText(found("[data-problem-message]", HTMLElement, box), known.message);
    setText(found("[data-problem-hint]", HTMLElement, box), known.hint);
    found("[data-problem-sign-in]", HTMLElement, box).hidden = known.status !== 401;
    box.hidden = false;
    this.onhold(known.status);
  }

  #clear() {
    this.#stop();
    for (const card of this.cards) card.leave();
    this.cards = [];
    this.#showCount();
    found("[data-choose]", HTMLElement).focus();
  }

  #stop() {
    this.#asked.abort();
    this.#asked = new AbortController();
    this.queue.clear();
    this.#showProblem(false);
  }

  /** @param {boolean} isThere */
  #showProblem(isThere) {
    found("[data-problem]", HTMLElement).hidden = !isThere;
  }

  #showCount() {
    const n = this.cards.length;
    found("[data-answers]", HTMLElement).hidden = !n;
    setText(found("[data-answers-title]", HTMLElement), n === 1 ? "One image" : `${formatCount(n)} images`);
    const left = this.queue.length;
    setText(found("[data-answers-hint]", HTMLElement), left > 1 ? `${formatCount(left)} to come` : "");
  }
}

/**
 * Runs `work`; where it takes long, `tell` is called once.
 * @template Result
 * @param {number} after_ms
 * @param {() => void} tell
 * @param {() => Promise<Result>} work
 */
export async function withPatience(after_ms, tell, work) {
  const slow = window.setTimeout(tell, after_ms);
  try {
    return await work();
  } finally {
    window.clearTimeout(slow);
  }
}
