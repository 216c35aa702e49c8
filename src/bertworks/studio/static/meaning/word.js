// One word in several sentences: how its vectors part from layer to layer.

import { latest } from "../lib/api.js";
import { field, fill, h, keepTyped, selectNamed, shading } from "../lib/dom.js";
import { downloads } from "../lib/download.js";
import { sectionPicture } from "../lib/picture.js";
import { groupColours, legend, lines, matrix, narrow, newReadout, scatter } from "../lib/plot.js";
import { extent } from "../lib/svg.js";
import { shortened, slicer } from "../lib/text.js";
import { embedders, noModel, parseLines } from "./shared.js";

const SAMPLES = {
  apple: [
    "fruit\tShe ate an apple after lunch.", "fruit\tThe apple fell from the tree.", "fruit\tHe baked the apple with cinnamon.",
    "company\tApple unveiled a new phone.", "company\tShares of Apple rose by two percent.", "company\tShe works as an engineer at Apple.",
  ].join("\n"),
  bank: [
    "money\tThe bank raised its interest rates.", "money\tHe opened an account at the bank.", "money\tThe bank refused the loan.",
    "river\tThey sat on the bank of the river.", "river\tThe boat drifted to the bank.", "river\tReeds grow along the bank.",
  ].join("\n"),
};

export function mountWord(root, context) {
  const names = embedders(context);
  if (!names.length) return void fill(root, h("div", { class: "card" }, noModel()));
  const result = h("div", {});
  const newest = latest(shading(result));
  const state = context.state;
  let data = null;
  let answer = null;
  let layer = Number.isInteger(state.layer) && state.layer >= 0 ? state.layer : null;

  const word = h("input", { type: "text", size: 14, value: state.word ?? "apple" });
  const text = h("textarea", { rows: 7, spellcheck: "false", class: "code" });
  text.value = state.sentences ?? SAMPLES.apple;
  keepTyped(context, { word, sentences: text });
  const model = selectNamed(names, state.model, () => draw());

  async function draw({ replace = false } = {}) {
    const { texts, labels } = parseLines(text.value);
    const asked = { model: model.value, word: word.value };
    context.setState({ tab: "word", ...asked, sentences: text.value, layer: layer ?? undefined }, { replace });
    const found = await newest((signal) => context.api.post("/api/meaning/word", { ...asked, sentences: texts }, { signal }));
    if (!found) return;
    data = { texts, labels, model: asked.model };
    answer = found;
    show();
  }

  function show() {
    const last = answer.layers.length - 1;
    if (layer === null || layer > last) layer = last;
    const groups = answer.places.map((place) => data.labels?.[place.sentence] ?? "");
    const colours = groupColours(groups);
    const slider = h("input", { type: "range", min: 0, max: last, step: 1, value: layer });
    const told = h("output", {});
    const which = [h("small", {}), h("small", {})]; // of both sections that show one layer
    const picture = h("div", {});
    const table = h("div", {});

    function drawLayer() {
      const one = answer.layers[layer];
      told.textContent = `${one.layer} of ${answer.layers[last].layer}${one.layer === 0 ? " (before it sees the sentence)" : ""}`;
      for (const small of which) small.textContent = ` at layer ${one.layer}`;
      fill(picture, scatter({
        points: one.points.map(([x, y], index) => ({ x, y, text: data.texts[answer.places[index].sentence], short: around(index), colour: colours.get(groups[index]) })),
        label: `“${answer.word}” in ${answer.places.length} places at layer ${one.layer}`,
        width: narrow() ? 400 : 620, height: narrow() ? 320 : 400,
      }).svg);
      const heads = (name) => answer.places.map((place, index) => ({ name: name(index), title: data.texts[place.sentence] }));
      fill(table, matrix({ rows: heads(around), columns: heads((index) => String(index + 1)), values: one.cosines, low: extent(one.cosines.flat())[0], high: 1, caption: `Cosines of the places at layer ${one.layer}` }));
    }
    slider.addEventListener("input", () => { layer = Number(slider.value); drawLayer(); });
    slider.addEventListener("change", () => context.setState({ layer }, { replace: true }));

    const readout = newReadout();
    const means = series(groups);
    const curve = lines({ series: means, label: "Mean cosine of the places at each layer", across: "layer", up: "mean cosine", dots: true, readout, width: narrow() ? 400 : 620, height: 280 });
    fill(result,
      h("section", {},
        h("div", { class: "spread" }, h("h2", {}, `“${answer.word}” in ${answer.places.length} places`, which[0]),
          downloads("word", { getSvg: sectionPicture, getData: () => ({ model: data.model, sentences: data.texts, labels: data.labels, ...answer }) })),
        h("p", { class: "soft" }, "Each point is the word in one sentence. At layer 0 the word's vectors differ by position alone; ",
          "the layers above draw in the rest of the sentence."),
        h("div", { class: "row", "data-undrawn": true }, field("Layer", slider), told),
        data.labels ? legend([...colours].map(([name, paint]) => [name, paint])) : null,
        h("div", { class: "columns wide" }, picture, h("div", {}, h("ol", { class: "places" }, answer.places.map((place, index) => sentence(place, colours.get(groups[index]))))))),
      h("div", { class: "columns" },
        h("section", {}, h("div", { class: "spread" }, h("h2", {}, "How alike the places are"), downloads("word-layers", {
          getSvg: sectionPicture, getData: () => ({ model: data.model, word: answer.word, means: means.map(({ name, points }) => ({ name, points })) }) })), curve, readout,
          legend(means.map((one) => [one.name, one.colour]))),
        h("section", {}, h("div", { class: "spread" }, h("h2", {}, "Cosine of every two places", which[1]),
          downloads(() => `word-cosines-layer-${answer.layers[layer].layer}`, {
            getSvg: sectionPicture, getData: () => ({ model: data.model, word: answer.word, sentences: data.texts, places: answer.places, ...answer.layers[layer] }) })), table)));
    drawLayer();
  }

  /** The words around a place. */
  function around(index) {
    const { sentence: at, start, end } = answer.places[index];
    const cut = slicer(data.texts[at]);
    const [before] = /(?:\S+\s+){0,2}\S*$/.exec(cut(Math.max(0, start - 60), start));
    const [after] = /^\S*(?:\s+\S+){0,2}/.exec(cut(end, end + 60));
    return shortened(`${index + 1} ${before}${cut(start, end)}${after}`.replace(/\s+/g, " "), 32);
  }
  function sentence(place, paint) {
    const cut = slicer(data.texts[place.sentence]);
    return h("li", { style: { "--c": paint } }, cut(0, place.start), h("mark", {}, cut(place.start, place.end)), cut(place.end));
  }
  /** Means over pairs: of the same label and of different ones, where there are labels. */
  function series(groups) {
    const mean = (one, keep) => {
      const found = [];
      one.cosines.forEach((row, i) => row.forEach((value, j) => { if (i < j && keep(i, j)) found.push(value); }));
      return found.length ? found.reduce((a, b) => a + b) / found.length : NaN;
    };
    const curve = (keep) => answer.layers.map((one) => [one.layer, mean(one, keep)]);
    if (new Set(groups).size < 2) return [{ name: "all pairs", colour: "var(--c0)", points: curve(() => true) }];
    return [
      { name: "same label", colour: "var(--c0)", points: curve((i, j) => groups[i] === groups[j]) },
      { name: "different labels", colour: "var(--c1)", points: curve((i, j) => groups[i] !== groups[j]) },
    ];
  }

  fill(root,
    h("form", { class: "card", onsubmit: (event) => { event.preventDefault(); draw(); } },
      field("Sentences, one in each line; a label may stand before a tab", text),
      h("div", { class: "row" }, field("Word", word), field("Model", model), h("button", { class: "main", type: "submit" }, "Compare")),
      h("div", { class: "samples" }, Object.keys(SAMPLES).map((name) =>
        h("button", { type: "button", onclick: () => { word.value = name; text.value = SAMPLES[name]; draw(); } }, name)))),
    result);
  draw({ replace: true });
  return newest.cancel;
}
