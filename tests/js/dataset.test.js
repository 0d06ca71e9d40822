import assert from "node:assert/strict";
import { test } from "node:test";
import { apiQuery, pageQuery, withImage } from "../../static/js/dataset/address.js";
import { countsFigure, heightOf, ordered, shortName } from "../../static/js/dataset/counts.js";
import { sizesFigure } from "../../static/js/dataset/sizes.js";

const SIZE = { width: 600, height: 300, scrolls: false };
const PALETTE = {
  text: "#000",
  muted: "#555",
  line: "#ddd",
  surface: "#fff",
  ok: "#080",
  font: "sans-serif",
  series: ["#1", "#2", "#3", "#4", "#5", "#6", "#7", "#8"],
};
const CLASSES = [
  { label: 0, name: "cat", counts: { train: 5, val: 1 }, n_images: 6 },
  { label: 1, name: "<a href='x'>7</a>", counts: { train: 0, val: 2 }, n_images: 2 },
  { label: 2, name: "7", counts: { train: 2000, val: 0 }, n_images: 2000 },
  { label: 3, name: "7", counts: { train: 1, val: 1 }, n_images: 2 },
];

test("an address carries the picture that lies open, and nothing else of it changes", () => {
  const href = "http://x/datasets/1/?split=val&q=a%2Fb&page=2";
  assert.equal(withImage(href, 7), `${href}&image=7`);
  assert.equal(withImage(withImage(href, 7), 8), `${href}&image=8`);
  assert.equal(withImage(withImage(href, 7), null), href);
});

test("the API knows a class by its label", () => {
  assert.equal(apiQuery("split=val&class=3&q=a+b"), "split=val&q=a+b&label=3");
  assert.equal(apiQuery("class=0"), "label=0");
  assert.equal(apiQuery(""), "");
});

test("the page of a picture follows from how many are before it", () => {
  assert.equal(pageQuery("class=3", 0, 60), "class=3&page=1");
  assert.equal(pageQuery("", 59, 60), "page=1");
  assert.equal(pageQuery("", 60, 60), "page=2");
});

test("classes are ordered, equal ones by their label, and a long list is cut", () => {
  const labels = (order, limit = 10) => ordered(CLASSES, order, limit).map(({ label }) => label);
  assert.deepEqual(labels("label"), [0, 1, 2, 3]);
  assert.deepEqual(labels("largest"), [2, 0, 1, 3]);
  assert.deepEqual(labels("smallest", 3), [1, 3, 0]);
  assert.deepEqual(
    CLASSES.map(({ label }) => label),
    [0, 1, 2, 3],
  );
});

test("names are text, equal ones keep rows of their own", () => {
  const { data, layout } = countsFigure(CLASSES, false, PALETTE, SIZE);
  assert.deepEqual(layout.yaxis.ticktext, ["cat", "&lt;a href='x'&gt;7&lt;/a&gt;", "7", "7"]);
  assert.deepEqual(layout.yaxis.tickvals, [0, 1, 2, 3]);
  assert.deepEqual(data[0].y, [0, 1, 2, 3]);
  assert.ok(data[0].hovertext[1].startsWith("<b>&lt;a href"));
  assert.equal(data[1].hovertext[2], "<b>7</b><br>validation: 0 of 2,000 images");
});

test("a cut name does not break a character in two", () => {
  assert.equal(shortName("🐈".repeat(30)), `${"🐈".repeat(23)}…`);
  assert.equal(shortName("exactly twenty-four long"), "exactly twenty-four long");
});

test("splits that are not there have no bars, and each keeps its colour", () => {
  const figure = countsFigure(
    [{ label: 0, name: "a", counts: { val: 1, test: 2 }, n_images: 3 }],
    false,
    PALETTE,
    SIZE,
  );
  assert.deepEqual(
    figure.data.map(({ name, marker }) => [name, marker.color]),
    [
      ["validation", "#2"],
      ["test", "#3"],
    ],
  );
});

test("on a logarithmic axis bars are not piled up, and every row has room", () => {
  assert.equal(countsFigure(CLASSES, false, PALETTE, SIZE).layout.barmode, "stack");
  const { layout } = countsFigure(CLASSES, true, PALETTE, SIZE);
  assert.equal(layout.barmode, "group");
  assert.equal(layout.xaxis.type, "log");
  assert.ok(layout.xaxis.range[0] < 0, "a single image can be seen");
  assert.ok(layout.xaxis.range[1] > Math.log10(2000));
  assert.ok(heightOf(100, 3, true) > heightOf(100, 3, false));
  assert.ok(heightOf(100, 3, false) >= 2000);
});

test("a list that scrolls has its axis above, where it is in sight", () => {
  assert.equal(countsFigure(CLASSES, false, PALETTE, SIZE).layout.xaxis.side, "bottom");
  assert.equal(countsFigure(CLASSES, false, PALETTE, { ...SIZE, scrolls: true }).layout.xaxis.side, "top");
});

test("sizes are circles whose areas count images", () => {
  const sizes = [
    { width_px: 100, height_px: 50, n_images: 100 },
    { width_px: 1200, height_px: 60, n_images: 1 },
  ];
  const exact = sizesFigure({ bin_px: 1, sizes }, PALETTE, SIZE).data[0];
  assert.deepEqual(exact.x, [100, 1200]);
  assert.deepEqual(exact.hovertext, ["<b>100 × 50 px</b><br>100 images", "<b>1,200 × 60 px</b><br>1 image"]);
  assert.ok(exact.marker.size[0] > exact.marker.size[1]);
  const counted = sizesFigure({ bin_px: 10, sizes }, PALETTE, SIZE).data[0];
  assert.deepEqual(counted.x, [104.5, 1204.5]);
  assert.equal(counted.hovertext[0], "<b>100 to 109 × 50 to 59 px</b><br>100 images");
});
