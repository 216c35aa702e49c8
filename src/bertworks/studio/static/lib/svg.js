// SVG elements, and the few numbers that pictures need.

import { append } from "./dom.js";

const SPACE = "http://www.w3.org/2000/svg";

/** Make an SVG element: s("line", {x1: 0, y1: 0, x2: 10, y2: 10, class: "grid"}). */
export function s(tag, props = {}, ...children) {
  const element = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else element.setAttribute(name, String(value));
  }
  append(element, children);
  return element;
}

/** A function from [low, high] to [start, stop]. */
export function scale(low, high, start, stop) {
  const span = high - low || 1;
  return (value) => start + ((value - low) / span) * (stop - start);
}

/** The smallest and the largest of many numbers; Math.min(...values) fails where they are very many. */
export function extent(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

/** About `count` round numbers between low and high. */
export function ticks(low, high, count = 5) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) found.push(Number(value.toPrecision(12)));
  return found;
}

/** Colour number `index` of the page's palette, as a CSS value: colours that colour-blind eyes tell apart. */
export function colour(index) {
  return `var(--c${((index % 6) + 6) % 6})`;
}

/** A colour of its own for each of `count` things, light enough for a dark page by --hue-light. */
export function hue(index, count) {
  return `hsl(${Math.round((205 + (360 * index) / Math.max(count, 1)) % 360)} 62% var(--hue-light))`;
}
