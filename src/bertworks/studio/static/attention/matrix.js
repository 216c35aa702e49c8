// Matrix view: row i looks at column j; the darker a cell, the larger its weight. Hover or arrow keys tell the number.

import { s } from "../lib/svg.js";
import { shortened } from "../lib/text.js";
import { raster, ramp } from "./raster.js";

const short = (token) => shortened(token, 18);
const READABLE = 9; // pixels of a cell from which on labels fit
const EDGE = 16; // pixels around the picture in its box

/**
 * options: {layer, head, cell, rows and columns: numbers of those to show, faint(side, index), pale(row, column), onread(row, column, weight)}
 * Returns {svg, note, follow(scrollLeft, scrollTop), first: [x, y] of what is not faint}.
 */
export function drawMatrix(payload, weights, { layer, head, cell, rows, columns, faint, pale, onread }) {
  const labelled = cell >= READABLE;
  const fontSize = Math.min(13, cell * 0.9);
  const longest = (tokens) => Math.max(1, ...tokens.map((token) => [...short(token)].length)) * fontSize * 0.6 + 12;
  const left = labelled ? longest(rows.map((row) => payload.rows[row])) : 4;
  const top = labelled ? longest(columns.map((column) => payload.columns[column])) : 4;
  const [across, down] = [columns.length * cell, rows.length * cell];
  const width = left + across + 8;
  const height = top + down + 8;
  // Labels stay in sight when the picture is scrolled, on a ground that hides what goes on below them.
  const ground = (width, height) => s("rect", { width, height, class: "ground" });
  const rowLabels = s("g", {}, ground(left - 1, height));
  const columnLabels = s("g", {}, ground(width, top - 1));
  const corner = s("g", {}, ground(left - 1, top - 1));
  if (labelled) {
    const kind = (side, index) => (faint(side, index) ? "label faint" : "label");
    rows.forEach((row, place) => rowLabels.append(s("text", {
      x: left - 5, y: top + (place + 0.5) * cell, "text-anchor": "end", "font-size": fontSize, class: kind("row", row), "data-row": row,
    }, short(payload.rows[row]))));
    columns.forEach((column, place) => columnLabels.append(s("text", {
      transform: `translate(${left + (place + 0.5) * cell} ${top - 5}) rotate(-90)`, "text-anchor": "start", "font-size": fontSize, class: kind("column", column), "data-column": column,
    }, short(payload.columns[column]))));
  }
  function follow(scrollLeft, scrollTop) {
    rowLabels.setAttribute("transform", `translate(${scrollLeft} 0)`);
    columnLabels.setAttribute("transform", `translate(0 ${scrollTop})`);
    corner.setAttribute("transform", `translate(${scrollLeft} ${scrollTop})`);
  }
  const cursor = s("rect", { width: cell, height: cell, class: "cursor", visibility: "hidden" });
  const svg = s("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, class: "head-matrix", tabindex: 0, role: "application",
    "aria-label": `Weights of layer ${layer + 1}, head ${head + 1}; arrow keys go from cell to cell`,
  },
    s("image", { href: raster(weights, layer, head, { rows, columns, pale, colours: ramp() }), x: left, y: top, width: across, height: down, preserveAspectRatio: "none", class: "pixels" }),
    s("rect", { x: left, y: top, width: across, height: down, class: "frame" }),
    cursor, labelled && [rowLabels, columnLabels, corner]);

  let place = null; // of the row and of the column, among those shown
  /** Bring a cell into sight; labels that stay in place hide what goes on below them. */
  function reveal(i, j) {
    const box = svg.parentElement;
    const near = (now, at, before, room) => Math.max(Math.min(now, at - before), at + cell - room + EDGE);
    cursor.scrollIntoView({ block: "nearest", inline: "nearest" }); // also of the page
    box.scrollTo(near(box.scrollLeft, left + j * cell, left, box.clientWidth), near(box.scrollTop, top + i * cell, top, box.clientHeight));
  }
  function go(i, j) {
    if (i < 0 || j < 0 || i >= rows.length || j >= columns.length) return;
    place = [i, j];
    cursor.setAttribute("x", left + j * cell);
    cursor.setAttribute("y", top + i * cell);
    cursor.setAttribute("visibility", "visible");
    onread(rows[i], columns[j], weights.at(layer, head, rows[i], columns[j]));
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
    if (place) reveal(...place);
  });
  const first = (some, side) => Math.max(0, some.findIndex((index) => !faint(side, index))) * cell;
  return { svg, note: "", follow, first: [left + first(columns, "column"), top + first(rows, "row")] };
}
