// Matrix view: row i looks at column j; the darker a cell, the larger its weight. Hover or arrow keys tell the number.

import { s } from "../lib/svg.js";
import { shortened } from "../lib/text.js";
import { raster, ramp } from "./raster.js";

const short = (token) => shortened(token, 18);
const READABLE = 9; // pixels of a cell from which on labels fit

/** options: {layer, head, cell, rows: indexes to show, onread(row, column, weight)}; returns {svg, note, follow(scrollLeft, scrollTop)}. */
export function drawMatrix(payload, weights, { layer, head, cell, rows, onread }) {
  const labelled = cell >= READABLE;
  const fontSize = Math.min(13, cell * 0.9);
  const longest = (tokens) => Math.max(1, ...tokens.map((token) => [...short(token)].length)) * fontSize * 0.6 + 12;
  const left = labelled ? longest(payload.rows) : 4;
  const top = labelled ? longest(payload.columns) : 4;
  const width = left + weights.columns * cell + 8;
  const height = top + rows.length * cell + 8;
  // Labels stay in sight when the picture is scrolled, on a ground that hides what goes on below them.
  const ground = (width, height) => s("rect", { width, height, class: "ground" });
  const rowLabels = s("g", {}, ground(left - 1, height));
  const columnLabels = s("g", {}, ground(width, top - 1));
  const corner = s("g", {}, ground(left - 1, top - 1));
  if (labelled) {
    rows.forEach((row, place) => rowLabels.append(s("text", { x: left - 5, y: top + (place + 0.5) * cell, "text-anchor": "end", "font-size": fontSize, class: "label" }, short(payload.rows[row]))));
    payload.columns.forEach((token, column) => columnLabels.append(s("text", {
      transform: `translate(${left + (column + 0.5) * cell} ${top - 5}) rotate(-90)`, "text-anchor": "start", "font-size": fontSize, class: "label",
    }, short(token))));
  }
  function follow(across, down) {
    rowLabels.setAttribute("transform", `translate(${across} 0)`);
    columnLabels.setAttribute("transform", `translate(0 ${down})`);
    corner.setAttribute("transform", `translate(${across} ${down})`);
  }
  const cursor = s("rect", { width: cell, height: cell, class: "cursor", visibility: "hidden" });
  const svg = s("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, class: "head-matrix", tabindex: 0, role: "application",
    "aria-label": `Weights of layer ${layer + 1}, head ${head + 1}; arrow keys go from cell to cell`,
  },
    s("image", { href: raster(weights, layer, head, { order: rows, colours: ramp() }), x: left, y: top, width: weights.columns * cell, height: rows.length * cell, preserveAspectRatio: "none", class: "pixels" }),
    s("rect", { x: left, y: top, width: weights.columns * cell, height: rows.length * cell, class: "frame" }),
    cursor, labelled && [rowLabels, columnLabels, corner]);

  let place = null; // [row's place, column]
  function go(rowPlace, column) {
    if (rowPlace < 0 || column < 0 || rowPlace >= rows.length || column >= weights.columns) return;
    place = [rowPlace, column];
    cursor.setAttribute("x", left + column * cell);
    cursor.setAttribute("y", top + rowPlace * cell);
    cursor.setAttribute("visibility", "visible");
    onread(rows[rowPlace], column, weights.at(layer, head, rows[rowPlace], column));
  }
  const point = (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) * width) / box.width;
    const y = ((event.clientY - box.top) * height) / box.height;
    go(Math.floor((y - top) / cell), Math.floor((x - left) / cell));
  };
  svg.addEventListener("pointermove", point);
  svg.addEventListener("click", point);
  svg.addEventListener("keydown", (event) => {
    const [row, column] = place ?? [0, 0];
    const steps = { ArrowDown: [row + 1, column], ArrowUp: [row - 1, column], ArrowRight: [row, column + 1], ArrowLeft: [row, column - 1] };
    if (!steps[event.key]) return;
    event.preventDefault();
    if (place) go(...steps[event.key]);
    else go(0, 0);
  });
  return { svg, note: "", follow };
}
