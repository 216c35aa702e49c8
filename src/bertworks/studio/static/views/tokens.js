// Tokens: every loaded tokenizer side by side, with ids and offsets, and the steps that lead to the pieces of a word.

import { debounce, field, fill, h, shading } from "../lib/dom.js";
import { downloads } from "../lib/download.js";
import { latest } from "../lib/api.js";
import { pictureOf, sectionPicture } from "../lib/picture.js";
import { colour } from "../lib/svg.js";
import { slicer } from "../lib/text.js";

export const title = "Tokens";
export const hint = "How each loaded tokenizer cuts the same text. Press a token to see how its word was cut, step by step.";

const SAMPLES = [
  "The animal didn't cross the street because it was too tired",
  "Unbelievably, tokenization isn't straightforward: naïve cafés, e-mails, 3.14159 and 東京.",
  "antidisestablishmentarianism",
];
const NAMES = { WordPiece: "WordPiece", BPE: "byte-pair encoding", Unigram: "unigram", WordLevel: "whole words" };
const CLOSED = { tokenizer: null, word: null, step: null }; // the state without a step player
const BEFORE = 20; // characters before the marked ones: on a phone the line has room for 40

export function mount(root, context) {
  const text = h("textarea", { rows: 3, value: context.state.text ?? SAMPLES[0], spellcheck: "false" });
  const cards = h("div", {});
  const ask = latest(shading(cards));
  const askSteps = latest();
  const player = h("div", { "aria-live": "polite" });
  const traced = h("p", { class: "traced" });
  const later = debounce(() => run({ replace: true }), 350);
  let answer = null;
  let timer = 0;

  /** `keep`: the step player of the address is opened again. */
  async function run({ keep = false, replace = false } = {}) {
    const asked = text.value;
    later.cancel();
    clearInterval(timer);
    askSteps.cancel();
    fill(player);
    context.setState(keep ? { text: asked } : { text: asked, ...CLOSED }, { replace });
    if (!asked.trim()) {
      ask.cancel();
      answer = null;
      fill(cards, h("p", { class: "soft" }, "The text is empty: write something first."));
      return;
    }
    const found = await ask((signal) => context.api.post("/api/tokens", { text: asked }, { signal }));
    if (!found) return;
    answer = { text: asked, ...found };
    draw();
    const { tokenizer, word, step } = context.state;
    if (keep && tokenizer && Array.isArray(word)) play(tokenizer, word, step);
  }

  function light(start, end) {
    for (const piece of cards.querySelectorAll("[data-start]")) {
      piece.classList.toggle("lit", start !== null && Number(piece.dataset.start) < end && Number(piece.dataset.end) > start);
    }
    if (start === null) {
      fill(traced);
      return;
    }
    const cut = slicer(answer.text);
    fill(traced, start > BEFORE ? "…" : "", cut(Math.max(0, start - BEFORE), start), h("mark", {}, cut(start, end)), cut(end, end + 60), cut(end + 60) ? "…" : "");
  }

  function draw() {
    const most = Math.max(...answer.tokenizers.map((one) => one.count));
    fill(cards, answer.tokenizers.map((one) => h("section", { class: "card tokenizer", "data-tokenizer": one.name },
      h("h2", {}, one.name),
      h("p", { class: "soft" }, `${NAMES[one.kind] ?? one.kind}, ${one.vocabSize.toLocaleString("en")} tokens in the vocabulary · this text: `, h("b", { "data-count": one.count }, `${one.count.toLocaleString("en")} tokens`),
        answer.tokenizers.length > 1 && most > 0 ? ` (${Math.round((100 * one.count) / most)}% of the longest)` : ""),
      h("ul", { class: "pieces" }, pieces(one)),
      one.count > one.tokens.length && h("p", { class: "soft" }, `The first ${one.tokens.length.toLocaleString("en")} are shown.`))));
  }

  /** Neighbouring words have different colours. */
  function pieces(tokenizer) {
    let number = 0;
    return tokenizer.tokens.map((token, index) => {
      if (index > 0 && String(token.word) !== String(tokenizer.tokens[index - 1].word)) number += 1;
      return piece(tokenizer, token, number);
    });
  }

  function piece(tokenizer, token, number) {
    const content = [h("code", {}, token.token), h("small", {}, token.id), h("small", {}, token.special ? "added" : `${token.start}–${token.end}`)];
    return h("li", {}, h("button", {
      type: "button", class: token.special ? "special" : null, style: { "--c": token.special ? "transparent" : token.unknown ? "var(--c1)" : colour(number % 2 ? 2 : 0) },
      "data-start": token.special ? null : token.start, "data-end": token.special ? null : token.end, "data-id": token.id,
      title: token.special ? "added by the tokenizer" : token.unknown ? "unknown to this tokenizer" : "press for the steps",
      onpointerenter: () => (token.special ? light(null) : light(token.start, token.end)), onpointerleave: () => light(null),
      onfocus: () => (token.special ? light(null) : light(token.start, token.end)), onblur: () => light(null),
      onclick: () => token.word && play(tokenizer.name, token.word, 0),
    }, content));
  }

  async function play(tokenizer, [start, end], first = 0) {
    clearInterval(timer);
    [...cards.children].find((card) => card.dataset.tokenizer === tokenizer)?.after(player); // behind the token that was pressed
    context.setState({ tokenizer, word: [start, end], step: first || null }, { replace: true });
    const found = await askSteps((signal) => context.api.post("/api/tokens/steps", { tokenizer, text: answer.text, start, end }, { signal }));
    if (!found) return;
    const close = () => { clearInterval(timer); fill(player); context.setState(CLOSED, { replace: true }); };
    if (!found.steps.length) {
      fill(player, h("section", { class: "card" }, h("div", { class: "spread" }, h("h2", {}, `“${found.word}” in ${tokenizer}`), h("button", { type: "button", class: "quiet", onclick: close }, "Close")), h("p", {}, `${found.note.charAt(0).toUpperCase()}${found.note.slice(1)}.`)));
      return;
    }
    const last = found.steps.length - 1;
    let step = Math.min(Math.max(Number(first) || 0, 0), last);
    const pieces = h("div", { class: "steps" });
    const note = h("p", {});
    const slider = h("input", { type: "range", min: 0, max: last, value: step });
    const go = (to) => {
      step = Math.min(Math.max(to, 0), last);
      const { pieces: shown, new: fresh, note: said, rest } = found.steps[step];
      fill(pieces, shown.map((one, index) => h("code", { class: index === fresh ? "new" : null }, one)), rest && h("code", { class: "rest" }, rest));
      note.textContent = `Step ${step} of ${last}: ${said}.`;
      slider.value = step;
      context.setState({ step: step || null }, { replace: true, later: true });
      back.disabled = step === 0;
      next.disabled = step === last;
    };
    const back = h("button", { type: "button", onclick: () => { stop(); go(step - 1); } }, "Back");
    const next = h("button", { type: "button", onclick: () => { stop(); go(step + 1); } }, "Next");
    const playing = h("button", { type: "button", class: "main", onclick: () => (timer ? stop() : start_()) }, "Play");
    function stop() { clearInterval(timer); timer = 0; playing.textContent = "Play"; }
    function start_() {
      if (step === last) go(0);
      playing.textContent = "Pause";
      timer = setInterval(() => { go(step + 1); if (step === last) stop(); }, 800);
    }
    slider.addEventListener("input", () => { stop(); go(Number(slider.value)); });
    fill(player, h("section", { class: "card", "data-player": tokenizer },
      h("div", { class: "spread" }, h("h2", {}, `“${found.word}” in ${tokenizer}`), h("div", { class: "row" }, downloads("steps", { getSvg: sectionPicture, getData: () => ({ tokenizer, ...found }) }), h("button", { type: "button", class: "quiet", "data-undrawn": true, onclick: close }, "Close"))),
      pieces, note, h("div", { class: "row", "data-undrawn": true }, back, playing, next, field("Step", slider))));
    timer = 0;
    go(step);
    player.scrollIntoView({ block: "nearest" });
  }

  text.addEventListener("input", () => {
    context.setState({ text: text.value, ...CLOSED }, { replace: true, later: true });
    later();
  });
  fill(root,
    h("section", { class: "card" }, field("Text", text),
      h("div", { class: "samples", role: "group", "aria-label": "Examples" }, SAMPLES.map((sample) => h("button", { type: "button", onclick: () => { text.value = sample; run(); } }, sample))),
      h("div", { class: "spread" }, traced, downloads("tokens", { getSvg: () => pictureOf(cards), getData: () => answer }))),
    cards);
  run({ keep: true, replace: true });
  return () => {
    clearInterval(timer);
    later.cancel();
    ask.cancel();
    askSteps.cancel();
  };
}
