// Training runs of a folder: live curves, several runs in one plot, what tells them apart, their reports.

import { field, fill, h, keepFocus, percent, scroller, select } from "../lib/dom.js";
import { latest } from "../lib/api.js";
import { downloads } from "../lib/download.js";
import { sectionPicture } from "../lib/picture.js";
import { groupColours, lines, newReadout, short } from "../lib/plot.js";
import { ending, shortened } from "../lib/text.js";

export const title = "Runs";
export const hint = "Curves of pretraining, fine-tuning, translation and word vectors, while they run and after.";

const EVERY = 3000; // milliseconds from one look at the folder to the next
const FIRST = ["loss", "held_out_loss"];
const COLUMNS = ["Show", "Run", "Kind", "State", "Steps", "Result", "Report"];

export function mount(root, context) {
  const chosen = new Set([context.state.runs ?? []].flat());
  const read = new Map(); // by run: its curves as they were read last
  const rows = new Map(); // by run: {mark, element} of the list
  const reading = {}; // where values are told on the plot
  let listed = null; // the answer of /api/runs
  let curves = []; // of the chosen runs
  let compared = null;
  let comparedOf = null; // the runs in `compared`, and how far they were
  let metric = context.state.metric ?? null;
  let timer = 0;
  let gone = false;
  const newestList = latest();
  const newest = latest();

  // The list and the plot are made once and drawn on in place: who reads, scrolls or types there is not disturbed.
  const body = h("tbody", {});
  const table = scroller("Runs in the folder", h("table", {},
    h("caption", { class: "hidden" }, "Runs, the newest first"),
    h("thead", {}, h("tr", {}, COLUMNS.map((name) => h("th", { scope: "col" }, name)))), body), "runs");
  const list = h("div", { class: "card" });
  const picture = h("div", {});
  const about = h("div", {});
  const curve = select([], undefined, (value) => { metric = value; changed(); });
  const across = select([["step", "steps"], ["seconds", "time (seconds)"]], context.state.across ?? "step", () => { delete reading.x; changed(); });
  const log = h("input", { type: "checkbox", onchange: changed });
  log.checked = Boolean(context.state.log);
  const plot = h("div", {});
  const readout = newReadout();
  const key = h("ul", { class: "legend", "data-legend": "" });
  const live = h("p", { class: "soft", "data-live": "", "data-undrawn": true });
  const section = h("section", {},
    h("div", { class: "spread" },
      h("div", { class: "row", "data-undrawn": true }, field("Curve", curve), field("Over", across), h("label", { class: "check" }, log, " logarithmic")),
      downloads("runs", { getSvg: sectionPicture, getData: () => ({ runs: curves, compared }) })),
    plot, readout, key, live);

  function keep() {
    context.setState({
      runs: [...chosen],
      metric: metric ?? undefined,
      across: across.value === "step" ? undefined : across.value,
      log: log.checked || undefined,
    }, { replace: true });
  }

  function changed() {
    keep();
    drawPlot();
  }

  /** Look at the folder again and again, each time when the last look is over. */
  async function follow() {
    if (!listed || !document.hidden) await look().catch((error) => {
      if (error.name !== "ApiError") throw error; // the status line says it
    });
    if (!gone) timer = setTimeout(follow, EVERY);
  }

  async function look() {
    const found = await newestList((signal) => context.api.get("/api/runs", { signal }));
    if (!found) return;
    const first = !listed?.runs.length; // nothing could be chosen so far
    const order = new Map((listed?.runs ?? []).map((run, place) => [run.run, place]));
    found.runs.sort((one, other) => (order.get(one.run) ?? -1) - (order.get(other.run) ?? -1)); // new ones on top; the others stay where they are
    listed = found;
    const there = new Set(found.runs.map((run) => run.run));
    const missing = [...chosen].filter((run) => !there.has(run));
    for (const run of missing) chosen.delete(run);
    if (missing.length) context.announce(`Not in this folder: ${missing.map((run) => `“${run}”`).join(", ")}.`);
    if (first && !context.state.runs && found.runs.length) {
      chosen.add((found.runs.find((run) => run.step !== null) ?? found.runs[0]).run);
      keep();
    }
    drawList();
    await load();
  }

  /** Read the curves of those chosen runs that have changed. */
  async function load() {
    const wanted = [...chosen];
    const changes = new Map(listed.runs.map((run) => [run.run, run.changed]));
    const query = (runs) => runs.map((run) => `run=${encodeURIComponent(run)}`).join("&");
    const found = await newest(async (signal) => {
      const stale = wanted.filter((run) => read.get(run)?.changed !== changes.get(run));
      const fresh = stale.length ? (await context.api.get(`/api/runs/curves?${query(stale)}`, { signal })).runs : [];
      for (const one of fresh) read.set(one.run, one);
      const drawn = wanted.map((run) => read.get(run));
      const of = JSON.stringify(drawn.map((one) => [one.run, one.changed, one.finished]));
      if (of === comparedOf) return { drawn, of, figures: compared };
      return { drawn, of, figures: wanted.length ? await context.api.get(`/api/runs/compare?${query(wanted)}`, { signal }) : null };
    });
    if (!found || found.of === comparedOf) return;
    [curves, compared, comparedOf] = [found.drawn, found.figures, found.of];
    draw();
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
    } else if (!listed.runs.length) {
      fill(list, h("p", { class: "notice" }, "No run is in ", h("code", {}, listed.folder), " yet; it will appear here as soon as one begins."));
    } else {
      if (table.parentNode !== list) fill(list, table);
      keepFocus(list, drawRows);
    }
  }

  /** Only rows that say something else than before are made anew. */
  function drawRows() {
    const there = new Set(listed.runs.map((run) => run.run));
    for (const [run, { element }] of rows) {
      if (there.has(run)) continue;
      element.remove();
      rows.delete(run);
    }
    listed.runs.forEach((run, place) => {
      const mark = JSON.stringify({ ...run, changed: null });
      if (rows.get(run.run)?.mark !== mark) {
        const element = row(run);
        rows.get(run.run)?.element.replaceWith(element);
        rows.set(run.run, { mark, element });
      }
      const { element } = rows.get(run.run);
      if (body.children[place] !== element) body.insertBefore(element, body.children[place] ?? null);
      element.querySelector("[data-ago]").textContent = ` ${ago(run.changed)}`;
    });
  }

  function row(run) {
    const box = h("input", { type: "checkbox", "data-run": run.run, "data-control": `show ${run.run}`, "aria-label": `Show ${run.name}`, onchange: (event) => toggle(run.run, event.target.checked) });
    box.checked = chosen.has(run.run);
    const [name, value] = result(run);
    return h("tr", { "data-name": run.name },
      h("td", {}, box),
      h("th", { scope: "row" }, run.name),
      h("td", {}, run.task && run.task !== run.command ? `${run.command} · ${run.task.replaceAll("_", " ")}` : run.command, run.model ? h("small", {}, ` ${tail(run.model)}`) : null),
      h("td", {}, h("span", { class: `state ${run.state}` }, run.state), h("small", { "data-ago": "" })),
      h("td", {}, run.step === null ? "–" : `${run.step.toLocaleString("en")}${run.steps && run.steps !== run.step ? ` of ${run.steps.toLocaleString("en")}` : ""}`),
      h("td", {}, name ? [`${writer(run.shares, name)(value)} `, h("small", {}, words(name))] : "–"),
      h("td", {}, run.report ? reportLink(run) : "–"));
  }

  function reportLink(run) {
    const address = `/api/runs/report?run=${encodeURIComponent(run.run)}`;
    return h("a", { href: address, target: "_blank", rel: "noopener", "data-control": `report ${run.run}` }, "open", h("span", { class: "hidden" }, ` the report of ${run.name}`));
  }

  function draw() {
    drawAbout();
    const names = [...new Set(curves.flatMap((one) => one.names))];
    const say = (text) => fill(picture, h("section", {}, h("p", { class: "soft" }, text)));
    if (!curves.length) return void (listed.runs.length ? say("Choose one run or several.") : fill(picture));
    if (!names.length) return void say(curves.every((one) => one.finished) ? "This run logged no steps: a head on frozen vectors is fitted at once." : "Nothing was logged yet.");
    const running = curves.filter((one) => !one.finished).length;
    live.textContent = running ? `${running} of these ${running === 1 ? "is" : "are"} not finished; looked at every ${EVERY / 1000} seconds.` : "";
    if (!names.includes(metric)) metric = FIRST.find((name) => names.includes(name)) ?? names[0];
    if ([...curve.options].map((one) => one.value).join("\n") !== names.join("\n")) fill(curve, names.map((name) => h("option", { value: name }, words(name))));
    curve.value = metric;
    if (section.parentNode !== picture) fill(picture, section);
    drawPlot();
  }

  function drawPlot() {
    const series = seriesOf(metric);
    const write = writer(curves.flatMap((one) => one.shares), metric);
    keepFocus(plot, () => fill(plot, lines({
      series, label: `${words(metric)} of ${curves.length} ${curves.length === 1 ? "run" : "runs"}`, across: across.value === "step" ? "step" : "seconds", up: words(metric), log: log.checked, readout, reading, format: write,
    })));
    fill(key, series.map((one) =>
      h("li", {}, h("i", { style: { color: one.colour, opacity: String(one.strength) } }), one.name, h("small", {}, ` ${write(one.points.at(-1)[1])}`))));
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
    const { runs, metrics, shares, settings } = compared;
    const figures = [...new Set(metrics.flatMap((one) => Object.keys(one)))];
    const line = (name, values, write = short) => h("tr", {}, h("th", { scope: "row" }, name), values.map((value) => h("td", {}, told(value, write))));
    const part = (caption, name, data, lined) => h("section", {},
      h("div", { class: "spread" }, h("h2", {}, caption), lined.length ? downloads(name, { getSvg: sectionPicture, getData: () => ({ runs, ...data }) }) : null),
      lined.length
        ? scroller(caption, h("table", { class: "compare" },
            h("thead", {}, h("tr", {}, h("td", {}), runs.map((run) => h("th", { scope: "col" }, run)))), h("tbody", {}, lined)))
        : h("p", { class: "soft" }, "None."));
    fill(about,
      figures.length ? part("Figures", "runs-figures", { metrics }, figures.map((name) => line(words(name), metrics.map((one) => one[name]), writer(shares, name)))) : null,
      part("Settings that differ", "runs-settings", { settings }, settings.map((one) => line(one.name, one.values))));
  }

  fill(root, list, picture, about);
  follow();
  return () => {
    gone = true;
    clearTimeout(timer);
    newestList.cancel();
    newest.cancel();
  };
}

/** How a figure is written: the server says which are shares of a whole. */
function writer(shares, name) {
  return shares.includes(name) ? percent : short;
}

function told(value, write) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return write(value);
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
