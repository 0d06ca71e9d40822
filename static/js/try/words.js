// @ts-check
/** Sentences and numbers of an answer. */

import { formatValue } from "../format.js";

const NARROW_SPACE = "\u202f";

/** @param {number} share 0 to 1 */
export function shareText(share) {
  const percent = share * 100;
  if (percent > 0 && percent < 0.1) return `<${NARROW_SPACE}0.1${NARROW_SPACE}%`;
  if (percent > 99.9 && percent < 100) return `>${NARROW_SPACE}99.9${NARROW_SPACE}%`;
  return `${percent.toFixed(1)}${NARROW_SPACE}%`;
}

/** @param {number} ms */
export function msText(ms) {
  if (ms >= 1000) return `${(ms / 1000).toFixed(1)} s`;
  return `${ms >= 10 ? Math.round(ms) : ms.toFixed(1)} ms`;
}

/**
 * @param {import("./asking.js").Answer} answer
 * @param {import("./asking.js").ImageAnswer} image
 * @param {number} whole_ms from the question to the answer, as this page measured it
 */
export function factsText(answer, image, whole_ms) {
  const { load_ms } = answer;
  const facts = [
    `${image.width} × ${image.height} px`,
    `network ${msText(image.forward_ms)}`,
    `in all ${msText(whole_ms)}`,
    networkText(answer),
  ];
  if (load_ms >= 1) facts.splice(3, 0, "with loading the network");
  return facts.join(" · ");
}

/** What answered. @param {Pick<import("./asking.js").Answer, "checkpoint" | "export">} answer */
export function networkText({ checkpoint, export: exported }) {
  if (checkpoint) return `${checkpoint.name}, epoch ${formatValue(checkpoint.epoch)}`;
  if (!exported) return "";
  return exported.checkpoint ? `${exported.name} of ${exported.checkpoint}` : exported.name;
}

/** What an overlay shows, and what it does not. @param {{class_name: string, probability: number, layer: string, heat: number[][]}} found */
export function whySentence({ class_name, probability, layer, heat }) {
  const [rows, columns] = [heat.length, heat[0]?.length ?? 0];
  const where = `Grad-CAM at ${layer}, ${columns} × ${rows} places`;
  if (!heat.some((row) => row.some((value) => value > 0))) {
    return `Nothing in this image speaks for “${class_name}” (${shareText(probability)}), by ${where}.`;
  }
  return (
    `Bright places raised “${class_name}” (${shareText(probability)}) most, by ${where}: ` +
    "it tells where, as finely as that layer can, but neither what was seen there nor whether the answer is right."
  );
}

/** @param {readonly number[]} shape */
export function shapeText(shape) {
  return shape.length ? shape.join(" × ") : "1";
}
