// Plots: points on a plane, curves over steps, a matrix of numbers. All are SVG or tables, drawn anew from their data.

import { h, scroller } from "./dom.js";
import { colour, extent, hue, s, scale, ticks } from "./svg.js";

/** Whether the page is as narrow as a phone: pictures are then drawn narrower, so that their letters can still be read. */
export function narrow() {
  return matchMedia("(max-width: 560px)").matches;
}

/** A colour for each group's name: the page's palette, or hues where there are more groups than it has colours. */
export function groupColours(names) {
  const own = [...new Set(names)];
  return new Map(own.map((name, index) => [name, own.length <= 6 ? colour(index) : hue(index, own.length)]));
}

/** Names with their colours; `entries` are [name, colour, count or nothing]. */
export function legend(entries) {
  return h("ul", { class: "legend" }, entries.map(([name, paint, count]) =>
    h("li", {}, h("i", { style: { color: paint } }), name === "" ? "no label" : name,
      count === undefined ? null : h("small", {}, ` ${count}`))));
}

/**
 * Points on a plane, both axes on the same scale. `points` are {x, y, text, short, colour}.
 * Returns {svg, mark(index, others)}: one point stands out, with lines to others; null takes the mark away.
 */
export function scatter({ points, label, onpick = null, width = narrow() ? 400 : 760, height = narrow() ? 340 : 520, named = narrow() ? 0 : 40 }) {
  const margin = width < 500 ? 16 : 34;
  const [left, right] = extent(points.map((point) => point.x));
  const [low, high] = extent(points.map((point) => point.y));
  const unit = Math.min((width - 2 * margin) / (right - left || 1), (height - 2 * margin) / (high - low || 1));
  const place = (point) => [
    width / 2 + (point.x - (left + right) / 2) * unit,
    height / 2 - (point.y - (low + high) / 2) * unit,
  ];
  const places = points.map(place);
  const radius = points.length > 400 ? 3 : points.length > 80 ? 4.5 : 6;
  const links = s("g", { class: "links" });
  const dots = points.map((point, index) => {
    const dot = s("circle", {
      cx: places[index][0].toFixed(2), cy: places[index][1].toFixed(2), r: radius, class: "dot",
      style: { fill: point.colour }, "data-index": index,
    }, s("title", {}, point.text));
    if (onpick) dot.addEventListener("click", () => onpick(index));
    return dot;
  });
  const names = points.length <= named ? nameTags(points, places, radius, width) : [];
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot scatter", role: "img", "aria-label": label },
    links, s("g", {}, dots), s("g", { class: "names" }, names));

  function mark(index, others = []) {
    links.replaceChildren();
    dots.forEach((dot) => dot.classList.remove("picked", "near", "faint"));
    if (index === null) return;
    const near = new Set(others);
    dots.forEach((dot, number) => {
      if (number === index) dot.classList.add("picked");
      else dot.classList.add(near.has(number) ? "near" : "faint");
    });
    for (const other of others)
      links.append(s("line", { x1: places[index][0], y1: places[index][1], x2: places[other][0], y2: places[other][1], class: "link" }));
    dots[index].parentNode.append(dots[index]); // above its neighbours
  }
  /** Only some stand out: what a search has found. */
  function light(found) {
    links.replaceChildren();
    const near = new Set(found);
    dots.forEach((dot, number) => {
      dot.classList.remove("picked", "near", "faint");
      dot.classList.add(near.has(number) ? "near" : "faint");
    });
  }
  return { svg, mark, light };
}

/** Short texts beside points, left out where they would lie on another. */
function nameTags(points, places, radius, width) {
  const taken = places.map(([x, y]) => ({ left: x - radius, right: x + radius, top: y - radius, bottom: y + radius }));
  const tags = [];
  points.forEach((point, index) => {
    if (!point.short) return;
    const [x, y] = places[index];
    const size = point.short.length * 6.4;
    for (const [side, dx, dy] of [["start", radius + 4, 4], ["end", -radius - 4, 4], ["middle", 0, -radius - 5], ["middle", 0, radius + 14]]) {
      const start = x + dx - (side === "end" ? size : side === "middle" ? size / 2 : 0);
      const box = { left: start, right: start + size, top: y + dy - 10, bottom: y + dy + 3 };
      if (box.left < 2 || box.right > width - 2) continue;
      if (taken.some((other) => box.left < other.right && box.right > other.left && box.top < other.bottom && box.bottom > other.top)) continue;
      taken.push(box);
      tags.push(s("text", { x: (x + dx).toFixed(1), y: (y + dy).toFixed(1), "text-anchor": side }, point.short));
      break;
    }
  });
  return tags;
}

/** Where `lines` tells values: read aloud, and not a part of downloaded pictures. */
export function newReadout() {
  return h("p", { class: "readout", "aria-live": "polite", "data-undrawn": true });
}

/**
 * Curves over one axis. `series` are {name, colour, strength, dashed, points: [[x, y], …]}; `log` is a logarithmic upward axis.
 * Under the pointer and with the arrow keys, the values there are told in `readout`; `reading` remembers the place for the next plot.
 */
export function lines({ series, label, across = "", up = "", log = false, dots = false, readout = null, reading = {}, format = short, width = narrow() ? 400 : 860, height = narrow() ? 280 : 360 }) {
  const drawn = series
    .map((one) => ({ ...one, points: one.points.filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y) && (!log || y > 0)) }))
    .filter((one) => one.points.length);
  const [left, right, top, bottom] = [58, 12, 10, 40];
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot lines", role: "img", "aria-label": label });
  if (!drawn.length) {
    svg.append(s("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "nothing to draw yet"));
    readout?.replaceChildren();
    return svg;
  }
  const turn = log ? Math.log10 : (value) => value;
  const all = drawn.flatMap((one) => one.points);
  let [low, high] = extent(all.map((point) => turn(point[1])));
  if (high - low < 1e-9) [low, high] = [low - 0.5 * (Math.abs(low) || 1), high + 0.5 * (Math.abs(high) || 1)];
  let [first, last] = extent(all.map((point) => point[0]));
  if (first === last) [first, last] = [first - 1, last + 1];
  const x = scale(first, last, left, width - right);
  const y = scale(low, high, height - bottom, top + 6);
  const marks = log ? logTicks(low, high) : ticks(low, high, 5);
  for (const value of marks) {
    const level = y(turn(value));
    svg.append(
      s("line", { class: "grid", x1: left, x2: width - right, y1: level, y2: level }),
      s("text", { x: left - 8, y: level + 4, "text-anchor": "end" }, format(value)));
  }
  for (const value of ticks(first, last, width < 500 ? 4 : 6))
    svg.append(s("text", { x: x(value), y: height - bottom + 18, "text-anchor": "middle" }, short(value)));
  svg.append(
    s("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle", class: "axis" }, across),
    s("text", { x: 14, y: (top + height - bottom) / 2, "text-anchor": "middle", class: "axis", transform: `rotate(-90 14 ${(top + height - bottom) / 2})` }, up));
  for (const one of drawn) {
    const path = one.points.map(([px, py]) => `${x(px).toFixed(1)},${y(turn(py)).toFixed(1)}`).join(" ");
    svg.append(s("polyline", { points: path, class: "curve", "data-name": one.name, style: { stroke: one.colour, "stroke-opacity": String(one.strength ?? 1), "stroke-dasharray": one.dashed ? "5 4" : "none" } }));
    if (dots || one.points.length <= 2 || one.dotted)
      for (const [px, py] of one.points)
        svg.append(s("circle", { cx: x(px), cy: y(turn(py)), r: 3, style: { fill: one.colour, "fill-opacity": String(one.strength ?? 1) } }));
  }
  if (readout) {
    const reads = { tabindex: 0, role: "application", "data-control": "plot", "aria-label": `${label}; arrow keys tell the values` };
    for (const [name, value] of Object.entries(reads)) svg.setAttribute(name, value);
    tellValues(svg, drawn, { x, first, last, left, right, top, bottom, width, height, readout, reading, format, across });
  }
  return svg;
}

/**
 * The values at one place of the curves, in `readout`: under the pointer, or step by step with the arrow keys.
 * `reading.x` is the place that was read last.
 */
function tellValues(svg, drawn, plot) {
  const needle = s("line", { class: "needle", y1: plot.top, y2: plot.height - plot.bottom, visibility: "hidden" });
  const places = drawn.map((one) => one.points.map(([x]) => x)); // they ascend
  const all = [...new Set(places.flat())].sort((one, other) => one - other);
  const { readout, reading } = plot;
  svg.append(needle);
  const tell = (number) => {
    reading.x = all[number];
    needle.setAttribute("x1", plot.x(reading.x));
    needle.setAttribute("x2", plot.x(reading.x));
    needle.setAttribute("visibility", "visible");
    readout.replaceChildren(h("b", {}, `${plot.across} ${short(reading.x)}`), ...drawn.map((one, index) =>
      h("span", {}, h("i", { style: { color: one.colour } }), `${one.name} ${plot.format(one.points[nearest(places[index], reading.x)][1])}`)));
  };
  const hide = () => {
    needle.setAttribute("visibility", "hidden");
    readout.replaceChildren();
  };
  const here = () => nearest(all, reading.x ?? all.at(-1));
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * plot.width;
    if (at < plot.left || at > plot.width - plot.right) return hide();
    return tell(nearest(all, plot.first + ((at - plot.left) / (plot.width - plot.right - plot.left)) * (plot.last - plot.first)));
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("focus", () => tell(here()));
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: here() + 1, ArrowLeft: here() - 1, Home: 0, End: all.length - 1 };
    if (!(event.key in steps)) return;
    event.preventDefault();
    tell(Math.min(Math.max(steps[event.key], 0), all.length - 1));
  });
  if (readout.hasChildNodes()) tell(here()); // drawn anew while somebody reads
}

/** The place in ascending numbers of the one that is nearest. */
function nearest(numbers, wanted) {
  let [start, stop] = [0, numbers.length - 1];
  while (stop - start > 1) {
    const middle = (start + stop) >> 1;
    if (numbers[middle] <= wanted) start = middle;
    else stop = middle;
  }
  return Math.abs(numbers[start] - wanted) <= Math.abs(numbers[stop] - wanted) ? start : stop;
}

function logTicks(low, high) {
  const found = [];
  const factors = high - low > 3 ? [1] : high - low > 1 ? [1, 3] : [1, 1.5, 2, 3, 5, 7];
  for (let power = Math.floor(low); power <= Math.ceil(high); power++)
    for (const factor of factors) {
      const value = factor * 10 ** power;
      if (Math.log10(value) >= low - 1e-9 && Math.log10(value) <= high + 1e-9) found.push(Number(value.toPrecision(6)));
    }
  return found.length ? found : [10 ** low, 10 ** high];
}

/** A number in few signs: 12,000 · 0.0312 · 3.1e-5. */
export function short(value) {
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  if (size < 1e-3) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}

/** A table of numbers whose cells are the stronger coloured, the larger they are between `low` and `high`. */
export function matrix({ rows, columns = rows, values, low = 0, high = 1, digits = 2, caption }) {
  const cell = (value, row, column) => h("td", {
    style: { "--w": String(Math.min(1, Math.max(0, (value - low) / (high - low || 1)))) },
    title: `${rows[row].title} · ${columns[column].title}: ${value.toFixed(4)}`,
  }, value.toFixed(digits));
  return scroller(caption,
    h("table", { class: "matrix" }, h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, h("td", {}), columns.map((one) => h("th", { scope: "col", title: one.title }, one.name)))),
      h("tbody", {}, values.map((row, index) =>
        h("tr", {}, h("th", { scope: "row", title: rows[index].title }, rows[index].name),
          row.map((value, column) => cell(value, index, column)))))));
}

/** {name or node, value} as horizontal bars, full at `most`; `text` writes the number. */
export function bars(entries, { text = (value) => value.toFixed(3), most = 1 } = {}) {
  return entries.map(({ name, value, node }) =>
    h("div", { class: "bar" }, node ?? h("span", {}, name),
      h("span", { class: "track", "aria-hidden": "true" }, h("i", { style: { "--w": String(Math.min(1, Math.max(0, value / most))) } })),
      h("span", { class: "number" }, text(value))));
}
