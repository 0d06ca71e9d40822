// @ts-check
/** What a chart is: a declaration. `figure.js` turns it into something to draw, `card.js` puts it on the page. */

/**
 * `colour` is the number of a `--series-n` token.
 * @typedef {{series: string, label: string, colour: number, dash?: "solid" | "dash" | "dot"}} Line
 */
/**
 * - `unit`: that of all lines. - `smooth`: whether the slider applies. - `zero`: whether the axis begins at zero.
 * - `range`: a fixed axis. - `best`: the series on which the best checkpoint is marked.
 * @typedef {{id: string, title: string, group: "training" | "system", unit: string, lines: Line[],
 *   smooth?: boolean, zero?: boolean, range?: [number, number], best?: string}} Panel
 */
/**
 * `panels` is given the names of the series that there are, and answers with the charts to show. It names every
 * series that it draws, so that what nobody draws can be shown too.
 * @typedef {{kind: string, panels: (names: ReadonlySet<string>) => Panel[]}} ChartKind
 */

/**
 * @param {ReadonlySet<string>} names
 * @param {Line[]} lines
 */
export function presentLines(names, lines) {
  return lines.filter((line) => names.has(line.series));
}

export const N_COLOURS = 8;

/** A fixed axis from nothing to all, with room for a line at 100. @type {[number, number]} */
export const PERCENT = [0, 103];
