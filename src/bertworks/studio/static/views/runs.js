// Training runs of a folder: live curves, several runs in one plot, what tells them apart, their reports.

import { field, fill, h, select } from "../lib/dom.js";
import { latest } from "../lib/api.js";
import { downloads } from "../lib/download.js";
import { groupColours, lines, short } from "../lib/plot.js";
import { ending, shortened } from "../lib/text.js";

export const title = "Runs";
export const hint = "Curves of pretraining, fine-tuning, translation and word vectors, while they run and after.";

const EVERY = 3000; // milliseconds between two looks at the folder
const FIRST = ["loss", "held_out_loss"];

export function mount(root, context) {
  const chosen = new Set([context.state.runs ?? []].flat());
  let listed = null; // the answer of /api/runs
  let curves = []; // of the chosen runs
  let compared = null;
  let metric = context.state.metric ?? null;
  let timer = 0;
  let gone = false;
  let comparedOf = ""; // the runs in `compared`, and how far they were
  const newestList = latest();
  const newest = latest();
  let seen = ""; // what was drawn last, to draw again only what changed

  const list = h("div", {});
  const picture = h("div", {});
  const about = h("div", {});
  const across = select([["step", "steps"], ["seconds", "time (seconds)"]], context.state.across ?? "step", () => keep() || draw(true));
  const log = h("input", { type: "checkbox" });
  log.checked = Boolean(context.state.log);
  log.addEventListener("change", () => keep() || draw(true));
  const live = h("p", { class: "soft", "data-live": "" });

  function keep() {
    context.setState({
      runs: chosen.size ? [...chosen] : undefined,
      metric: metric ?? undefined,
      across: across.value === "step" ? undefined : across.value,
      log: log.checked || undefined,
    }, { replace: true });
  }

  async function look({ quiet = false } = {}) {
    try {
      const found = await newestList((signal) => context.api.get("/api/runs", { signal }));
      if (!found || gone) return;
      listed = found;
      const there = new Set(found.runs.map((run) => run.run));
      const missing = [...chosen].filter((run) => !there.has(run));
      for (const run of missing) chosen.delete(run);
      if (missing.length) context.announce(`Not in this folder: ${missing.map((run) => `“${run}”`).join(", ")}.`);
      if (!quiet && !chosen.size && found.runs.length && !context.state.runs) chosen.add((found.runs.find((run) => run.step !== null) ?? found.runs[0]).run);
      drawList();
      await load();
    } catch (error) {
      if (error.name !== "ApiError") throw error;
    }
  }

  async function load() {
    const query = [...chosen].map((run) => `run=${encodeURIComponent(run)}`).join("&");
    try {
      const found = await newest(async (signal) => {
        if (!query) return { drawn: [], figures: null, of: "" };
        const drawn = (await context.api.get(`/api/runs/curves?${query}`, { signal })).runs;
        const of = JSON.stringify(drawn.map((one) => [one.run, one.changed, one.finished]));
        return { drawn, of, figures: of === comparedOf ? compared : await context.api.get(`/api/runs/compare?${query}`, { signal }) };
      });
      if (!found || gone) return;
      [curves, compared, comparedOf] = [found.drawn, found.figures, found.of];
      draw();
    } catch (error) {
      if (error.name !== "ApiError") throw error;
    }
  }

  function toggle(run, on) {
    if (on) chosen.add(run);
    else chosen.delete(run);
    keep();
    load();
  }

  function drawList() {
    if (!listed.folder) {
      fill(list, h("p", { class: "notice" }, "The studio was started without a folder of runs: ", h("code", {}, "bertworks studio --runs DIR")));
      return;
    }
    if (!listed.runs.length) {
      fill(list, h("p", { class: "notice" }, "No run is in ", h("code", {}, listed.folder), " yet; it will appear here as soon as one begins."));
      return;
    }
    const focused = document.activeElement?.dataset?.run;
    fill(list, h("div", { class: "scroll runs", tabindex: "0", role: "region", "aria-label": "Runs in the folder" }, h("table", {},
      h("caption", { class: "hidden" }, "Runs, the newest first"),
      h("thead", {}, h("tr", {}, ["Show", "Run", "Kind", "State", "Steps", "Result", "Report"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, listed.runs.map(row)))));
    if (focused !== undefined) [...list.querySelectorAll("[data-run]")].find((one) => one.dataset.run === focused)?.focus();
  }

  function row(run) {
    const box = h("input", { type: "checkbox", "data-run": run.run, "aria-label": `Show ${run.name}`, onchange: (event) => toggle(run.run, event.target.checked) });
    box.checked = chosen.has(run.run);
    const [name, value] = result(run);
    return h("tr", { "data-name": run.name },
      h("td", {}, box),
      h("th", { scope: "row" }, run.name),
      h("td", {}, run.task && run.task !== run.command ? `${run.command} · ${run.task.replaceAll("_", " ")}` : run.command, run.model ? h("small", {}, ` ${tail(run.model)}`) : null),
      h("td", {}, h("span", { class: `state ${run.state}` }, run.state), h("small", {}, ` ${ago(run.changed)}`)),
      h("td", {}, run.step === null ? "–" : `${run.step.toLocaleString("en")}${run.steps && run.steps !== run.step ? ` of ${run.steps.toLocaleString("en")}` : ""}`),
      h("td", {}, name ? [`${short(value)} `, h("small", {}, words(name))] : "–"),
      h("td", {}, run.report ? reportLink(run) : "–"));
  }

  function reportLink(run) {
    const address = `/api/runs/report?run=${encodeURIComponent(run.run)}`;
    return h("a", { href: address, target: "_blank", rel: "noopener" }, "open", h("span", { class: "hidden" }, ` the report of ${run.name}`));
  }

  function draw(force = false) {
    const mark = JSON.stringify(curves.map((one) => [one.run, one.changed, one.finished, one.traces.map((trace) => trace.lines.length)]));
    const running = curves.filter((one) => !one.finished).length;
    live.textContent = running ? `${running} of these ${running === 1 ? "is" : "are"} not finished; looked at every ${EVERY / 1000} seconds.` : "";
    if (!force && mark === seen) return;
    seen = mark;
    if (!curves.length) {
      fill(picture, listed?.runs.length ? h("section", {}, h("p", { class: "soft" }, "Choose one run or several.")) : null);
      fill(about);
      return;
    }
    const names = [...new Set(curves.flatMap((one) => one.names))];
    if (!names.length) {
      const over = curves.every((one) => one.finished);
      const said = over ? "This run logged no steps: a head on frozen vectors is fitted at once." : "Nothing was logged yet.";
      fill(picture, h("section", {}, h("p", { class: "soft" }, said)));
      drawAbout();
      return;
    }
    if (!names.includes(metric)) metric = FIRST.find((name) => names.includes(name)) ?? names[0];
    const chooser = select(names.map((name) => [name, words(name)]), metric, (value) => {
      metric = value;
      keep();
      draw(true);
    });
    const series = seriesOf(metric);
    const readout = h("p", { class: "readout", "aria-hidden": "true" });
    const plot = lines({ series, label: `${words(metric)} of ${curves.length} runs`, across: across.value === "step" ? "step" : "seconds", up: words(metric), log: log.checked, readout });
    const focused = document.activeElement === picture.querySelector("select");
    fill(picture, h("section", {},
      h("div", { class: "spread" },
        h("div", { class: "row" }, field("Curve", chooser), field("Over", across), h("label", { class: "check" }, log, " logarithmic")),
        downloads("runs", { getSvg: () => plot, getData: () => ({ runs: curves, compared }) })),
      plot, readout,
      h("ul", { class: "legend", "data-legend": "" }, series.map((one) =>
        h("li", {}, h("i", { style: { color: one.colour, opacity: String(one.strength) } }), one.name, h("small", {}, ` ${short(one.points.at(-1)[1])}`)))),
      live));
    if (focused) chooser.focus();
    drawAbout();
  }

  /** One curve for each run, or for each of its seeds; the held-out figure of the same name is dashed. */
  function seriesOf(name) {
    const colours = groupColours(curves.map((one) => one.run));
    const found = [];
    for (const one of curves)
      for (const [place, trace] of one.traces.entries()) {
        const strength = 1 - (0.65 * place) / Math.max(one.traces.length - 1, 1); // seeds of a run: the same colour, lighter and lighter
        const called = [one.run === "." ? listed.folder : one.run, trace.name].filter(Boolean).join(", ");
        const points = (key) => trace.lines.filter((line) => typeof line[key] === "number" && typeof line[across.value] === "number").map((line) => [line[across.value], line[key]]);
        const own = points(name);
        if (own.length) found.push({ name: called, colour: colours.get(one.run), strength, points: own, dotted: own.length < 40 });
        const other = name.startsWith("held_out_") ? [] : points(`held_out_${name}`);
        if (other.length) found.push({ name: `${called}, held out`, colour: colours.get(one.run), strength, points: other, dashed: true, dotted: true });
      }
    return found;
  }

  function drawAbout() {
    if (!compared || compared.runs.length < 2) return void fill(about);
    const figures = [...new Set(compared.metrics.flatMap((one) => Object.keys(one)))];
    const head = h("tr", {}, h("th", { scope: "col" }, ""), compared.runs.map((run) => h("th", { scope: "col" }, run)));
    const row = (name, values) => h("tr", {}, h("th", { scope: "row" }, name), values.map((value) => h("td", {}, told(value))));
    const table = (rows, caption) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      h("table", { class: "compare" }, h("thead", {}, head.cloneNode(true)), h("tbody", {}, rows)));
    const settings = compared.settings.map((setting) => row(setting.name, setting.values));
    fill(about,
      figures.length
        ? h("section", {}, h("h2", {}, "Figures"), table(figures.map((name) => row(words(name), compared.metrics.map((one) => one[name]))), "Figures"))
        : null,
      h("section", {}, h("h2", {}, "Settings that differ"),
        settings.length ? table(settings, "Settings that differ") : h("p", { class: "soft" }, "None.")));
  }

  fill(root, h("div", { class: "card" }, list), picture, about);
  look();
  timer = setInterval(() => {
    if (!document.hidden) look({ quiet: true });
  }, EVERY);
  return () => {
    gone = true;
    clearInterval(timer);
  };
}

function told(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return short(value);
  const text = Array.isArray(value) ? value.join(", ") || "none" : String(value);
  return /^[0-9a-f]{37,}$/.test(text) ? shortened(text, 13) : ending(text, 35); // a fingerprint is known by its beginning, a path by its end
}

function words(name) {
  return name.replace(/^held_out_/, "held-out ").replaceAll("_", " ");
}

function tail(model) {
  return String(model).split("/").at(-1);
}

function result(run) {
  const entries = Object.entries(run.metrics ?? {}).filter(([, value]) => typeof value === "number");
  return entries.find(([name]) => name === run.metric) ?? entries.find(([name]) => /accuracy|f1|bleu|pearson/.test(name)) ?? entries[0] ?? [null, null];
}

function ago(then) {
  const seconds = Math.max(0, Date.now() / 1000 - then);
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} days ago`;
}
