// Attention: the form, and the picture of what the model answered.

import { field, fill, h, selectNamed, shading } from "../lib/dom.js";
import { latest } from "../lib/api.js";
import { showPicture } from "../attention/panel.js";
import { opening, SAMPLES } from "../attention/samples.js";
import { readWeights } from "../attention/weights.js";

export const title = "Attention";
export const hint = "Every head of every layer decides for each token how much it looks at the others. See who looks at whom.";

/** What the state says of a picture, beside its text: with another text it is void. */
const PICTURE = { layer: null, heads: null, links: null, zoom: null, cell: null, filter: null, among: null, pick: null, parts: null };

export function mount(root, context) {
  const able = context.models.filter((model) => model.can.includes("attention") || model.can.includes("alignment"));
  if (!able.length) {
    fill(root, h("p", { class: "notice" }, "None of the loaded models has attention. Start the studio with a Transformer, for example “bertworks studio minilm”."));
    return undefined;
  }
  const place = h("div", {});
  const ask = latest(shading(place));
  let shown = null;
  let asked = null; // {model, text, pair} of the picture
  let told = PICTURE; // and what it was told
  const model = selectNamed(able.map((one) => one.name), context.state.model, () => { labels(); run({ fresh: true }); });
  const text = h("textarea", { rows: 2, value: context.state.text ?? SAMPLES[0].text, spellcheck: "false", oninput: typed });
  const pair = h("input", { type: "text", value: context.state.pair ?? "", spellcheck: "false", oninput: typed });
  const pairField = field("Second text (optional)", pair, { wide: true });
  const button = h("button", { type: "submit", class: "main" }, "Look");
  const form = h("form", { class: "card", onsubmit: (event) => { event.preventDefault(); run({ fresh: true }); } },
    field("Text", text),
    h("div", { class: "row" }, field("Model", model), pairField, button),
    h("div", { class: "samples", role: "group", "aria-label": "Examples" }, SAMPLES.map((sample) =>
      h("button", { type: "button", onclick: () => { text.value = sample.text; pair.value = sample.pair ?? ""; run({ fresh: true }); } },
        sample.pair ? `${sample.text} / ${sample.pair}` : sample.text))));
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); form.requestSubmit(); }
  });

  // The address has the text of the form, and of the picture what belongs to that text.
  const inForm = () => ({ text: text.value, pair: pair.value || null });
  const fitting = () => (asked.text === text.value && asked.pair === (pair.value || null) ? told : { ...told, ...PICTURE });
  const own = {
    get state() {
      return { ...context.state, ...told };
    },
    setState(patch, options) {
      told = { ...told, ...patch };
      context.setState(fitting(), options);
    },
  };
  function typed() {
    context.setState({ ...inForm(), ...fitting() }, { replace: true, later: true });
  }

  function labels() {
    const translates = able.find((one) => one.name === model.value)?.kind === "translation";
    pairField.querySelector("label").textContent = translates ? "Its translation (left empty, the model writes it)" : "Second text (optional)";
  }

  async function run({ fresh }) {
    asked = { model: model.value, ...inForm() };
    told = fresh ? PICTURE : Object.fromEntries(Object.keys(PICTURE).map((key) => [key, context.state[key] ?? null]));
    context.setState({ ...told, ...asked }, { replace: !fresh });
    const found = await ask(async (signal) => {
      const payload = await context.api.post("/api/attention", asked, { signal });
      return { payload, weights: await readWeights(payload) };
    });
    if (!found) return;
    const { payload, weights } = found;
    if (!told.layer) own.setState(opening(payload, weights), { replace: true });
    shown?.unmount();
    shown = showPicture(place, payload, weights, own);
    pair.placeholder = payload.kind === "alignment" ? payload.pair : "";
    const what = payload.kind === "alignment" ? `${payload.rows.length} words written for ${payload.columns.length} words read` : `${payload.rows.length} tokens`;
    context.announce(`${what}, ${payload.layers} layers with ${payload.heads} ${payload.heads === 1 ? "head" : "heads"} each.`);
  }

  fill(root, form, place);
  labels();
  run({ fresh: false });
  return () => {
    ask.cancel();
    shown?.unmount();
  };
}
