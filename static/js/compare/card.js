// @ts-check
/** One image with the answers of both: class by class, how much they differ, and how long each took. */

import { element, setText } from "../dom.js";
import { ImageCard } from "../try/image_card.js";
import { msText, shareText } from "../try/words.js";
import { alignedRows, largestDifference, pointsText } from "./rows.js";

/** @typedef {import("../try/asking.js").TriedImage} TriedImage */
/** @typedef {import("../try/asking.js").ImageAnswer} ImageAnswer */
/** `answer` is null where it could not be asked. @typedef {{name: string, answer: ImageAnswer | null, why_not: string}} Told */

const N_CLASSES = 5;

export class CompareCard extends ImageCard {
  #spoken = "";

  /**
   * @param {TriedImage} image
   * @param {(card: CompareCard) => void} remove
   */
  constructor(image, remove) {
    super(image, "#compare-card");
    this.root.addEventListener("click", (event) => {
      if (event.target instanceof Element && event.target.closest('[data-do="remove"]')) remove(this);
    });
  }

  /** The words of both first guesses, or why there are none. */
  get spoken() {
    return this.#spoken || super.spoken;
  }

  /** @param {Told} a @param {Told} b */
  show(a, b) {
    const answers = [a, b].flatMap(({ answer }) => (answer ? [answer] : []));
    const problem = answers.find(({ error }) => error)?.error;
    const [first] = answers;
    if (problem || !first) return this.refuse(problem ?? { message: a.why_not, hint: b.why_not });
    this.showImage(first);
    this.part("table").hidden = false;
    this.#showHead("a", a);
    this.#showHead("b", b);
    const rows = alignedRows(a.answer?.top ?? [], b.answer?.top ?? [], N_CLASSES);
    this.part("rows").replaceChildren(...rows.map((row) => this.#rowOf(row, a, b)));
    setText(this.part("facts"), factsOf(first, a, b, largestDifference(rows)));
    const words = [a, b].map(({ name, answer }) => `${name} ${answer?.top[0]?.name ?? "was not asked"}`);
    this.#spoken = `${this.image.name}: ${words.join(", ")}`;
  }

  /**
   * @param {"a" | "b"} letter
   * @param {Told} told
   */
  #showHead(letter, { name, answer }) {
    setText(this.part(`name-${letter}`), name);
    this.judge(this.part(`verdict-${letter}`), answer?.top[0]?.name ?? "");
  }

  /**
   * @param {import("./rows.js").Row} row
   * @param {Told} a
   * @param {Told} b
   */
  #rowOf(row, a, b) {
    const name = element("th", { scope: "row" }, element("bdi", { class: "truncate", title: row.name }, row.name));
    if (this.image.truth === row.name) name.toggleAttribute("data-truth", true);
    const isFirst = (/** @type {Told} */ { answer }) => answer?.top[0]?.name === row.name;
    return element(
      "tr",
      {},
      name,
      cellOf("a", row.a, isFirst(a)),
      cellOf("b", row.b, isFirst(b)),
      element("td", { class: "num duel-points" }, pointsText(row)),
    );
  }
}

/**
 * @param {"a" | "b"} letter shown on a narrow screen, where the head is not above it
 * @param {number | null} share
 * @param {boolean} isFirst
 */
function cellOf(letter, share, isFirst) {
  const bar = element("progress", { class: "progress", max: "1", value: String(share ?? 0), "aria-hidden": "true" });
  const words = element("span", { class: "num" }, share === null ? "\u2013" : shareText(share));
  const which = element("span", { class: `compare-letter compare-${letter} duel-letter` }, letter.toUpperCase());
  const made = element("td", { class: `duel-${letter}` }, element("div", { class: "duel-share" }, which, bar, words));
  made.classList.toggle("duel-first", isFirst);
  return made;
}

/**
 * @param {ImageAnswer} image
 * @param {Told} a
 * @param {Told} b
 * @param {number | null} largest
 */
function factsOf(image, a, b, largest) {
  const took = [a, b].map(({ answer, why_not }, place) =>
    answer ? `${"AB"[place]} took ${msText(answer.forward_ms)}` : why_not,
  );
  const facts = [`${image.width} × ${image.height} px`, ...took];
  if (largest !== null) facts.push(`at most ${largest.toFixed(2)} points apart`);
  return facts.join(" · ");
}
