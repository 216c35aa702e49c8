// Model view: every head of every layer as a thumbnail. A stripe is a token that all look at; a diagonal looks at neighbours.

import { s } from "../lib/svg.js";
import { raster, ramp } from "./raster.js";

const SIZE = 64;
const GAP = 8;
const LEFT = 64;
const TOP = 22;

/** options: {layer, heads, onopen(layer, head)}; returns {svg, note}. */
export function drawGrid(weights, { layer: chosenLayer, heads: chosenHeads, onopen }) {
  const colours = ramp();
  const width = LEFT + weights.heads * (SIZE + GAP);
  const height = TOP + weights.layers * (SIZE + GAP);
  const cells = [];
  for (let layer = 0; layer < weights.layers; layer++) {
    for (let head = 0; head < weights.heads; head++) {
      const chosen = layer === chosenLayer && chosenHeads[0] === head;
      const x = LEFT + head * (SIZE + GAP);
      const y = TOP + layer * (SIZE + GAP);
      cells.push(s("g", {
        role: "button", tabindex: chosen ? 0 : -1, "aria-label": `layer ${layer + 1}, head ${head + 1}`,
        "data-layer": layer, "data-head": head, class: chosen ? "thumb chosen" : "thumb",
      },
        s("image", { href: raster(weights, layer, head, { limit: SIZE, colours }), x, y, width: SIZE, height: SIZE, preserveAspectRatio: "none", class: "pixels" }),
        s("rect", { x, y, width: SIZE, height: SIZE, class: "frame" }),
        s("title", {}, `layer ${layer + 1}, head ${head + 1}: open`)));
    }
  }
  if (!cells.some((cell) => cell.getAttribute("tabindex") === "0")) cells[0]?.setAttribute("tabindex", "0");
  const labels = [
    ...Array.from({ length: weights.heads }, (_, head) =>
      s("text", { x: LEFT + head * (SIZE + GAP) + SIZE / 2, y: TOP - 8, "text-anchor": "middle", class: "label", "font-size": 12 }, `${head + 1}`)),
    ...Array.from({ length: weights.layers }, (_, layer) =>
      s("text", { x: LEFT - 10, y: TOP + layer * (SIZE + GAP) + SIZE / 2, "text-anchor": "end", class: "label", "font-size": 12 }, `layer ${layer + 1}`)),
    s("text", { x: LEFT - 10, y: TOP - 8, "text-anchor": "end", class: "label", "font-size": 12 }, "head"),
  ];
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "head-grid", role: "group", "aria-label": "All heads of all layers" }, labels, cells);
  svg.style.setProperty("max-width", `${width}px`);
  const cellOf = (event) => event.target.closest?.("[data-layer]");
  svg.addEventListener("click", (event) => open(cellOf(event)));
  svg.addEventListener("keydown", (event) => {
    const cell = cellOf(event);
    if (!cell) return;
    const layer = Number(cell.dataset.layer);
    const head = Number(cell.dataset.head);
    const steps = { ArrowDown: [layer + 1, head], ArrowUp: [layer - 1, head], ArrowRight: [layer, head + 1], ArrowLeft: [layer, head - 1] };
    if (event.key === "Enter" || event.key === " ") open(cell);
    else if (steps[event.key]) {
      const [newLayer, newHead] = steps[event.key];
      const target = svg.querySelector(`[data-layer="${newLayer}"][data-head="${newHead}"]`);
      if (target) {
        cell.setAttribute("tabindex", "-1");
        target.setAttribute("tabindex", "0");
        target.focus();
      }
    } else return;
    event.preventDefault();
  });
  function open(cell) {
    if (cell) onopen(Number(cell.dataset.layer), Number(cell.dataset.head));
  }
  return { svg, note: "" };
}
