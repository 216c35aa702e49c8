// Head view: tokens on both sides, a line for each of the strongest links, a colour for each head.

import { hue, s } from "../lib/svg.js";
import { shortened } from "../lib/text.js";
import { strongest } from "./weights.js";

const MOST_LINES = 6000;
const MIDDLE = 280;

/**
 * options: {layer, heads, links, rowHeight, room: pixels, picked: {side, index} | null, allowed(row, column), faint(side, index), onpick(side, index)}
 * Returns {svg, note, pick(where)}; `pick` marks another token without drawing everything again.
 */
export function drawLines(payload, weights, options) {
  const { layer, heads, rowHeight } = options;
  let picked = options.picked;
  const longest = Math.max(...[...payload.rows, ...payload.columns].map((token) => [...shortened(token, 18)].length));
  const fontSize = Math.min(14, rowHeight * 0.8);
  const side = Math.max(60, longest * fontSize * 0.62 + 16);
  const values = 44;
  const left = side;
  const right = side + Math.max(80, Math.min(MIDDLE, options.room - 2 * side - values));
  const width = right + side + values;
  const height = Math.max(payload.rows.length, payload.columns.length) * rowHeight + 8;
  const y = (index) => 4 + (index + 0.5) * rowHeight;
  // The lines of several heads between the same tokens lie beside each other.
  const gap = Math.min(1.6, (0.7 * rowHeight) / Math.max(heads.length, 1));
  const faint = heads.length > 1 ? 1 : 0.6; // and weak ones are seen only where they are few
  const shift = new Map(heads.map((head, place) => [head, (place - (heads.length - 1) / 2) * gap]));

  const found = collect(payload, weights, options);
  const base = s("g", { class: "links" }, found.links.map((link) => line(link, link.weight)));
  const over = s("g", { class: "links over" });
  const boxes = s("g", { class: "boxes" });
  const numbers = s("g", { class: "values" });

  function line({ head, row, column }, weight) {
    return s("line", {
      x1: left + 2, y1: y(row) + shift.get(head), x2: right - 2, y2: y(column) + shift.get(head),
      style: { stroke: hue(head, weights.heads), "stroke-opacity": Math.max(0.04, Math.min(1, weight ** faint)).toFixed(3) },
    });
  }

  function light(where) {
    over.replaceChildren();
    boxes.replaceChildren();
    numbers.replaceChildren();
    svg.classList.toggle("lit", Boolean(where));
    if (!where) return;
    const onRows = where.side === "row";
    const others = onRows ? payload.columns.length : payload.rows.length;
    const texts = [];
    for (let other = 0; other < others; other++) {
      const [row, column] = onRows ? [where.index, other] : [other, where.index];
      if (!options.allowed(row, column)) continue;
      let sum = 0;
      for (const head of heads) {
        const weight = weights.at(layer, head, row, column);
        sum += weight;
        if (weight > 0.004) over.append(line({ head, row, column }, weight));
      }
      const mean = sum / Math.max(heads.length, 1);
      if (mean < 0.005) continue;
      boxes.append(s("rect", {
        x: onRows ? right : left - side, y: y(other) - rowHeight / 2, width: side, height: rowHeight,
        style: { fill: heads.length === 1 ? hue(heads[0], weights.heads) : "var(--accent)", "fill-opacity": (mean ** 0.7 * 0.6).toFixed(3) },
      }));
      if (onRows) texts.push([other, mean]);
    }
    if (rowHeight < 9) return;
    for (const [other, mean] of texts) {
      numbers.append(s("text", { x: right + side + values - 2, y: y(other), "text-anchor": "end", "font-size": Math.min(12, fontSize) }, mean.toFixed(weights.digits)));
    }
  }

  function column(tokens, sideName, x, anchor) {
    const texts = tokens.map((token, index) =>
      s("text", {
        x, y: y(index), "text-anchor": anchor, "font-size": fontSize, role: "button", "aria-pressed": "false",
        "aria-label": `${sideName === "row" ? "from" : "to"} ${token}`, tabindex: index === 0 ? 0 : -1,
        "data-side": sideName, "data-index": index, class: options.faint(sideName, index) ? "faint" : null,
      }, shortened(token, 18), s("title", {}, token)));
    return s("g", { class: "tokens" }, texts);
  }

  const svg = s("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, class: "head-lines", role: "group",
    "aria-label": `Attention of layer ${layer + 1}: tokens at the left look at tokens at the right`,
  }, boxes, base, over,
    column(payload.rows, "row", left - 4, "end"), column(payload.columns, "column", right + 4, "start"), numbers);

  const where = (event) => {
    const token = event.target.closest?.("[data-side]");
    return token ? { side: token.dataset.side, index: Number(token.dataset.index) } : null;
  };
  svg.addEventListener("pointerover", (event) => light(where(event) ?? picked));
  svg.addEventListener("pointerleave", () => light(picked));
  svg.addEventListener("focusin", (event) => light(where(event) ?? picked));
  svg.addEventListener("focusout", () => light(picked));
  svg.addEventListener("click", (event) => {
    const token = where(event);
    if (token) options.onpick(token.side, token.index);
  });
  svg.addEventListener("keydown", (event) => walk(event, svg, where(event), options));

  function pick(where) {
    picked = where;
    for (const old of svg.querySelectorAll(".picked")) {
      old.classList.remove("picked");
      old.setAttribute("aria-pressed", "false");
    }
    const token = where && svg.querySelector(`[data-side="${where.side}"][data-index="${where.index}"]`);
    if (token) {
      for (const old of svg.querySelectorAll(`[data-side="${where.side}"][tabindex="0"]`)) old.setAttribute("tabindex", "-1");
      token.setAttribute("tabindex", "0");
      token.setAttribute("aria-pressed", "true");
      token.classList.add("picked");
    }
    light(where);
  }
  pick(picked);
  return { svg, note: found.note, pick };
}

/** Arrow keys go from token to token and from side to side; Enter picks. */
function walk(event, svg, from, options) {
  if (!from) return;
  const { side, index } = from;
  const steps = { ArrowDown: [side, index + 1], ArrowUp: [side, index - 1], ArrowRight: ["column", index], ArrowLeft: ["row", index] };
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    options.onpick(side, index);
  } else if (steps[event.key]) {
    event.preventDefault();
    const [newSide, newIndex] = steps[event.key];
    const target = svg.querySelector(`[data-side="${newSide}"][data-index="${newIndex}"]`);
    if (!target) return;
    svg.querySelector(`[data-side="${newSide}"][tabindex="0"]`)?.setAttribute("tabindex", "-1");
    target.setAttribute("tabindex", "0");
    target.focus();
  }
}

function collect(payload, weights, { layer, heads, links, allowed }) {
  const found = [];
  const least = links === 0 ? smallestShown(weights, layer, heads, allowed) : 0;
  const count = links === 0 ? weights.columns : links;
  for (const head of heads) {
    const steps = weights.head(layer, head);
    for (let row = 0; row < weights.rows; row++) {
      const start = row * weights.columns;
      for (const column of strongest(steps, start, weights.columns, count, (one) => steps[start + one] >= least && allowed(row, one))) {
        const weight = weights.at(layer, head, row, column);
        if (weight > 0.004) found.push({ head, row, column, weight });
      }
    }
  }
  if (found.length <= MOST_LINES) return { links: found, note: "" };
  found.sort((one, other) => other.weight - one.weight);
  return { links: found.slice(0, MOST_LINES), note: `The ${MOST_LINES.toLocaleString("en")} strongest links are drawn.` };
}

/** The level from which on links are few enough to be drawn; to put hundreds of thousands in order takes seconds. */
function smallestShown(weights, layer, heads, allowed) {
  const counts = new Uint32Array(65536);
  for (const head of heads) {
    const steps = weights.head(layer, head);
    for (let place = 0; place < steps.length; place++)
      if (allowed(Math.floor(place / weights.columns), place % weights.columns)) counts[steps[place]] += 1;
  }
  let level = counts.length;
  for (let sum = 0; level > 1 && sum <= 4 * MOST_LINES; level--) sum += counts[level - 1];
  return level;
}
