// @ts-check

/**
 * The page's design tokens, so that charts and exported pictures follow the theme.
 * @returns {import("./figure.js").Palette}
 */
export function readPalette() {
  const style = getComputedStyle(document.documentElement);
  /** @param {string} token */
  const colour = (token) => style.getPropertyValue(`--${token}`).trim();
  return {
    text: colour("text"),
    muted: colour("text-muted"),
    line: colour("line"),
    surface: colour("surface"),
    ok: colour("ok"),
    font: colour("font"),
    series: [1, 2, 3, 4, 5, 6, 7, 8].map((number) => colour(`series-${number}`)),
  };
}
