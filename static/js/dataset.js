// @ts-check
/** The page of a dataset: its charts, the filter of the gallery, and the picture that lies open. */

import { plotlyLoaded } from "./charts/plotly.js";
import { countsFigure, FIRST, heightOf, ordered, SPLITS } from "./dataset/counts.js";
import { Plot } from "./dataset/plot.js";
import { sizesFigure } from "./dataset/sizes.js";
import { Viewer } from "./dataset/viewer.js";
import { found, setText } from "./dom.js";
import { formatCount } from "./format.js";
import { toast } from "./main.js";

/** @typedef {import("./charts/plotly.js").Plotly} Plotly */
/** @typedef {import("./dataset/counts.js").ClassCount} ClassCount */
/** @typedef {import("./dataset/counts.js").Order} Order */

const SIZES_HEIGHT_PX = 300;
const viewer = new Viewer(found("#viewer", HTMLDialogElement));
const filter = found("[data-gallery-filter]", HTMLFormElement);

/** Back and forward load the page anew: a copy that htmx kept would hold dead charts. */
Object.assign(/** @type {{config: object}} */ (/** @type {unknown} */ (htmx)).config, { refreshOnHistoryMiss: true });

/** @param {MouseEvent} event */
function onClick(event) {
  const target = event.target instanceof Element ? event.target : null;
  const tile = target?.closest("a[data-sample]");
  if (tile && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey)) {
    event.preventDefault();
    viewer.open(Number(tile.getAttribute("data-sample")));
  }
  if (target?.closest("[data-gallery-clear]")) {
    event.preventDefault();
    showOnly({ split: "", class: "", q: "" });
  }
}

/** @param {Record<string, string>} wanted values of the filter's fields */
function showOnly(wanted) {
  for (const [name, value] of Object.entries(wanted)) {
    const field = filter.elements.namedItem(name);
    if (field instanceof HTMLInputElement || field instanceof HTMLSelectElement) field.value = value;
  }
  htmx.trigger(filter, "submit");
}

/** @param {string} what */
async function fetched(what) {
  const samples = found("#viewer", HTMLDialogElement).dataset.samples ?? "";
  const response = await fetch(samples.replace(/samples\/$/, what));
  if (!response.ok) throw new Error(`${what}: ${response.status}`);
  return response.json();
}

/** @param {Plotly} plotly */
async function mountCounts(plotly) {
  /** @type {ClassCount[]} */
  const classes = await fetched("classes");
  const order = found("[data-counts-order]", HTMLSelectElement);
  const log = found("[data-counts-log]", HTMLButtonElement);
  const all = found("[data-counts-all]", HTMLButtonElement);
  const root = found("[data-counts-plot]", HTMLElement);
  const least = root.parentElement?.clientHeight ?? 0;
  let limit = FIRST;
  const rows = () => ordered(classes, /** @type {Order} */ (order.value), limit);
  const isLog = () => log.getAttribute("aria-pressed") === "true";
  const present = SPLITS.filter(({ split }) => classes.some((each) => each.counts[split] !== undefined));
  const plot = new Plot(root, plotly, (palette, width) => {
    const shown = rows();
    const height = Math.max(least, heightOf(shown.length, present.length, isLog()));
    root.style.height = `${height}px`;
    return countsFigure(shown, isLog(), palette, { width, height, scrolls: height > least });
  });
  plot.onClick(({ curveNumber, pointNumber }) => {
    const row = rows()[pointNumber];
    const split = present[curveNumber];
    if (!row || !split) return;
    showOnly({ split: split.split, class: String(row.label), q: "" });
    found("#gallery-title", HTMLElement).scrollIntoView();
  });
  const showFoot = () => {
    const more = classes.length > FIRST;
    all.hidden = !more;
    setText(all, limit === FIRST ? `Show all ${formatCount(classes.length)} classes` : `Show ${FIRST} classes`);
  };
  order.addEventListener("change", () => plot.draw());
  log.addEventListener("click", () => {
    log.setAttribute("aria-pressed", String(!isLog()));
    plot.draw();
  });
  all.addEventListener("click", () => {
    limit = limit === FIRST ? classes.length : FIRST;
    showFoot();
    plot.draw();
  });
  showFoot();
}

/** @param {Plotly} plotly */
async function mountSizes(plotly) {
  const root = document.querySelector("[data-sizes-plot]");
  if (!(root instanceof HTMLElement)) return;
  /** @type {import("./dataset/sizes.js").ImageSizes} */
  const sizes = await fetched("sizes");
  if (sizes.bin_px > 1) {
    setText(found("[data-sizes-note]", HTMLElement), `counted in squares of ${sizes.bin_px} px`);
  }
  new Plot(root, plotly, (palette, width) => sizesFigure(sizes, palette, { width, height: SIZES_HEIGHT_PX }));
}

document.addEventListener("click", onClick);
const { image } = found("#viewer", HTMLDialogElement).dataset;
if (image && /^\d{1,15}$/.test(image)) viewer.open(Number(image));
plotlyLoaded(document)
  .then((plotly) => Promise.all([mountCounts(plotly), mountSizes(plotly)]))
  .catch(() => toast("The charts could not be drawn. Reload the page to try again.", "error"));
