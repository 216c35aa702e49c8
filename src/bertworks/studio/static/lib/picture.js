// A part of the page as an SVG picture: its boxes, bars and letters, where the screen has them. So bars, tables, marked texts and
// tokens, which are HTML because they can be pressed, are downloaded like the plots. What a picture cannot do is left out.

import { h } from "./dom.js";
import { styled } from "./download.js";
import { s } from "./svg.js";

const LEFT_OUT = ".hidden, input, select, textarea"; // beside what .drawn takes away (style.css): buttons and hints for them
const MARGIN = 16;

/** What is within `root`, a shown element, as an SVG that needs no style sheet. */
export function pictureOf(root) {
  const scrolled = [document.scrollingElement, ...root.querySelectorAll(".scroll")].map((one) => [one, one.scrollLeft, one.scrollTop]);
  const focused = document.activeElement;
  const sheet = { marks: [], left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
  root.classList.add("drawn"); // taken back before anything is painted
  for (const [one] of scrolled) one.scrollTo(0, 0); // a file is not scrolled
  for (const child of root.childNodes) draw(child, sheet);
  root.classList.remove("drawn");
  for (const [one, left, top] of scrolled) one.scrollTo(left, top);
  focused?.focus({ preventScroll: true });
  if (!sheet.marks.length) return s("svg", { viewBox: "0 0 1 1" });
  const box = [sheet.left - MARGIN, sheet.top - MARGIN, sheet.right - sheet.left + 2 * MARGIN, sheet.bottom - sheet.top + 2 * MARGIN];
  return s("svg", { viewBox: box.map(Math.round).join(" "), "xml:space": "preserve" }, sheet.marks);
}

function draw(node, sheet) {
  if (node instanceof Text) return void drawText(node, sheet);
  if (!(node instanceof Element) || node.matches(LEFT_OUT)) return;
  if (node instanceof SVGSVGElement) return void drawPlot(node, sheet);
  const style = getComputedStyle(node);
  for (const box of node.getClientRects()) drawBox(box, style, sheet); // one for each line on which it stands
  for (const child of node.childNodes) draw(child, sheet);
}

function put(sheet, { left, top, right, bottom }, ...marks) {
  sheet.left = Math.min(sheet.left, left);
  sheet.top = Math.min(sheet.top, top);
  sheet.right = Math.max(sheet.right, right);
  sheet.bottom = Math.max(sheet.bottom, bottom);
  sheet.marks.push(...marks);
}

function drawPlot(svg, sheet) {
  const box = svg.getBoundingClientRect();
  if (!box.width) return;
  const copy = styled(svg);
  for (const [name, value] of Object.entries({ x: box.x, y: box.y, width: box.width, height: box.height })) copy.setAttribute(name, value.toFixed(2));
  put(sheet, box, copy);
}

const SIDES = {
  Top: ({ left, top, right }) => [left, top, right, top],
  Bottom: ({ left, right, bottom }) => [left, bottom, right, bottom],
  Left: ({ left, top, bottom }) => [left, top, left, bottom],
  Right: ({ right, top, bottom }) => [right, top, right, bottom],
};

/** The ground of an element, and its border: a frame where it is the same all around, a line for each side otherwise. */
function drawBox(box, style, sheet) {
  if (!box.width || !box.height) return;
  const ground = colour(style.backgroundColor);
  const borders = Object.keys(SIDES)
    .map((side) => ({ side, width: parseFloat(style[`border${side}Width`]), kind: style[`border${side}Style`], paint: colour(style[`border${side}Color`]) }))
    .filter(({ width, kind, paint }) => width && kind !== "none" && paint.opacity);
  const [first] = borders;
  const framed = borders.length === 4 && borders.every(({ width, kind, paint }) => width === first.width && kind === first.kind && paint.rgb === first.paint.rgb);
  if (!ground.opacity && !borders.length) return;
  const inset = framed ? first.width / 2 : 0;
  const radius = style.borderTopLeftRadius.endsWith("%") ? (parseFloat(style.borderTopLeftRadius) * box.width) / 100 : parseFloat(style.borderTopLeftRadius);
  if (ground.opacity || framed)
    put(sheet, box, s("rect", {
      x: place(box.x + inset), y: place(box.y + inset), width: place(box.width - 2 * inset), height: place(box.height - 2 * inset),
      rx: radius ? place(Math.min(radius, box.width / 2, box.height / 2)) : null,
      fill: ground.opacity ? ground.rgb : "none", "fill-opacity": ground.opacity < 1 ? ground.opacity : null, ...(framed ? stroke(first) : {}),
    }));
  if (framed) return;
  for (const border of borders) {
    const [x1, y1, x2, y2] = SIDES[border.side](box).map(place);
    put(sheet, box, s("line", { x1, y1, x2, y2, ...stroke(border) }));
  }
}

function stroke({ width, kind, paint }) {
  return { stroke: paint.rgb, "stroke-opacity": paint.opacity < 1 ? paint.opacity : null, "stroke-width": width, "stroke-dasharray": kind === "dashed" || kind === "dotted" ? `${2 * width} ${2 * width}` : null };
}

function drawText(node, sheet) {
  if (!node.data.trim()) return;
  const style = getComputedStyle(node.parentElement);
  const ink = colour(style.color);
  const line = style.textDecorationLine === "underline" ? "underline" : null;
  const { ascent, descent } = measure(`${style.fontWeight} ${style.fontSize} ${style.fontFamily}`);
  for (const { text, left, top, right, bottom } of linesOf(node, style.whiteSpace.startsWith("pre"))) {
    put(sheet, { left, top, right, bottom }, s("text", {
      x: place(left), y: place((top + bottom + ascent - descent) / 2), textLength: place(right - left), lengthAdjust: "spacingAndGlyphs", // another font takes the same room
      fill: ink.rgb, "fill-opacity": ink.opacity < 1 ? ink.opacity : null, "text-decoration": line,
      "font-family": style.fontFamily, "font-size": style.fontSize, "font-weight": style.fontWeight,
    }, text));
  }
}

/** The lines in which the screen shows a text: [{text, left, top, right, bottom}]. */
function linesOf(node, spaced) {
  const range = document.createRange();
  const boxes = (start, end) => {
    range.setStart(node, start);
    range.setEnd(node, end);
    return [...range.getClientRects()].filter((box) => box.width);
  };
  const found = [];
  let behind = 0; // what was seen of the text
  const add = (start, end, box) => {
    const last = found.at(-1);
    const between = node.data.slice(behind, start);
    const text = node.data.slice(start, end);
    behind = end;
    if (last && Math.abs(last.top - box.top) < 2 && box.left >= last.right - 1) {
      last.text += (spaced ? between : between.replace(/\s+/g, " ")) + text;
      last.right = box.right;
    } else found.push({ text, left: box.left, top: box.top, right: box.right, bottom: box.bottom });
  };
  for (const word of node.data.matchAll(/\S+/g)) {
    const end = word.index + word[0].length;
    const own = boxes(word.index, end);
    if (own.length === 1) add(word.index, end, own[0]);
    else if (own.length) { // a long word that goes on in the next line
      let at = word.index;
      for (const sign of word[0]) {
        const [box] = boxes(at, at + sign.length);
        if (box) add(at, at + sign.length, box);
        at += sign.length;
      }
    }
  }
  return found;
}

const place = (value) => Number(value.toFixed(2));

const sample = h("canvas", { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });

/** A computed colour in the way that every program reads: color-mix() and color() are for browsers. */
function colour(text) {
  sample.clearRect(0, 0, 1, 1);
  sample.fillStyle = text;
  sample.fillRect(0, 0, 1, 1);
  const [red, green, blue, alpha] = sample.getImageData(0, 0, 1, 1).data;
  return { rgb: `rgb(${red}, ${green}, ${blue})`, opacity: Number((alpha / 255).toFixed(3)) };
}

function measure(font) {
  sample.font = font;
  const { fontBoundingBoxAscent: ascent, fontBoundingBoxDescent: descent } = sample.measureText("x");
  return { ascent, descent };
}

/** For `downloads`: the section in which its buttons stand. */
export function sectionPicture(buttons) {
  return pictureOf(buttons.closest("section"));
}
