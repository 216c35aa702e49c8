// Fine-tuned models on your text: what they say, and which tokens mattered for it.

import { latest } from "../lib/api.js";
import { field, fill, h, select, selectNamed, shading } from "../lib/dom.js";
import { downloads } from "../lib/download.js";
import { sectionPicture } from "../lib/picture.js";
import { METHODS, showExplanation } from "../tasks/explanation.js";
import { showPrediction } from "../tasks/predictions.js";

export const title = "Tasks";
export const hint = "What a fine-tuned model says of your text, and which tokens mattered for it.";

const CALLED = { text: "Text", pair: "Second text", question: "Question", context: "Context", options: "Options, one in each line" };
const FIRST = { choice: "Beginning", similarity: "First text", pair: "First text" };
const SAMPLES = {
  text: "A slow start, but the last hour is wonderful and the music stays with you.",
  pair: "The film gets better towards its end.",
  question: "Who wrote the report?",
  context: "The report on the harbour was written by Anna Berg in 1998. It was paid for by the city of Gothenburg.",
  options: "She unlocked the door and went in.\nThe sea is salty.\nHe plays the violin.",
};
const BEGINNING = "It began to rain as she reached her house.";
const TAGGED = "Anna Berg flew from Gothenburg to New York to meet the United Nations.";
const SAYS = {
  classify: "One label for a text.", pair: "One label for two texts.", regress: "A number for a text.", choice: "Which option follows best?",
  tag: "A tag for every word; spans are marked.", qa: "The answer is a part of the context.", similarity: "How alike two texts are: the cosine of their vectors.",
};

export function mount(root, context) {
  const result = h("div", {});
  const why = h("div", { class: "why" });
  const progress = h("span", { class: "soft", "aria-live": "polite" });
  const newest = latest(shading(result));
  const newestWhy = latest((busy) => {
    shading(why)(busy);
    progress.textContent = busy ? "Looking at every token…" : "";
  });
  const stop = () => {
    newest.cancel();
    newestWhy.cancel();
  };
  let gone = false;
  context.api.get("/api/tasks").then((found) => {
    if (!gone) start(found);
  }).catch(() => {});

  function start({ models }) {
    const usable = models.filter((one) => one.task);
    if (!usable.length) {
      fill(root, h("div", { class: "card" },
        h("p", { class: "notice" }, "No loaded model was fine-tuned for a task. Train one, and give its directory to the studio:"),
        h("p", {}, h("code", {}, "bertworks finetune classify --train reviews.csv -o my-model")), h("p", {}, h("code", {}, "bertworks studio my-model")),
        others(models)));
      return;
    }
    const form = h("form", { class: "card" });
    const model = selectNamed(usable.map((one) => [one.name, `${one.name} (${one.task})`]), context.state.model, (value) => {
      context.setState({ model: value, method: null, target: null }); // labels and words of another model mean nothing here
      stop();
      fill(result);
      build();
    });
    const typed = { ...context.state.row }; // by field, also of fields that the chosen model does not have
    let inputs = {};

    function build() {
      const one = usable.find((each) => each.name === model.value);
      if (!one) {
        fill(form, h("div", { class: "row" }, field("Model", model)), others(models));
        context.api.post("/api/tasks/predict", { model: model.value, row: {} }).catch(() => {}); // says what is wrong with it
        return;
      }
      inputs = Object.fromEntries(one.fields.map((key) => {
        const input = key === "question" ? h("input", { type: "text" }) : h("textarea", { rows: key === "context" ? 5 : 3 });
        const sample = key === "text" && one.task === "tag" ? TAGGED : key === "text" && one.task === "choice" ? BEGINNING : key === one.optional ? "" : SAMPLES[key];
        input.value = [typed[key] ?? sample].flat().join("\n");
        input.addEventListener("input", () => {
          typed[key] = input.value;
          context.setState({ row: { ...typed } }, { replace: true, later: true });
        });
        return [key, input];
      }));
      fill(form,
        h("div", { class: "row" }, field("Model", model)),
        h("p", { class: "soft" }, SAYS[one.task], one.labels.length ? ` Labels: ${one.labels.slice(0, 12).join(", ")}${one.labels.length > 12 ? " …" : ""}.` : ""),
        one.fields.map((key) => h("div", { class: "row" }, field((key === "text" && FIRST[one.task]) || CALLED[key] + (key === one.optional ? " (may be empty)" : ""), inputs[key], { wide: true }))),
        h("div", { class: "row" }, h("button", { type: "submit", class: "main" }, "Ask the model")),
        others(models));
      form.onsubmit = (event) => {
        event.preventDefault();
        ask(one, {});
      };
      if (one.fields.every((key) => key === one.optional || typed[key]?.length)) ask(one, { replace: true, why: context.state.method });
    }

    function rowOf(one) {
      return Object.fromEntries(one.fields.map((key) => [key, key === "options" ? inputs[key].value.split("\n").filter((line) => line.trim()) : inputs[key].value])
        .filter(([key, value]) => !(key === one.optional && !value.trim())));
    }

    async function ask(one, { replace = false, why = null }) {
      const row = rowOf(one);
      for (const key of one.fields) typed[key] = inputs[key].value;
      context.setState({ model: one.name, row: { ...typed }, method: why ?? undefined, target: why ? context.state.target : undefined }, { replace });
      newestWhy.cancel();
      const said = await newest((signal) => context.api.post("/api/tasks/predict", { model: one.name, row }, { signal }));
      if (said) show(one, row, said);
    }

    function show(one, row, said) {
      fill(why);
      const target = { value: context.state.target ?? null };
      const method = select(one.methods.map((each) => [each, METHODS[each]]), context.state.method ?? one.methods[0], () => explain());

      async function explain() {
        if (one.task === "tag" && target.value === null) {
          newestWhy.cancel();
          fill(why, h("p", { class: "soft" }, "Choose a word above: its tag will be explained."));
          return;
        }
        context.setState({ method: method.value, target: target.value ?? undefined }, { replace: true });
        try {
          const found = await newestWhy((signal) => context.api.post("/api/tasks/explain", { model: one.name, row, method: method.value, target: target.value }, { signal }));
          if (found) fill(why, showExplanation(found));
        } catch (error) {
          if (error.name !== "ApiError") throw error;
          fill(why, h("p", { class: "soft" }, error.message));
        }
      }
      const pick = (value) => {
        target.value = value;
        explain();
      };
      fill(result,
        h("section", {},
          h("div", { class: "spread" }, h("h2", {}, "What the model says"), downloads("prediction", { getSvg: sectionPicture, getData: () => ({ model: one.name, row, ...said }) })),
          showPrediction(said, row, one, pick)),
        one.methods.length
          ? h("section", {},
              h("div", { class: "spread" }, h("h2", {}, "Which tokens mattered")),
              h("div", { class: "row" }, field("Method", method), h("button", { type: "button", onclick: () => explain() }, "Show"), progress), why)
          : null);
      if (context.state.method) explain();
    }
    fill(root, form, result);
    build();
  }
  return () => {
    gone = true;
    stop();
  };
}

function others(models) {
  const without = models.filter((one) => !one.task);
  if (!without.length) return null;
  return h("details", {}, h("summary", {}, `${without.length} loaded model${without.length > 1 ? "s have" : " has"} no task`),
    h("ul", {}, without.map((one) => h("li", {}, h("b", {}, one.name), `: ${one.why}`))));
}
