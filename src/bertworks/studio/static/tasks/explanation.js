// Which tokens mattered: the text with its tokens coloured, and the strongest of them as bars. The method is always named.

import { h, number, percent } from "../lib/dom.js";
import { downloads } from "../lib/download.js";
import { pictureOf } from "../lib/picture.js";
import { narrow } from "../lib/plot.js";
import { s, scale } from "../lib/svg.js";
import { slicer } from "../lib/text.js";

const STRONGEST = 14;
export const METHODS = { "integrated-gradients": "Integrated gradients", "attention-rollout": "Attention rollout" };

/** The answer of /api/tasks/explain. */
export function showExplanation(found) {
  return [h("p", { class: "soft method" }, found.says), found.explanations.map((one) => showOne(one, found.method))];
}

function showOne(one, method) {
  const signed = method === "integrated-gradients";
  const pieces = merged(one.tokens);
  const largest = (some) => Math.max(...some.map((piece) => Math.abs(piece.value)), 1e-12);
  const words = pieces.filter((piece) => piece.part >= 0); // special tokens often get most of a rollout
  const chart = barChart(pieces, largest(pieces), signed);
  const shown = one.texts.map((text, part) => [text, words.filter((piece) => piece.part === part)]).filter(([, own]) => own.length);
  const box = h("div", { class: "explained" },
    h("h3", {}, `Explained: ${one.of}`, h("small", {}, ` · ${METHODS[method]}`)),
    shown.map(([text, own]) => h("p", { class: "tagged" }, coloured(text, own, largest(words), signed))),
    signed
      ? h("p", { class: "soft" }, "Orange speaks for it, blue against it. ",
          `${number(one.output)} for the text, ${number(one.baseline)} for as much padding; `,
          `the tokens add up to ${number(one.output - one.baseline + one.gap)} of the difference ${number(one.output - one.baseline)}.`)
      : h("p", { class: "soft" }, `The darker, the more of a token arrives. ${percent(specials(pieces))} of it comes from special tokens.`),
    h("div", { class: "spread" }, h("h4", {}, `The strongest ${Math.min(STRONGEST, chart.count)} tokens`),
      downloads("tokens", { getSvg: () => pictureOf(box), getData: () => ({ method, ...one }) })),
    chart.svg);
  return box;
}

/** Tokens that stand for the same characters (bytes of one letter) are one piece. */
function merged(tokens) {
  const pieces = [];
  for (const token of tokens) {
    const last = pieces.at(-1);
    if (last && token.part >= 0 && last.part === token.part && last.start === token.start && last.end === token.end) last.value += token.value;
    else pieces.push({ ...token });
  }
  return pieces;
}

function specials(pieces) {
  return pieces.filter((piece) => piece.part < 0).reduce((sum, piece) => sum + piece.value, 0);
}

function coloured(text, pieces, most, signed) {
  const cut = slicer(text);
  const parts = [];
  let at = 0;
  for (const piece of pieces) {
    if (piece.start > at) parts.push(cut(at, piece.start));
    const start = Math.max(at, piece.start);
    if (piece.end <= start) continue;
    parts.push(h("span", {
      class: `weight ${kind(piece, signed)}`,
      style: { "--w": (Math.abs(piece.value) / most).toFixed(3) },
      "data-value": piece.value.toFixed(4),
      title: `${piece.text} ${signed ? signedNumber(piece.value) : percent(piece.value)}`,
    }, cut(start, piece.end)));
    at = piece.end;
  }
  parts.push(cut(at));
  return parts;
}

function kind(piece, signed) {
  if (!signed) return "much";
  return piece.value >= 0 ? "for" : "against";
}

function signedNumber(value) {
  return `${value >= 0 ? "+" : "−"}${Math.abs(value).toFixed(3)}`;
}

function barChart(pieces, most, signed) {
  const strongest = [...pieces].filter((piece) => piece.value !== 0).sort((one, other) => Math.abs(other.value) - Math.abs(one.value)).slice(0, STRONGEST);
  const [width, line] = [narrow() ? 400 : 620, 22];
  const height = strongest.length * line + 8;
  const left = narrow() ? 100 : 150; // the tokens stand there
  const x = scale(signed ? -most : 0, most, left, width - 70);
  const zero = x(0);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot tokens-chart", role: "img", "aria-label": "The strongest tokens and what each is worth" });
  strongest.forEach((piece, index) => {
    const y = 4 + index * line;
    const end = x(piece.value);
    svg.append(
      s("rect", { x: Math.min(zero, end), y: y + 3, width: Math.max(Math.abs(end - zero), 1), height: line - 8, class: kind(piece, signed) }),
      s("text", { x: left - 10, y: y + 15, "text-anchor": "end", class: "word" }, piece.text),
      s("text", { x: width - 4, y: y + 15, "text-anchor": "end" }, signed ? signedNumber(piece.value) : percent(piece.value)));
  });
  if (signed) svg.append(s("line", { class: "grid", x1: zero, x2: zero, y1: 0, y2: height }));
  return { svg, count: strongest.length };
}
