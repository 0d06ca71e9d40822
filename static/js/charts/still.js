// @ts-check
/** What charts that a person does not zoom have in common. Pure. */

/** @typedef {import("./figure.js").Palette} Palette */

/** @param {Palette} palette */
export function stillLayout(palette) {
  return {
    autosize: false,
    showlegend: false,
    hovermode: "closest",
    dragmode: false,
    font: { family: palette.font, size: 11, color: palette.muted },
    hoverlabel: { bgcolor: palette.surface, bordercolor: palette.line, font: { color: palette.text }, align: "left" },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
  };
}
