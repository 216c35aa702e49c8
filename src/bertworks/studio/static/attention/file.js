// The weights of a picture for a file of JSON. Layers, heads, rows and columns are counted from 1, as the page counts them.

import { upTo } from "./raster.js";
import { strongest } from "./weights.js";

const MOST_NUMBERS = 1_000_000;
const LINKS = 3; // from each row, where a file of all weights would be too large

/** What the picture shows: the chosen layer and heads, the one head of a matrix, or all heads. */
export function dataOf(payload, weights, { view, layer, heads }) {
  const { model, kind, text, pair, rows, columns } = payload;
  const one = (at, head, row, column) => Number(weights.at(at, head, row, column).toFixed(weights.digits + 2));
  const matrix = (at, head) => upTo(weights.rows).map((row) => upTo(weights.columns).map((column) => one(at, head, row, column)));
  const links = (at, head) => upTo(weights.rows).map((row) =>
    strongest(weights.head(at, head), row * weights.columns, weights.columns, LINKS, () => true).map((column) => [column + 1, one(at, head, row, column)]));
  const about = { model, kind, text, pair, rows, columns };
  if (view !== "grid") {
    const shown = view === "matrix" ? heads.slice(0, 1) : heads;
    return { ...about, layer: layer + 1, heads: shown.map((head) => head + 1), weights: shown.map((head) => matrix(layer, head)) };
  }
  const all = (of) => upTo(weights.layers).map((at) => upTo(weights.heads).map((head) => of(at, head)));
  if (weights.layers * weights.heads * weights.rows * weights.columns <= MOST_NUMBERS) return { ...about, weights: all(matrix) };
  return { ...about, note: `[column, weight] of the ${LINKS} strongest links of each row; the file of a matrix has all weights of its head`, links: all(links) };
}
