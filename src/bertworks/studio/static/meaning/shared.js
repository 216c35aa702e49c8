// What the three parts of Meaning share.

import { h } from "../lib/dom.js";

/** Lines to texts. Where every line has a tab, what stands before it is a label. */
export function parseLines(text) {
  const found = text.split("\n").map((line) => line.trimEnd()).filter((line) => line.trim());
  if (!found.length || !found.every((line) => /\S\t+\s*\S/.test(line))) return { texts: found.map((line) => line.trim()), labels: null };
  const cut = found.map((line) => line.match(/^\s*(.*?)\t+\s*(.*)$/));
  return { texts: cut.map((match) => match[2]), labels: cut.map((match) => match[1].trim()) };
}

/** The names of the models that have vectors. */
export function embedders(context) {
  return context.models.filter((model) => model.can.includes("embed")).map((model) => model.name);
}

/** What to say where no loaded model can do it. */
export function noModel() {
  return h("p", { class: "notice" }, "No loaded model has vectors of texts. Start the studio with one: ", h("code", {}, "bertworks studio minilm"));
}
