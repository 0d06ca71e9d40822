// @ts-check
/** The page where a network is tried: images come, answers follow one after the other, newest first. */

import { found } from "./dom.js";
import { Answers, withPatience } from "./try/answers.js";
import { ask, withQuery } from "./try/asking.js";
import { Bring } from "./try/bring.js";
import { Card } from "./try/card.js";
import { Chooser } from "./try/chooser.js";
import { LayersView } from "./try/layers.js";

/** @typedef {import("./try/asking.js").TriedImage} TriedImage */
/**
 * @typedef {{page: string, layers_page: string, networks_page: string, classify_page: string,
 *   asked: {predict: string, explain: string, layers: string, "layer-tiles": string}, classes: string[],
 *   sample: {dataset: number, id: number, name: string, truth: string, picture: string} | null,
 *   at_once: number, most_bytes: number}} PageData
 */

/** After this long without the network in memory, the wait is explained. */
const LOADING_AFTER_MS = 500;

class Page {
  /** Addresses that have answered on this page: the next answer is quick. @type {Set<string>} */
  #loaded = new Set();

  /** @param {PageData} data */
  constructor(data) {
    this.data = data;
    this.root = found("[data-try]", HTMLElement);
    /** @type {Answers<Card>} */
    this.answers = new Answers(
      (card, signal) => this.#ask(card, signal),
      // A run that goes on may have replaced the checkpoint that was chosen.
      (status) => [404, 409].includes(status) && this.chooser.refresh(),
    );
    this.chooser = new Chooser(data.networks_page, () => this.#showEmpty());
    this.layers = new LayersView(found("[data-layers]", HTMLElement), data.asked);
    this.bring = new Bring(found("[data-bring]", HTMLElement), data, (chosen) => this.#take(chosen));
    this.#listen();
    this.#openNamed();
  }

  #listen() {
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
        remove: (gone) => this.answers.remove(gone),
        layers: (of) => this.#openLayers(of),
        layersAddress: (of) => this.#layersAddress(of),
        explain: (...wish) => this.#explain(...wish),
      });
      this.answers.add(card, problem);
    }
  }

  /**
   * @param {Card} card
   * @param {AbortSignal} signal
   */
  async #ask(card, signal) {
    const network = this.chooser.chosen;
    const address = withQuery(this.data.asked.predict, network);
    const began = performance.now();
    card.say("asking", "Asking the network");
    const tell = () =>
      card.say(
        "asking",
        this.#loaded.has(address)
          ? "Still asking the network"
          : "Loading the network. The first answer takes some seconds",
      );
    const told = await withPatience(LOADING_AFTER_MS, tell, async () =>
      (await ask(this.data.asked.predict, card.image, network, signal)).json(),
    );
    this.#loaded.add(address);
    if (this.answers.cards.includes(card)) card.show(told, performance.now() - began);
  }

  /** @type {import("./try/why.js").Explain} */
  async #explain(image, checkpoint, label, signal) {
    return (await ask(this.data.asked.explain, image, { checkpoint, label }, signal)).json();
  }

  /** Only an image of a dataset has an address of its own. @param {Card} card */
  #layersAddress({ image, answer }) {
    if (image.file) return this.data.layers_page;
    const checkpoint = answer?.checkpoint?.id ?? null;
    return withQuery(this.data.layers_page, { dataset: image.dataset, sample: image.id, checkpoint });
  }

  /** @param {Card} card */
  #openLayers(card) {
    history.pushState(null, "", this.#layersAddress(card));
    this.#showLayers(card.image, card.answer?.checkpoint?.id ?? null);
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
    const card = this.answers.cards.find(({ image }) => image === current?.image);
    card?.root.scrollIntoView({ block: "nearest" });
    card?.root.focus({ preventScroll: true });
  }
}

new Page(JSON.parse(found("#try-data", HTMLScriptElement).textContent ?? "{}"));
