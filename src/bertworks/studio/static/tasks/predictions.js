// Predictions as pictures: probabilities as bars, entities and answers marked in their text.

import { fill, h, number, percent } from "../lib/dom.js";
import { bars, groupColours, legend } from "../lib/plot.js";
import { slicer } from "../lib/text.js";

const MOST = 30;

/** What a model said of a row. `pick(target)` explains something else: a label, a word, an option, an answer. */
export function showPrediction(said, row, model, pick) {
  const show = { classify: labels, pair: labels, regress: value, choice: options, tag: tags, qa: answers, similarity };
  return show[said.task](said, row, model, pick);
}

function labels(said, row, model, pick) {
  const chosen = new Set([said.label].flat());
  const entries = Object.entries(said.probabilities).sort((one, other) => other[1] - one[1]);
  const shown = entries.slice(0, MOST);
  return [
    h("p", { class: "answer" }, chosen.size ? [...chosen].join(", ") : "no label applies"),
    h("p", { class: "soft" }, model.multi_label ? "Each label is a yes or no of its own." : "Probabilities of the labels; they add up to 1.", h("span", { "data-undrawn": true }, " Choose a label to see which tokens speak for it.")),
    bars(shown.map(([name, share]) => ({ value: share,
      node: h("button", { type: "button", class: chosen.has(name) ? "link chosen" : "link", "data-label": name, onclick: () => pick(name) }, name) })), { text: percent }),
    entries.length > MOST ? h("p", { class: "soft" }, `and ${entries.length - MOST} more, all less likely`) : null,
  ];
}

function value(said) {
  return [h("p", { class: "answer" }, number(said.value, 4)), h("p", { class: "soft" }, "On the scale of the training file.")];
}

function similarity(said) {
  return [h("p", { class: "answer" }, number(said.similarity, 4)), h("p", { class: "soft" }, "Cosine: 1 is the same direction, 0 nothing in common.")];
}

function options(said, row, model, pick) {
  return [
    h("p", { class: "answer" }, row.options[said.option]),
    h("div", { class: "long" }, bars(said.probabilities.map((share, index) => ({ value: share,
      node: h("button", { type: "button", class: index === said.option ? "link chosen" : "link", onclick: () => pick(index) }, row.options[index]) })), { text: percent })),
  ];
}

function tags(said, row, model, pick) {
  const plain = !said.spans.length && new Set(said.tags).size > 1 && !said.tags.includes("O");
  const kinds = plain ? said.tags : said.spans.map((span) => span.label);
  const colours = groupColours([...kinds].sort());
  const cut = slicer(row.text);
  let at = 0;
  const gap = (end) => {
    const between = cut(at, end);
    at = Math.max(at, end);
    return between;
  };
  const word = (index) => {
    const [start, end] = said.offsets[index];
    return [gap(start), h("button", {
      type: "button", class: "word", "data-word": index, title: `${said.tags[index]} ${percent(said.probabilities[index])}`,
      onclick: () => pick(index), style: plain ? { "--c": colours.get(said.tags[index]) } : {},
    }, gap(end), plain ? h("small", {}, said.tags[index]) : null)];
  };
  const parts = [];
  for (let index = 0; index < said.words.length;) {
    const span = said.spans.find((one) => one.first_word === index);
    if (!span) {
      parts.push(word(index++));
      continue;
    }
    parts.push(gap(span.start));
    const inner = [];
    while (index < span.stop_word) inner.push(word(index++));
    parts.push(h("mark", { class: "entity", "data-label": span.label, style: { "--c": colours.get(span.label) } },
      inner, h("small", {}, `${span.label} ${percent(span.probability)}`)));
  }
  parts.push(gap(row.text.length));
  const count = (name) => kinds.filter((one) => one === name).length;
  return [
    h("p", { class: "tagged" }, parts),
    colours.size ? legend([...colours].map(([name, paint]) => [name, paint, count(name)])) : h("p", { class: "soft" }, "No spans were found."),
    h("p", { class: "soft", "data-undrawn": true }, "Choose a word to see which tokens made its tag."),
  ];
}

function answers(said, row, model, pick) {
  const context = h("p", { class: "tagged" });
  const marked = (text) => (text ? h("mark", { class: "entity", style: { "--c": "var(--c0)" } }, text) : null);
  const cut = slicer(row.context);
  const show = (one) => fill(context, cut(0, one.start), marked(cut(one.start, one.end)), cut(one.end));
  show(said);
  const none = said.no_answer_probability > 0 ? h("p", { class: "soft" }, `That the context does not answer it: ${percent(said.no_answer_probability)}.`) : null;
  return [
    h("p", { class: "answer" }, said.text || "The context does not answer this."),
    context, none,
    h("h3", {}, "Best answers"),
    h("div", { class: "long" }, bars(said.candidates.map((one) => ({ value: one.probability,
      node: h("button", { type: "button", class: "link", onclick: () => { show(one); pick([one.start, one.end]); } }, one.text) })), { text: percent })),
  ];
}
