// Cloze: press a word to mask it, and see what the model puts there, mask by mask, jointly, and layer by layer.

import { debounce, field, fill, h, percent, scroller, selectNamed, shading } from "../lib/dom.js";
import { downloads } from "../lib/download.js";
import { latest } from "../lib/api.js";
import { sectionPicture } from "../lib/picture.js";
import { bars } from "../lib/plot.js";

export const title = "Cloze";
export const hint = "Press a word to mask it. The model says what it would put there, and what each of its layers would have said.";

const MASK = "[MASK]";
const MOST_WORDS = 600; // that can be pressed
const SAMPLES = [
  "Paris is the capital of France.",
  "The animal didn't cross the street because it was too tired",
  "The doctor asked the nurse to help her.",
  "今天天气很好。",
];
// [MASK] as it is typed, single Han characters (each is a token), words with inner apostrophes, other signs.
const WORD = /\[MASK\]|\p{Script=Han}|[\p{L}\p{N}\p{M}]+(?:['’-][\p{L}\p{N}\p{M}]+)*|[^\s]/gu;

/** [{text, start, end}] */
export function splitWords(text) {
  return [...text.matchAll(WORD)].map((match) => ({ text: match[0], start: match.index, end: match.index + match[0].length }));
}

/** The text with the words `masked` (numbers) replaced, and what stood at each mask ("" where it was typed as a mask). */
export function maskText(text, masked) {
  const originals = [];
  let result = "";
  let last = 0;
  splitWords(text).forEach((word, number) => {
    const hidden = masked.includes(number);
    if (!hidden && word.text !== MASK) return;
    result += text.slice(last, word.start) + MASK;
    last = word.end;
    originals.push(word.text === MASK ? "" : word.text);
  });
  return { text: result + text.slice(last), originals };
}

export function mount(root, context) {
  const able = context.models.filter((model) => model.can.includes("cloze"));
  if (!able.length) {
    fill(root, h("p", { class: "notice" }, "None of the loaded models can fill masks: that takes a masked-language-model head. Start the studio with one: “bertworks studio bertworks-en”, or a finished run of “bertworks pretrain --recipe bert”."));
    return undefined;
  }
  const results = h("div", { "aria-live": "polite" });
  const ask = latest(shading(results));
  let masked = Array.isArray(context.state.masks) ? context.state.masks.filter(Number.isInteger) : [];
  let answer = null;

  const model = selectNamed(able.map((one) => one.name), context.state.model, () => changed());
  const text = h("textarea", { rows: 2, value: context.state.text ?? SAMPLES[0], spellcheck: "false" });
  const words = h("p", { class: "words", role: "group", "aria-label": "Words: press one to mask it" });
  const more = h("p", { class: "soft" });
  const later = debounce(() => run(), 500); // a mask may have been typed
  text.addEventListener("input", () => {
    masked = [];
    answer = null;
    ask.cancel();
    fill(results);
    drawWords();
    context.setState({ text: text.value, masks: [] }, { replace: true, later: true });
    later();
  });

  function changed(options) {
    later.cancel();
    context.setState({ model: model.value, text: text.value, masks: masked }, options);
    drawWords();
    run();
  }

  function toggle(number) {
    masked = masked.includes(number) ? masked.filter((one) => one !== number) : [...masked, number].sort((one, other) => one - other);
    changed();
    words.querySelector(`[data-word="${number}"]`)?.focus();
  }

  function drawWords() {
    const source = text.value;
    const found = splitWords(source);
    const parts = [];
    let last = 0;
    found.slice(0, MOST_WORDS).forEach((word, number) => {
      if (word.start > last) parts.push(source.slice(last, word.start));
      last = word.end;
      if (word.text === MASK) { parts.push(h("b", { class: "code" }, MASK)); return; }
      const hidden = masked.includes(number);
      parts.push(h("button", {
        type: "button", "data-word": number, "aria-pressed": String(hidden),
        "aria-label": hidden ? `${word.text}, masked` : word.text, title: hidden ? `${word.text}: press to show it again` : "press to mask", onclick: () => toggle(number),
      }, hidden ? MASK : word.text));
    });
    fill(words, parts, last > 0 ? source.slice(last, last + 200) : null);
    more.textContent = found.length > MOST_WORDS ? `The first ${MOST_WORDS} words can be pressed. To mask one that stands further on, write [MASK] in the text.` : "";
  }

  async function run() {
    const { text: gapped, originals } = maskText(text.value, masked);
    if (!originals.length) {
      answer = null;
      ask.cancel();
      fill(results, h("p", { class: "soft" }, text.value.trim() ? "Nothing is masked yet: press a word, or write [MASK] in the text." : "The text is empty: write something first."));
      return;
    }
    const asked = { model: model.value, text: gapped, originals };
    const found = await ask((signal) => context.api.post("/api/cloze", asked, { signal }));
    if (!found) return;
    answer = { model: asked.model, text: gapped, ...found, words: originals };
    context.announce(`${originals.length} ${originals.length === 1 ? "mask" : "masks"} filled by ${asked.model}.`);
    drawResults();
  }

  /** Put a word in the place of mask number `mask`. */
  function put(mask, token) {
    const source = text.value;
    const before = splitWords(source);
    let seen = -1;
    let result = source;
    let filled = 0; // the word's number
    before.forEach((word, number) => {
      if (word.text !== MASK && !masked.includes(number)) return;
      seen += 1;
      if (seen === mask) {
        result = token.startsWith("##")
          ? source.slice(0, word.start).trimEnd() + token.slice(2) + source.slice(word.end)
          : source.slice(0, word.start) + token + source.slice(word.end);
        filled = number;
      }
    });
    text.value = result;
    const more = splitWords(result).length - before.length; // a piece that joins the word before it makes one word less
    masked = masked.filter((one) => one !== filled).map((one) => (one > filled ? one + more : one));
    changed();
  }

  function drawResults() {
    const several = answer.masks.length > 1;
    fill(results,
      h("div", { class: "columns" }, answer.masks.map((best, mask) => h("section", { class: "card" },
        h("div", { class: "spread" },
          h("h2", {}, several ? `Mask ${mask + 1}` : "Behind the mask", answer.words[mask] ? h("small", {}, ` · was “${answer.words[mask]}”`) : null),
          downloads(`cloze-mask-${mask + 1}`, { getSvg: sectionPicture, getData: () => ({ model: answer.model, text: answer.text, mask: mask + 1, word: answer.words[mask], best }) })),
        bars(best.map((one) => ({ value: one.probability,
          node: h("button", { type: "button", class: "link", title: "put it into the text", onclick: () => put(mask, one.token) }, one.token) })), { text: percent })))),
      several && h("section", { class: "card joint" },
        h("div", { class: "spread" }, h("h2", {}, "All masks together"), downloads("cloze-joint", { getSvg: sectionPicture, getData: () => ({ model: answer.model, text: answer.text, joint: answer.joint }) })),
        h("p", { class: "soft" }, "The surest mask is filled first, the next one given it, so that the answers fit each other."),
        scroller("All masks together", h("table", {}, h("tbody", {}, answer.joint.map((one) => h("tr", {}, h("td", {}, percent(one.probability)), h("td", {}, one.text))))))),
      h("section", { class: "card" },
        h("div", { class: "spread" }, h("h2", {}, "What each layer would have said"), downloads("cloze", { getSvg: sectionPicture, getData: () => answer })),
        h("p", { class: "soft" }, "The head was trained on the last layer; put on the layers below, it shows how the answer forms. Layer 0 is the embeddings. Underlined: the word that stood there."),
        scroller("What each layer would have said", layerTable())));
  }

  function layerTable() {
    const numbers = answer.layers.map((_, layer) => layer).reverse();
    const several = answer.masks.length > 1;
    const ranks = (entry) => (entry.original ? `${percent(entry.original.probability)} · place ${entry.original.rank.toLocaleString("en")}` : "");
    const head = ["layer", ...answer.masks.flatMap((_, mask) => [several ? `mask ${mask + 1}: first` : "first", "second", "third", ...(answer.originals[mask] ? [`“${answer.words[mask]}”`] : [])])];
    return h("table", { class: "layers" },
      h("thead", {}, h("tr", {}, head.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, numbers.map((layer) => h("tr", {}, h("th", { scope: "row" }, layer),
        answer.layers[layer].flatMap((entry, mask) => [
          ...[0, 1, 2].map((place) => {
            const one = entry.best[place];
            if (!one) return h("td", {});
            return h("td", { style: { "--w": one.probability } }, h("span", { class: one.was ? "was" : null }, one.token), h("small", {}, percent(one.probability)));
          }),
          answer.originals[mask] ? h("td", {}, h("small", {}, ranks(entry))) : null,
        ])))));
  }

  fill(root,
    h("section", { class: "card" }, h("div", { class: "row" }, h("div", { class: "field wide" }, field("Text", text)), field("Model", model)),
      h("div", { class: "samples", role: "group", "aria-label": "Examples" }, SAMPLES.map((sample) =>
        h("button", { type: "button", onclick: () => { text.value = sample; masked = []; changed(); } }, sample))),
      h("h3", {}, "Press a word"), words, more),
    results);
  drawWords();
  run();
  return () => {
    later.cancel();
    ask.cancel();
  };
}
