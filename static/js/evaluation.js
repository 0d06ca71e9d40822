// @ts-check
/** The page of an evaluation: its charts, the table of classes, and the pictures behind every number. */

import { plotlyLoaded } from "./charts/plotly.js";
import { Plot } from "./dataset/plot.js";
import { found } from "./dom.js";
import { AnswerView } from "./evaluation/answer.js";
import { ClassTable } from "./evaluation/classes.js";
import { MatrixPanel } from "./evaluation/matrix_panel.js";
import { reliabilityFigure } from "./evaluation/reliability.js";
import { toast } from "./main.js";

/** @typedef {import("./evaluation/confusion.js").ClassScore} ClassScore */
/** @typedef {import("./evaluation/confusion.js").Pair} Pair */
/** @typedef {import("./evaluation/reliability.js").Bin} Bin */
/** @typedef {{split: string, classes: ClassScore[], confusion: Pair[], reliability: Bin[]}} Split */

const RELIABILITY_HEIGHT_PX = 300;
const charts = found("[data-report]", HTMLElement);
const filter = found("[data-images-filter]", HTMLFormElement);
const dialog = document.querySelector("#answer");
const view = dialog instanceof HTMLDialogElement ? new AnswerView(dialog) : null;

/** Back and forward load the page anew: a copy that htmx kept would hold dead charts. */
Object.assign(/** @type {{config: object}} */ (/** @type {unknown} */ (htmx)).config, { refreshOnHistoryMiss: true });

/** @param {MouseEvent} event */
function onClick(event) {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const target = event.target instanceof Element ? event.target : null;
  const tile = target?.closest("a[data-place]");
  if (tile && view) {
    event.preventDefault();
    view.open(Number(tile.getAttribute("data-place")));
  }
  const link = target?.closest("a[data-images]");
  if (link instanceof HTMLAnchorElement) {
    event.preventDefault();
    showImages(new URL(link.href).searchParams);
  }
}

/**
 * Puts a wish into the filter, so that both say the same, and the pictures into sight.
 * @param {URLSearchParams} wanted
 */
function showImages(wanted) {
  const ofClasses = wanted.has("label") || wanted.has("predicted");
  const usual = { label: "", predicted: "", q: "", sort: "-loss", wrong: ofClasses ? "all" : "true" };
  for (const [name, value] of Object.entries(usual)) {
    const field = filter.elements.namedItem(name);
    if (field instanceof HTMLInputElement || field instanceof HTMLSelectElement) {
      field.value = wanted.get(name) ?? value;
    }
  }
  htmx.trigger(filter, "submit");
  found("#images", HTMLElement).scrollIntoView({ behavior: "smooth" });
}

/** @param {Event} event */
function onImageError(event) {
  const image = event.target;
  if (!(image instanceof HTMLImageElement) || !image.matches("#gallery .shot-image")) return;
  const none = document.createElement("span");
  none.className = "shot-image shot-hidden";
  none.textContent = "no picture";
  image.replaceWith(none);
}

async function mountCharts() {
  const { report = "", split = "" } = charts.dataset;
  const [plotly, response] = await Promise.all([plotlyLoaded(document), fetch(report)]);
  if (!response.ok) throw new Error(`${report}: ${response.status}`);
  /** @type {{splits: Split[]}} */
  const { splits } = await response.json();
  const shown = splits.find((each) => each.split === split);
  if (!shown) throw new Error(`${report} has no split ${split}`);
  new MatrixPanel(shown, plotly, (label, predicted) => {
    showImages(new URLSearchParams({ label: String(label), predicted: String(predicted) }));
  });
  new Plot(found("[data-reliability-plot]", HTMLElement), plotly, (palette, width) =>
    reliabilityFigure(shown.reliability, palette, { width, height: RELIABILITY_HEIGHT_PX }),
  );
}

new ClassTable();
document.addEventListener("click", onClick);
// It does not bubble.
document.addEventListener("error", onImageError, true);
mountCharts().catch(() => toast("The charts could not be drawn. Reload the page to try again.", "error"));
