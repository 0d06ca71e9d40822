// @ts-check
/** The little of plotly.js that is used, with types. It comes as a classic script, after the modules. */

/**
 * @typedef {{
 *   react: (element: HTMLElement, data: object[], layout: object, config: object) => Promise<unknown>,
 *   downloadImage: (figure: {data: object[], layout: object}, options: object) => Promise<string>,
 *   purge: (element: HTMLElement) => void,
 * }} Plotly
 */
/**
 * What plotly adds to the element it draws in.
 * @typedef {HTMLElement & {on: (event: string, listener: (detail: Record<string, unknown> | null) => void) => void}} PlotElement
 */

/**
 * @param {Document} document
 * @returns {Promise<Plotly>}
 */
export function plotlyLoaded(document) {
  const present = loaded();
  if (present) return Promise.resolve(present);
  const script = document.querySelector("script[data-plotly]");
  return new Promise((resolve, reject) => {
    script?.addEventListener("load", () => {
      const plotly = loaded();
      if (plotly) resolve(plotly);
    });
    script?.addEventListener("error", () => reject(new Error("plotly.js could not be loaded")));
  });
}

/** @returns {Plotly | undefined} */
function loaded() {
  return /** @type {{Plotly?: Plotly}} */ (/** @type {unknown} */ (globalThis)).Plotly;
}

/**
 * Plotly reads `<b>` and `<a href>` in every text it is given; escaped, they are shown as they were typed.
 * @param {string} text
 */
export function escapeText(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
