// A map of texts: their vectors on a plane, neighbours, colours by label.

import { latest } from "../lib/api.js";
import { field, fill, h, keepTyped, percent, scroller, select, selectNamed, shading } from "../lib/dom.js";
import { downloads } from "../lib/download.js";
import { pictureOf, sectionPicture } from "../lib/picture.js";
import { bars, groupColours, legend, scatter } from "../lib/plot.js";
import { shortened } from "../lib/text.js";
import { embedders, noModel, parseLines } from "./shared.js";

const MOST_BYTES = 12_000_000; // of a file: as text it grows by a third, and the server takes 16 MiB
const METHODS = {
  pca: "PCA (straight view)",
  tsne: "t-SNE (neighbourhoods)",
  umap: "UMAP (neighbourhoods)",
};
const EXPLAIN = {
  pca: (answer) => `Distances are those of a straight view; the two axes show ${percent(answer.shares[0])} and ${percent(answer.shares[1])} of the variance.`,
  tsne: () => "Neighbours stay neighbours; distances between groups and sizes of groups mean nothing.",
  umap: () => "Neighbours stay neighbours; distances between groups mean little.",
};
const SAMPLE = [
  "animals\tThe cat sleeps on the warm sofa.", "animals\tA kitten plays with a ball of wool.",
  "animals\tOur dog barks at the postman every morning.", "animals\tTwo horses graze behind the barn.",
  "animals\tThe swallows are back under the roof.",
  "money\tThe bank has raised its interest rates.", "money\tShe paid off her mortgage early.",
  "money\tShares fell after the quarterly report.", "money\tTaxes will go up next year.",
  "money\tHe keeps his savings in bonds.",
  "weather\tIt will rain all afternoon.", "weather\tA thick fog lies over the valley.",
  "weather\tSnow is expected in the mountains.", "weather\tThe storm tore down three trees.",
  "weather\tTomorrow will be sunny and mild.",
  "cooking\tFry the onions until they are golden.", "cooking\tLet the dough rest for an hour.",
  "cooking\tAdd a pinch of salt to the soup.", "cooking\tRoast the vegetables in the oven.",
  "cooking\tWhisk the eggs with a little sugar.",
].join("\n");

export function mountMap(root, context) {
  const names = embedders(context);
  if (!names.length) return void fill(root, h("div", { class: "card" }, noModel()));
  const { options, api } = context;
  const source = h("div", {});
  const result = h("div", { "aria-live": "off" });
  const newest = latest(shading(result));
  const newestQuery = latest();
  const newestFile = latest(shading(source));
  const state = context.state;
  let data = null; // {texts, labels, asked} of the map that is shown; the controls may say something else by now
  let upload = state.upload ?? null; // {name, texts, labels, columns, …}, in place of what is typed
  let file = null; // {name, content} of the last upload, to be read with other columns
  let answer = null;
  let plot = null;

  const text = h("textarea", { rows: 8, spellcheck: "false", class: "code" });
  text.value = state.text ?? SAMPLE;
  keepTyped(context, { text });
  const model = selectNamed(names, state.model, () => { fillLayers(layers.value); draw(); });
  const layers = select([], undefined, () => draw());
  const pooling = select([["", "the model's own"], ...options.poolings], state.pooling ?? "", () => draw());
  const method = select(options.methods.map((one) => [one.name, METHODS[one.name] + (one.installed ? "" : " – not installed")]), state.method ?? "pca", () => draw());
  fillLayers(state.layers);
  const button = h("button", { class: "main", type: "submit" }, "Draw the map");
  const chooser = h("input", { type: "file", accept: ".csv,.tsv,.txt,.jsonl,.ndjson,.parquet,.gz,.xz" });

  /** Those that the model has; `wanted` is chosen where it is among them. */
  function fillLayers(wanted) {
    const many = context.models.find((one) => one.name === model.value)?.layers ?? 0;
    const named = options.layers.filter((name) => many >= 3 || !name.includes("last-4"));
    fill(layers, [...named, ...Array.from({ length: many + 1 }, (_, number) => String(number))].map((name) =>
      h("option", { value: name }, /^\d+$/.test(name) ? `layer ${name}` : name)));
    layers.value = wanted ?? "last";
    if (!layers.value) layers.value = "last";
  }

  async function draw({ replace = false } = {}) {
    const { texts, labels } = upload ?? parseLines(text.value);
    const asked = { model: model.value, layers: layers.value, pooling: pooling.value, method: method.value };
    const others = data && data.texts.join("\n") !== texts.join("\n");
    context.setState({ tab: "map", ...asked, ...(others ? { pick: undefined } : {}), text: upload ? undefined : text.value, upload: upload ?? undefined }, { replace });
    context.announce(`Embedding ${texts.length} texts…`);
    const found = await newest((signal) => api.post("/api/meaning/map", { ...asked, texts }, { signal }));
    if (!found) return;
    data = { texts, labels, asked };
    answer = found;
    context.announce("");
    show();
  }

  function show() {
    const groups = data.labels ?? data.texts.map(() => "");
    const colours = groupColours(groups);
    const details = h("div", { class: "details" }, h("p", { class: "soft", "data-undrawn": true }, "Choose a point, or a text below, to see its nearest texts."));
    plot = scatter({
      points: answer.points.map(([x, y], index) => ({ x, y, text: data.texts[index], short: shortened(data.texts[index], 22), colour: colours.get(groups[index]) })),
      label: `Map of ${data.texts.length} texts by ${data.asked.method}`,
      onpick: pick,
    });
    const query = h("input", { type: "search", placeholder: "a text of your own", value: context.state.query ?? "" });
    const found = h("div", {});

    function pick(index) {
      const near = answer.neighbours[index];
      context.setState({ pick: index + 1 }, { replace: true });
      plot.mark(index, near.map((one) => one.index));
      fill(details,
        h("p", { class: "picked-text" }, data.labels ? h("span", { class: "pill", style: { color: colours.get(groups[index]) } }, groups[index] || "no label") : null, data.texts[index]),
        h("div", { class: "spread" }, h("h3", {}, "Nearest texts, by cosine"),
          downloads("neighbours", { getSvg: () => pictureOf(details), getData: () => ({ ...data.asked, text: data.texts[index], neighbours: named(near) }) })),
        near.length ? neighbourBars(near, pick) : h("p", { class: "soft" }, "There is no other text."));
    }
    async function search(event) {
      event?.preventDefault();
      const asked = query.value;
      context.setState({ query: asked }, { replace: true });
      const near = await newestQuery((signal) => api.post("/api/meaning/nearest", { ...data.asked, texts: data.texts, query: asked }, { signal }));
      if (!near) return;
      plot.light(near.neighbours.map((one) => one.index));
      fill(found,
        h("div", { class: "spread" }, h("h3", {}, `Nearest to “${shortened(asked, 60)}”, by cosine`),
          downloads("found", { getSvg: () => pictureOf(found), getData: () => ({ ...data.asked, query: asked, neighbours: named(near.neighbours) }) })),
        neighbourBars(near.neighbours, pick));
    }

    const counts = [...colours].map(([name, paint]) => [name, paint, groups.filter((one) => one === name).length]);
    fill(result,
      h("section", {},
        h("div", { class: "spread" }, h("h2", {}, `${data.texts.length} texts`),
          downloads("map", { getSvg: sectionPicture, getData: () => ({ ...data.asked, texts: data.texts, labels: data.labels, ...answer }) })),
        h("p", { class: "soft" }, EXPLAIN[answer.method](answer), ` Vectors of ${answer.width} numbers.`),
        data.labels ? legend(counts) : null,
        h("div", { class: "map" }, plot.svg, details)),
      h("div", { class: "columns" },
        h("section", {}, h("h2", {}, "Find texts like"),
          h("form", { onsubmit: search, class: "row" }, field("Your text", query, { wide: true }), h("button", { type: "submit" }, "Find")), found),
        h("section", {}, h("h2", {}, "All texts"),
          scroller("All texts", h("ol", {}, data.texts.map((one, index) =>
            h("li", {}, h("button", { type: "button", class: "link", "data-text": index, onclick: () => pick(index) }, shortened(one, 160))))), "texts"))));
    if (context.state.query) search();
    const picked = context.state.pick - 1;
    if (picked >= 0 && picked < data.texts.length) pick(picked);
  }

  const named = (near) => near.map((one) => ({ ...one, text: data.texts[one.index] }));

  function neighbourBars(near, pick) {
    return bars(near.map(({ index, cosine }) => ({
      value: cosine,
      node: h("button", { type: "button", class: "link", onclick: () => pick(index) }, shortened(data.texts[index], 70)),
    })));
  }

  async function read(from, columns = {}) {
    const found = await newestFile((signal) => api.post("/api/meaning/read", { ...from, ...columns }, { signal }));
    if (!found) return;
    file = from;
    upload = { name: file.name, ...found };
    showSource();
    await draw();
  }

  function showSource() {
    if (!upload) return void fill(source, field("Texts, one in each line; a label may stand before a tab", text));
    const column = (label, kept, extra, key) => field(label, select([...extra, ...upload.columns], kept, (value) => read(file, {
      text_column: upload.text_column, label_column: upload.label_column ?? "-", [key]: value })));
    fill(source,
      h("p", {}, h("b", {}, upload.name), `: ${upload.texts.length.toLocaleString("en")} texts`, upload.cut ? " (the first ones; a map has no room for more)" : "", ". ",
        h("button", { type: "button", class: "link", onclick: () => { upload = null; showSource(); context.setState({ upload: undefined, text: text.value }, { replace: true }); } }, "Type texts instead")),
      file && upload.columns.length > 1
        ? h("div", { class: "row" }, column("Column of the texts", upload.text_column, [], "text_column"),
            column("Column of the labels", upload.label_column ?? "-", [["-", "none"]], "label_column"))
        : null);
  }

  chooser.addEventListener("change", async () => {
    const [one] = chooser.files;
    if (!one) return;
    chooser.value = ""; // the same file may be chosen again, when it was changed
    if (one.size > MOST_BYTES) return void context.announce(`${one.name} has ${(one.size / 1e6).toFixed(1)} MB; files of up to ${MOST_BYTES / 1e6} MB are read here: take a part of it.`, "error");
    const content = await newestFile(() => base64(one));
    if (content === null) return;
    await read({ name: one.name, content });
  });

  fill(root,
    h("form", { class: "card", onsubmit: (event) => { event.preventDefault(); draw(); } },
      source,
      h("div", { class: "row" },
        field("Or a file (csv, tsv, txt, jsonl, parquet)", chooser),
        h("button", { type: "button", class: "quiet", onclick: () => { upload = null; text.value = SAMPLE; showSource(); draw(); } }, "Sample: four topics")),
      h("div", { class: "row" }, field("Model", model), field("Layers", layers), field("Pooling", pooling), field("Map", method), button)),
    result);
  showSource();
  draw({ replace: true });
  return () => {
    newest.cancel();
    newestQuery.cancel();
    newestFile.cancel();
  };
}

async function base64(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let binary = "";
  for (let start = 0; start < bytes.length; start += 32768) binary += String.fromCharCode(...bytes.subarray(start, start + 32768));
  return btoa(binary);
}
