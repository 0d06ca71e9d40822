// @ts-check
/** The page where a network is tried: images come, answers follow one after the other, newest first. */

import { found, setText } from "./dom.js";
import { formatCount } from "./format.js";
import { AskError, ask, withQuery } from "./try/asking.js";
import { Bring } from "./try/bring.js";
import { Card } from "./try/card.js";
import { Chooser } from "./try/chooser.js";
import { LayersView } from "./try/layers.js";
import { Queue } from "./try/queue.js";

/** @typedef {import("./try/asking.js").TriedImage} TriedImage */
/**
 * @typedef {{page: string, layers_page: string, checkpoints_page: string, classify_page: string,
 *   asked: {predict: string, explain: string, layers: string, "layer-tiles": string}, classes: string[],
 *   sample: {dataset: number, id: number, name: string, truth: string, picture: string} | null,
 *   at_once: number, most_bytes: number}} PageData
 */

/** After this long without the network in memory, the wait is explained. */
const LOADING_AFTER_MS = 500;

class Page {
  /** @type {Card[]} */
  #cards = [];
  /** Checkpoints that have answered on this page: the next answer is quick. @type {Set<number | null>} */
  #loaded = new Set();
  #asked = new AbortController();

  /** @param {PageData} data */
  constructor(data) {
    this.data = data;
    this.root = found("[data-try]", HTMLElement);
    this.list = found("[data-cards]", HTMLElement);
    this.queue = new Queue(
      (/** @type {Card} */ card) => this.#ask(card),
      (error) => this.#hold(error),
    );
    this.chooser = new Chooser(data.checkpoints_page, () => this.#showEmpty());
    this.layers = new LayersView(found("[data-layers]", HTMLElement), data.asked);
    this.bring = new Bring(found("[data-bring]", HTMLElement), data, (chosen) => this.#take(chosen));
    this.#listen();
    this.#openNamed();
  }

  #listen() {
    found("[data-clear]", HTMLElement).addEventListener("click", () => this.#clear());
    found("[data-problem-retry]", HTMLElement).addEventListener("click", () => {
      found("[data-problem]", HTMLElement).hidden = true;
      this.queue.resume();
    });
    found("[data-layers-close]", HTMLElement).addEventListener("click", () => {
      history.pushState(null, "", this.data.page);
      this.#showAnswers();
    });
    window.addEventListener("popstate", () => {
      const { current } = this.layers;
      if (location.pathname !== this.data.layers_page) this.#showAnswers();
      else if (current) this.#showLayers(current.image, current.checkpoint);
    });
  }

  /** What the address asks for. */
  #openNamed() {
    const { sample } = this.data;
    if (!sample) return;
    const image = { ...sample, file: null };
    const checkpoint = new URLSearchParams(location.search).get("checkpoint");
    if (location.pathname !== this.data.layers_page) this.#take([{ image, problem: null }]);
    else this.#showLayers(image, checkpoint && /^\d{1,15}$/.test(checkpoint) ? Number(checkpoint) : null);
  }

  #showEmpty() {
    found("[data-no-checkpoint]", HTMLElement).hidden = !this.chooser.isEmpty;
  }

  /** @param {import("./try/choice.js").Chosen[]} chosen */
  #take(chosen) {
    this.root.querySelector("[data-nothing-open]")?.remove();
    if (!this.layers.root.hidden) {
      history.pushState(null, "", this.data.page);
      this.#showAnswers();
    }
    for (const { image, problem } of chosen) {
      const card = new Card(image, {
        classes: this.data.classes,
        remove: (gone) => this.#remove(gone),
        layers: (of) => this.#openLayers(of),
        layersAddress: (of) => this.#layersAddress(of),
        explain: (...wish) => this.#explain(...wish),
      });
      this.#cards.push(card);
      this.list.prepend(card.root);
      if (problem) card.refuse(problem);
      else this.queue.add(card);
    }
    this.#showCount();
  }

  /** Answers one card; fails only where the next one would fail too. @param {Card} card */
  async #ask(card) {
    const checkpoint = this.chooser.chosen;
    const { signal } = this.#asked;
    const began = performance.now();
    card.say("asking", "Asking the network");
    const slow = window.setTimeout(() => {
      const loads = !this.#loaded.has(checkpoint);
      card.say(
        "asking",
        loads ? "Loading the network. The first answer takes some seconds" : "Still asking the network",
      );
    }, LOADING_AFTER_MS);
    try {
      const answer = await ask(this.data.asked.predict, card.image, { checkpoint }, signal);
      const told = await answer.json();
      this.#loaded.add(checkpoint);
      if (this.#cards.includes(card)) card.show(told, performance.now() - began);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof AskError && error.isOfImage)) {
        card.say("waiting", "Waiting");
        throw error;
      }
      card.refuse(error);
    } finally {
      window.clearTimeout(slow);
    }
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
    // A run that goes on may have replaced the checkpoint that was chosen.
    if ([404, 409].includes(known.status)) this.chooser.refresh();
  }

  /** @param {Card} card */
  #remove(card) {
    this.queue.remove(card);
    this.#cards = this.#cards.filter((each) => each !== card);
    card.leave();
    if (!this.queue.length) found("[data-problem]", HTMLElement).hidden = true;
    this.#showCount();
  }

  #clear() {
    this.#asked.abort();
    this.#asked = new AbortController();
    this.queue.clear();
    for (const card of this.#cards) card.leave();
    this.#cards = [];
    found("[data-problem]", HTMLElement).hidden = true;
    this.#showCount();
    found("[data-choose]", HTMLElement).focus();
  }

  #showCount() {
    const n = this.#cards.length;
    found("[data-answers]", HTMLElement).hidden = !n;
    setText(found("[data-answers-title]", HTMLElement), n === 1 ? "One image" : `${formatCount(n)} images`);
    const left = this.queue.length;
    setText(found("[data-answers-hint]", HTMLElement), left > 1 ? `${formatCount(left)} to come` : "");
  }

  /** @type {import("./try/why.js").Explain} */
  async #explain(image, checkpoint, label, signal) {
    return (await ask(this.data.asked.explain, image, { checkpoint, label }, signal)).json();
  }

  /** Only an image of a dataset has an address of its own. @param {Card} card */
  #layersAddress({ image, answer }) {
    if (image.file) return this.data.layers_page;
    const checkpoint = answer?.checkpoint.id ?? null;
    return withQuery(this.data.layers_page, { dataset: image.dataset, sample: image.id, checkpoint });
  }

  /** @param {Card} card */
  #openLayers(card) {
    history.pushState(null, "", this.#layersAddress(card));
    this.#showLayers(card.image, card.answer?.checkpoint.id ?? null);
  }

  /**
   * @param {TriedImage} image
   * @param {number | null} checkpoint
   */
  #showLayers(image, checkpoint) {
    this.root.hidden = true;
    this.layers.open(image, checkpoint);
  }

  #showAnswers() {
    const { current } = this.layers;
    this.layers.close();
    this.root.hidden = false;
    const card = this.#cards.find(({ image }) => image === current?.image);
    card?.root.scrollIntoView({ block: "nearest" });
    card?.root.focus({ preventScroll: true });
  }
}

new Page(JSON.parse(found("#try-data", HTMLScriptElement).textContent ?? "{}"));
