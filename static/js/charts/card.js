// @ts-check
/** One chart on the page: title, legend, plot, crosshair, and what can be done with it. */

import { element, setText } from "../dom.js";
import { formatWithUnit } from "../format.js";
import { labelling } from "./axis.js";
import { Crosshair } from "./crosshair.js";
import { momentText, nearestIndex, nearestPoint } from "./cursor.js";
import { contentOf, figureOf, standAlone } from "./figure.js";
import { Legend } from "./legend.js";

/** @typedef {import("../store.js").RunStore} RunStore */
/** @typedef {import("./axis.js").Range} Range */
/** @typedef {import("./figure.js").Palette} Palette */
/** @typedef {import("./figure.js").View} View */
/** @typedef {import("./panels.js").Panel} Panel */
/** @typedef {import("./plotly.js").Plotly} Plotly */
/** @typedef {import("./plotly.js").PlotElement} PlotElement */
/**
 * What a chart asks of the board that holds it.
 * @typedef {{redraw: () => void, zoom: (window: Range | null) => void,
 *   point: (x: number | null, origin: Card | null) => void, csvUrl: (series: string[]) => string,
 *   fileName: (panel: Panel) => string, ended: () => boolean, touch: boolean}} Holder
 */
/** @typedef {{view: View, palette: Palette, plotly: Plotly}} Means */

const CONFIG = { displayModeBar: false, doubleClick: false, showTips: false, responsive: false };
const EXPORT_SCALE = 2;

export class Card {
  visible = false;
  log = false;
  /** @type {Range | null} */
  yWindow = null;
  #root;
  #panel;
  #store;
  #holder;
  #plot = /** @type {PlotElement} */ (/** @type {HTMLElement} */ (element("div", { class: "chart-plot" })));
  #stage = element("div", { class: "chart-stage", tabindex: "0", role: "group" });
  #empty = element("div", { class: "chart-empty muted" });
  #logButton = element("button", { type: "button", class: "chart-toggle", "aria-pressed": "false" }, "log");
  #csv = element("a", { class: "menu-item", download: "" }, "Data (CSV)");
  #legend;
  #crosshair;
  /** @type {import("./figure.js").Content} */
  #content = { curves: [], best: null, resumes: [] };
  /** @type {Means | null} */
  #drawnWith = null;
  #drawnStamp = "";
  #listening = false;

  /**
   * @param {HTMLElement} root
   * @param {Panel} panel
   * @param {RunStore} store
   * @param {Holder} holder
   */
  constructor(root, panel, store, holder) {
    this.#root = root;
    this.#panel = panel;
    this.#store = store;
    this.#holder = holder;
    this.#legend = new Legend(() => holder.redraw());
    this.#stage.append(this.#plot, this.#empty);
    this.#crosshair = new Crosshair(
      this.#stage,
      {
        range: () => this.#range(),
        point: (x) => holder.point(x, x === null ? null : this),
        step: (from, direction, coarse) => this.#neighbour(from, direction, coarse),
      },
      () => holder.redraw(),
    );
    this.#build();
    this.setPanel(panel);
  }

  get root() {
    return this.#root;
  }

  get id() {
    return this.#panel.id;
  }

  get hidden() {
    return this.#legend.hidden;
  }

  /**
   * The same chart, perhaps with other lines: a series may have appeared.
   * @param {Panel} panel
   */
  setPanel(panel) {
    this.#panel = panel;
    this.#legend.setLines(panel.lines);
    this.#csv.href = this.#holder.csvUrl(panel.lines.map((line) => line.series));
    this.#drawnStamp = "";
  }

  /** @param {boolean} log */
  setLog(log) {
    this.log = log;
    this.yWindow = null;
    this.#logButton.setAttribute("aria-pressed", String(log));
    this.#holder.redraw();
  }

  /** @param {Means} means */
  draw(means) {
    if (!this.visible || this.#crosshair.pressed) return;
    const stamp = this.#stampOf(means);
    if (stamp === this.#drawnStamp) return;
    this.#drawnStamp = stamp;
    this.#drawnWith = means;
    this.#content = contentOf(this.#panel, this.#store, means.view);
    const empty = this.#content.curves.length === 0;
    this.#empty.hidden = !empty;
    setText(this.#empty, this.#holder.ended() ? "No points were recorded" : "Waiting for the first point");
    if (!empty) this.#plotIt(means);
    const { best } = this.#content;
    this.#legend.setBest(best ? formatWithUnit(best.y, this.#panel.unit) : "");
    this.point(null, null);
  }

  /**
   * Puts the crosshair at a position and the values of that moment into the legend; null takes it away and shows the
   * newest values.
   * @param {number | null} x
   * @param {Card | null} origin the chart that is pointed at
   */
  point(x, origin) {
    const nearest = x === null ? null : nearestPoint(this.#content.curves, x);
    for (const curve of this.#content.curves) {
      const index = x === null ? curve.raw.findLastIndex((value) => value !== null) : nearestIndex(curve.xs, x);
      this.#legend.setValue(curve.line.series, formatWithUnit(curve.raw[index], this.#panel.unit));
    }
    const named = nearest && origin === this;
    this.#crosshair.show(x, named ? momentText(this.#store, nearest.curve.line.series, nearest.index) : "");
  }

  /**
   * The position of the measured point that is nearest to where the pointer is.
   * @param {number} x
   */
  snap(x) {
    return nearestPoint(this.#content.curves, x)?.x ?? x;
  }

  #build() {
    const unit = element("span", { class: "chart-unit" }, this.#panel.unit);
    const title = element("h3", { class: "chart-title" }, this.#panel.title, " ", unit);
    const tools = element("div", { class: "chart-tools" }, this.#logButton, this.#menu());
    this.#logButton.title = "Logarithmic vertical axis";
    this.#logButton.addEventListener("click", () => this.setLog(!this.log));
    this.#stage.setAttribute("aria-label", `Chart of ${this.#panel.title}; arrow keys move the cursor`);
    this.#root.replaceChildren(
      element("header", { class: "chart-head" }, title, tools),
      this.#legend.root,
      this.#stage,
    );
  }

  #menu() {
    const summary = element("summary", { class: "chart-toggle", "aria-label": `More for ${this.#panel.title}` }, "⋯");
    const picture = element("button", { type: "button", class: "menu-item" }, "Picture (PNG)");
    const full = element("button", { type: "button", class: "menu-item" }, "Full screen");
    const log = element("button", { type: "button", class: "menu-item" }, "Logarithmic axis");
    log.addEventListener("click", () => this.setLog(!this.log));
    picture.addEventListener("click", () => void this.#savePicture());
    full.addEventListener("click", () => void this.#root.requestFullscreen());
    const items = element("div", { class: "menu-items" }, log, picture, this.#csv, full);
    return element("details", { class: "menu" }, summary, items);
  }

  #range() {
    return this.#drawnWith ? (this.#drawnWith.view.window ?? this.#drawnWith.view.domain) : null;
  }

  /** @param {Means} means */
  #plotIt(means) {
    const { data, layout } = this.#figure(means);
    void means.plotly.react(this.#plot, data, this.#holder.touch ? withoutDrag(layout) : layout, CONFIG);
    if (this.#listening) return;
    this.#listening = true;
    this.#plot.on("plotly_relayout", (change) => this.#onZoom(change ?? {}));
    this.#plot.on("plotly_doubleclick", () => this.#holder.zoom(null));
  }

  /** @param {Means} means */
  #figure({ view, palette }) {
    const size = { width: this.#stage.clientWidth, height: this.#stage.clientHeight };
    return figureOf(this.#panel, this.#content, this.#store, view, this, palette, size);
  }

  /**
   * Everything that the picture depends on, so that an equal picture is not drawn twice.
   * @param {Means} means
   */
  #stampOf({ view, palette }) {
    const revisions = this.#panel.lines.map((line) => this.#store.series.get(line.series)?.revision ?? 0);
    const { attempts, best } = this.#store;
    const size = [this.#stage.clientWidth, this.#stage.clientHeight];
    const own = [this.log, [...this.hidden], this.yWindow, this.#holder.ended()];
    return JSON.stringify([revisions, attempts.length, best?.step, view, own, size, palette]);
  }

  /** @param {Record<string, unknown>} change */
  #onZoom(change) {
    if (!this.#drawnWith) return;
    const { view } = this.#drawnWith;
    const y = rangeIn(change, "yaxis");
    if (y) this.yWindow = y;
    const x = rangeIn(change, "xaxis");
    const { divisor } = labelling(view.x, view.domain[1], this.#store);
    if (x || y) this.#holder.zoom(x ? [x[0] * divisor, x[1] * divisor] : view.window);
  }

  /**
   * The next point, and at least a hundredth of what is shown further.
   * @param {number} from
   * @param {-1 | 1} direction
   * @param {boolean} coarse
   */
  #neighbour(from, direction, coarse) {
    const range = this.#range() ?? [0, 1];
    const far = from + (direction * (range[1] - range[0])) / (coarse ? 10 : 100);
    const xs = this.#content.curves[0]?.xs ?? [];
    const next = xs[nearestIndex(xs, from) + direction] ?? from;
    return direction > 0 ? Math.max(next, far) : Math.min(next, far);
  }

  async #savePicture() {
    const means = this.#drawnWith;
    if (!means || this.#content.curves.length === 0) return;
    const title = [this.#panel.title, this.#panel.unit].filter(Boolean).join(", ");
    const figure = standAlone(this.#figure(means), title, means.palette);
    const { width, height } = figure.layout;
    const filename = this.#holder.fileName(this.#panel);
    await means.plotly.downloadImage(figure, { format: "png", scale: EXPORT_SCALE, width, height, filename });
  }
}

/**
 * @param {Record<string, unknown>} change
 * @param {"xaxis" | "yaxis"} axis
 * @returns {Range | null}
 */
function rangeIn(change, axis) {
  const [start, end] = [change[`${axis}.range[0]`], change[`${axis}.range[1]`]];
  return typeof start === "number" && typeof end === "number" ? [start, end] : null;
}

/**
 * On a touch screen a drag scrolls the page.
 * @param {Record<string, unknown>} layout
 */
function withoutDrag(layout) {
  const { xaxis, yaxis } = /** @type {{xaxis: object, yaxis: object}} */ (/** @type {unknown} */ (layout));
  const fixed = { fixedrange: true };
  return { ...layout, dragmode: false, xaxis: { ...xaxis, ...fixed }, yaxis: { ...yaxis, ...fixed } };
}
