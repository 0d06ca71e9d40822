// @ts-check
/** The page that holds two networks against each other: here the part that asks both about the same image. */

import { CompareCard } from "./compare/card.js";
import { Sides } from "./compare/sides.js";
import { found } from "./dom.js";
import { Answers, withPatience } from "./try/answers.js";
import { ask } from "./try/asking.js";
import { Bring } from "./try/bring.js";

/** @typedef {import("./compare/sides.js").Side} Side */
/** @typedef {import("./compare/card.js").Told} Told */
/**
 * @typedef {{page: string, classify_page: string, asked: {predict: string}, sides: Record<string, Side>,
 *   sample: {dataset: number, id: number, name: string, truth: string, picture: string} | null,
 *   at_once: number, most_bytes: number}} PageData
 */

const LOADING_AFTER_MS = 500;
/** As many as the API gives: a class that one of them puts first may be far down for the other. */
const N_GUESSES = 20;

class Page {
  /** @param {PageData} data */
  constructor(data) {
    this.data = data;
    /** @type {Answers<CompareCard>} */
    this.answers = new Answers(
      (card, signal) => this.#ask(card, signal),
      () => {},
    );
    this.sides = new Sides(found("[data-choice]", HTMLFormElement), data.sides, () => this.answers.again());
    this.bring = new Bring(found("[data-bring]", HTMLElement), data, (chosen) => this.#take(chosen));
    document.addEventListener("click", (event) => this.#onClick(event));
    if (data.sample) this.#take([{ image: { ...data.sample, file: null }, problem: null }]);
  }

  /** @param {import("./try/choice.js").Chosen[]} chosen */
  #take(chosen) {
    for (const { image, problem } of chosen) {
      this.answers.add(new CompareCard(image, (gone) => this.answers.remove(gone)), problem);
    }
  }

  /** A picture of those that differ: both are asked about it again, with all their guesses. @param {MouseEvent} event */
  #onClick(event) {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const pick = event.target instanceof Element ? event.target.closest("#gallery [data-pick]") : null;
    if (!(pick instanceof HTMLElement)) return;
    event.preventDefault();
    const { dataset, sample, name = "", truth = "", picture = "" } = pick.dataset;
    this.#take([
      { image: { name, truth, picture, file: null, dataset: Number(dataset), id: Number(sample) }, problem: null },
    ]);
    found("[data-answers]", HTMLElement).scrollIntoView({ behavior: "smooth" });
  }

  /**
   * @param {CompareCard} card
   * @param {AbortSignal} signal
   */
  async #ask(card, signal) {
    card.say("asking", "Asking both networks");
    const tell = () => card.say("asking", "Loading the networks. The first answers take some seconds");
    const [a, b] = await withPatience(LOADING_AFTER_MS, tell, async () => {
      const told = [];
      for (const side of this.sides.chosen) told.push(await this.#told(side, card, signal));
      return told;
    });
    if (a && b && !signal.aborted && this.answers.cards.includes(card)) card.show(a, b);
  }

  /**
   * @param {Side} side
   * @param {CompareCard} card
   * @param {AbortSignal} signal
   * @returns {Promise<Told>}
   */
  async #told({ name, query, why_not }, card, signal) {
    if (!query) return { name, answer: null, why_not };
    const response = await ask(this.data.asked.predict, card.image, { ...query, top: N_GUESSES }, signal);
    /** @type {import("./try/asking.js").Answer} */
    const told = await response.json();
    return { name, answer: told.images[0] ?? null, why_not: "" };
  }
}

new Page(JSON.parse(found("#compare-data", HTMLScriptElement).textContent ?? "{}"));
