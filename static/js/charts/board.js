// @ts-check
/** All charts of a page: which there are, when they are drawn, and what they share (axis, smoothing, zoom, crosshair). */

import { addressOf } from "../addresses.js";
import { element } from "../dom.js";
import { domainOf } from "./axis.js";
import { Card } from "./card.js";
import { panelsFor } from "./index.js";
import { Pacer } from "./pacer.js";
import { readPalette } from "./palette.js";

/** @typedef {import("../store.js").RunStore} RunStore */
/** @typedef {import("./axis.js").Range} Range */
/** @typedef {import("./axis.js").XAxis} XAxis */
/** @typedef {import("./panels.js").Panel} Panel */
/** @typedef {import("./plotly.js").Plotly} Plotly */
/** `groups` hold the cards. @typedef {{jobId: number, groups: Record<Panel["group"], HTMLElement>}} Place */

export class Board {
  /** @type {XAxis} */
  x = "step";
  smoothing = 0;
  /** @type {Range | null} */
  window = null;
  /** The run has ended: nothing is waited for any more. */
  ended = false;
  /** @type {Map<string, Card>} */
  cards = new Map();
  #store;
  #place;
  #seriesKnown = "";
  /** @type {Plotly | null} */
  #plotly = null;
  #palette = readPalette();
  #pacer;
  #touch = matchMedia("(pointer: coarse)").matches;
  /** Charts that are about to be scrolled into view are drawn before they are there. */
  #sight = new IntersectionObserver((entries) => this.#onSight(entries), { rootMargin: "400px 0px" });
  #sizes = new ResizeObserver(() => this.redraw());
  #onZoom;

  /**
   * @param {RunStore} store
   * @param {Place} place
   * @param {(zoomed: boolean) => void} onZoom
   */
  constructor(store, place, onZoom) {
    this.#store = store;
    this.#place = place;
    this.#onZoom = onZoom;
    this.#pacer = new Pacer(() => this.#draw(), {
      now: () => performance.now(),
      setTimer: (run, delay_ms) => setTimeout(run, delay_ms),
      nextFrame: (run) => requestAnimationFrame(run),
    });
    document.addEventListener("fovea:theme", () => this.#recolour());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#recolour());
    this.#syncCards();
  }

  /** @param {Plotly} plotly */
  begin(plotly) {
    this.#plotly = plotly;
    this.redraw();
  }

  redraw() {
    this.#pacer.request();
  }

  /** @param {XAxis} x */
  setX(x) {
    this.x = x;
    this.zoom(null);
  }

  /** @param {number} smoothing */
  setSmoothing(smoothing) {
    this.smoothing = smoothing;
    this.redraw();
  }

  /**
   * Shows a part of the horizontal axis on all charts; null shows everything again, vertically too.
   * @param {Range | null} window
   */
  zoom(window) {
    this.window = window;
    if (window === null) for (const card of this.cards.values()) card.yWindow = null;
    this.#onZoom(window !== null);
    this.redraw();
  }

  #draw() {
    this.#syncCards();
    if (!this.#plotly) return;
    const domain = domainOf(this.#store, this.x, this.ended);
    const view = { x: this.x, smoothing: this.smoothing, window: this.window, domain };
    for (const card of this.cards.values()) card.draw({ view, palette: this.#palette, plotly: this.#plotly });
    // For measurements: everything up to this event is on the screen, as far as it is in sight.
    document.dispatchEvent(new CustomEvent("fovea:drawn", { detail: { seq: this.#store.lastSeq } }));
  }

  /** A series that was not there before may need a line or a chart. */
  #syncCards() {
    const names = new Set(this.#store.series.keys());
    const known = [...names].join("\n");
    if (known === this.#seriesKnown && this.cards.size > 0) return;
    this.#seriesKnown = known;
    for (const panel of panelsFor(names)) {
      const card = this.cards.get(panel.id);
      if (card) card.setPanel(panel);
      else this.cards.set(panel.id, this.#mount(panel));
    }
  }

  /** @param {Panel} panel */
  #mount(panel) {
    const group = this.#place.groups[panel.group];
    const prepared = group.querySelector(`[data-panel="${CSS.escape(panel.id)}"]`);
    const root =
      prepared instanceof HTMLElement ? prepared : element("section", { class: "card chart", "data-panel": panel.id });
    if (!prepared) group.append(root);
    const card = new Card(root, panel, this.#store, {
      redraw: () => this.redraw(),
      zoom: (window) => this.zoom(window),
      point: (x, origin) => this.#point(x, origin),
      csvUrl: (series) =>
        addressOf(`/api/v1/jobs/${this.#place.jobId}/curves.csv?series=${encodeURIComponent(series.join(","))}`),
      fileName: (shown) => `run-${this.#place.jobId}-${shown.id}`,
      ended: () => this.ended,
      touch: this.#touch,
    });
    this.#sight.observe(root);
    this.#sizes.observe(root);
    return card;
  }

  /**
   * @param {number | null} x
   * @param {Card | null} origin
   */
  #point(x, origin) {
    const snapped = x === null || origin === null ? x : origin.snap(x);
    for (const card of this.cards.values()) if (card.visible) card.point(snapped, origin);
  }

  /** @param {IntersectionObserverEntry[]} entries */
  #onSight(entries) {
    for (const entry of entries) {
      const id = entry.target instanceof HTMLElement ? (entry.target.dataset.panel ?? "") : "";
      const card = this.cards.get(id);
      if (card) card.visible = entry.isIntersecting;
    }
    this.redraw();
  }

  #recolour() {
    this.#palette = readPalette();
    this.redraw();
  }
}
