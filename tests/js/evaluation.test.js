import assert from "node:assert/strict";
import { test } from "node:test";
import { verdictOf } from "../../static/js/evaluation/answer.js";
import { compared, valueIn } from "../../static/js/evaluation/classes.js";
import { matrixOf, mostConfused, sentenceOf, sharesOf } from "../../static/js/evaluation/confusion.js";
import {
  cellAt,
  geometryOf,
  heightOf,
  largest,
  matrixFigure,
  mixed,
  tickText,
} from "../../static/js/evaluation/matrix.js";
import { reliabilityFigure } from "../../static/js/evaluation/reliability.js";

const PALETTE = {
  text: "#000000",
  muted: "#555555",
  line: "#dddddd",
  surface: "#ffffff",
  ok: "#008800",
  font: "sans-serif",
  series: ["#0000ff", "#ff8800", "#3", "#4", "#5", "#6", "#7", "#8"],
};
const CLASSES = [
  { label: 0, name: "cat", support: 50 },
  { label: 1, name: "<b>dog</b>", support: 10 },
  { label: 2, name: "owl", support: 4 },
  { label: 3, name: "none", support: 0 },
];
const PAIRS = [
  { label: 0, predicted: 0, n_images: 8 },
  { label: 0, predicted: 1, n_images: 42 },
  { label: 1, predicted: 1, n_images: 9 },
  { label: 1, predicted: 2, n_images: 1 },
  { label: 2, predicted: 2, n_images: 4 },
];

test("the most confused classes are those in most mistakes, on either side, and stay in their order", () => {
  assert.deepEqual(mostConfused(PAIRS, 4, 1), [1], "43 mistakes, 42 of them as an answer");
  assert.deepEqual(mostConfused(PAIRS, 4, 2), [0, 1]);
  assert.deepEqual(mostConfused(PAIRS, 4, 3), [0, 1, 2]);
  assert.deepEqual(mostConfused(PAIRS, 4, 9), [0, 1, 2, 3]);
  assert.deepEqual(
    mostConfused([{ label: 2, predicted: 2, n_images: 99 }], 3, 2),
    [0, 1],
    "right answers do not count",
  );
});

test("a matrix holds the chosen classes alone, in rows of truth", () => {
  const matrix = matrixOf(PAIRS, CLASSES, [1, 2]);
  assert.deepEqual(matrix.counts, [
    [9, 1],
    [0, 4],
  ]);
  assert.deepEqual(matrix.totals, [10, 4]);
  assert.deepEqual(matrixOf(PAIRS, CLASSES, [0, 1]).counts[0], [8, 42]);
});

test("a share is of all images of the class, also of those in columns that are not shown, and never divided by 0", () => {
  assert.deepEqual(sharesOf(matrixOf(PAIRS, CLASSES, [0, 3])), [
    [0.16, 0],
    [0, 0],
  ]);
  assert.deepEqual(sharesOf(matrixOf(PAIRS, CLASSES, [1]))[0], [0.9]);
});

test("a cell says what happened in words", () => {
  const matrix = matrixOf(PAIRS, CLASSES, [0, 1, 2, 3]);
  assert.match(sentenceOf(matrix, 0, 1), /^42 of 50 images of cat were taken for <b>dog<\/b> \(84\.0.%\)$/);
  assert.match(sentenceOf(matrix, 2, 2), /^4 of 4 images of owl were recognised/);
  assert.match(sentenceOf(matrix, 2, 0), /^0 of 4 images of owl were taken for cat \(0\.0.%\)$/);
  assert.equal(sentenceOf(matrix, 3, 0), "There are no images of none in this split");
});

test("plotly gets labels as text and never as markup", () => {
  const matrix = matrixOf(PAIRS, CLASSES, [0, 1]);
  const { data, layout } = matrixFigure(matrix, "count", PALETTE, geometryOf(2, 600, 60), 600);
  assert.deepEqual(layout.yaxis.ticktext, ["cat", "&lt;b&gt;dog&lt;/b&gt;"]);
  assert.deepEqual(layout.xaxis.ticktext, layout.yaxis.ticktext);
  assert.ok(!JSON.stringify([data, layout]).includes("<b>"));
});

test("right and wrong answers have a scale each, and a cell without images is empty", () => {
  const matrix = matrixOf(PAIRS, CLASSES, [0, 1, 2]);
  const { data } = matrixFigure(matrix, "count", PALETTE, geometryOf(3, 600, 60), 600);
  assert.deepEqual(
    data.map(({ z }) => z),
    [
      [
        [8, null, null],
        [null, 9, null],
        [null, null, 4],
      ],
      [
        [null, 42, null],
        [null, null, 1],
        [null, null, null],
      ],
    ],
  );
  assert.deepEqual(
    data.map(({ zmax }) => zmax),
    [9, 42],
  );
  assert.deepEqual(data[1].text[0], ["", "42", ""]);
  const shares = matrixFigure(matrix, "share", PALETTE, geometryOf(3, 600, 60), 600).data;
  assert.deepEqual(
    shares.map(({ zmax }) => zmax),
    [1, 0.84],
  );
  assert.deepEqual(shares[1].text[0], ["", "84 %", ""]);
});

test("without any mistake or image the scales still have an end", () => {
  assert.deepEqual(largest([[0]], "count"), { right: 0, wrong: 0 });
  const figure = matrixFigure(matrixOf([], CLASSES, [3]), "count", PALETTE, geometryOf(1, 300, 40), 300);
  assert.ok(figure.data.every(({ zmax }) => zmax > 0));
});

test("every point of the chart belongs to the cell that is drawn there, or to none", () => {
  for (const [n, width] of [
    [3, 700],
    [30, 340],
    [1000, 900],
  ]) {
    const geometry = geometryOf(n, width, 70);
    const { left, top, cellWidth, cellHeight } = geometry;
    assert.deepEqual(cellAt(geometry, left + cellWidth / 2, top + cellHeight / 2), { row: 0, column: 0 });
    assert.deepEqual(cellAt(geometry, left + (n - 0.5) * cellWidth, top + 1.5 * cellHeight), { row: 1, column: n - 1 });
    assert.equal(cellAt(geometry, left - 1, top + 1), null);
    assert.equal(cellAt(geometry, left + n * cellWidth + 1, top + 1), null);
    assert.equal(cellAt(geometry, left + 1, top + n * cellHeight + 1), null);
    assert.ok(heightOf(geometry) < 900);
    assert.ok(left + n * cellWidth <= width);
  }
});

test("labels are cut, thinned and slanted where they do not fit", () => {
  const classes = Array.from({ length: 200 }, (_, label) => ({ label, name: `class ${label}`, support: 1 }));
  const all = classes.map(({ label }) => label);
  const { layout, data } = matrixFigure(matrixOf([], classes, all), "count", PALETTE, geometryOf(200, 800, 60), 800);
  assert.ok(layout.yaxis.ticktext.length < 70);
  assert.equal(layout.yaxis.ticktext[0], "class 0");
  assert.equal(layout.xaxis.tickangle, -45);
  assert.equal(data[0].text, undefined, "no number fits into a cell");
  assert.equal(tickText("a name that is far too long", 800), "a name that is far …");
  assert.equal([...tickText("🐈".repeat(40), 390)].length, 11);
});

test("colours are mixed between two of the page's", () => {
  assert.equal(mixed("#ffffff", "#0000ff", 0), "rgb(255, 255, 255)");
  assert.equal(mixed("#ffffff", "#0000ff", 1), "rgb(0, 0, 255)");
  assert.equal(mixed("#000000", "#ffffff", 0.5), "rgb(128, 128, 128)");
});

test("a bin without images is a gap of the reliability diagram, with a word for it", () => {
  const bins = [
    { lower: 0, upper: 0.5, n_images: 0, confidence: null, accuracy: null },
    { lower: 0.5, upper: 1, n_images: 1200, confidence: 0.8, accuracy: 0.75 },
  ];
  const [accuracy, confidence, counts] = reliabilityFigure(bins, PALETTE, { width: 340, height: 300 }).data;
  assert.deepEqual(accuracy.x, [0.25, 0.75]);
  assert.deepEqual(accuracy.y, [null, 0.75]);
  assert.deepEqual(confidence.y, [null, 0.8]);
  assert.deepEqual(counts.y, [0, 1200]);
  assert.match(accuracy.hovertext[0], /0 to 50 % sure.*no image/);
  assert.match(accuracy.hovertext[1], /right: 75\.0.%.*mean probability: 80\.0.%.*1,200 images/);
});

test("the table sorts numbers as numbers, names as people do, and what is missing last", () => {
  assert.equal(valueIn("1,234"), 1234);
  assert.equal(valueIn("91.20 %"), 91.2);
  assert.equal(valueIn("–"), null);
  const sorted = (values, direction) => [...values].sort((a, b) => compared(a, b, direction));
  assert.deepEqual(sorted([3, null, 20, 1], "ascending"), [1, 3, 20, null]);
  assert.deepEqual(sorted([3, null, 20, 1], "descending"), [20, 3, 1, null]);
  assert.deepEqual(sorted(["class 10", "class 9", "b"], "ascending"), ["b", "class 9", "class 10"]);
});

test("an answer says what was taken for what, or why there is none", () => {
  const answer = { label_name: "cat", predicted_name: "dog", wrong: true, error: null, loss: 2.5 };
  assert.equal(verdictOf(answer), "cat was taken for dog, loss 2.5");
  assert.equal(verdictOf({ ...answer, predicted_name: "cat", wrong: false }), "Recognised as cat, loss 2.5");
  assert.equal(
    verdictOf({ ...answer, predicted_name: null, error: "is cut short" }),
    "No answer: the image is cut short",
  );
});
