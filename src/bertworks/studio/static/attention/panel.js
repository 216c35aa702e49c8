// One picture of attention with its controls: lines, all heads, matrix. The studio and pages of `bertworks attend` share it.

import { choices, debounce, field, fill, focusOn, h, keepFocus, press, select } from "../lib/dom.js";
import { downloads } from "../lib/download.js";
import { hue } from "../lib/svg.js";
import { dataOf } from "./file.js";
import { drawGrid } from "./grid.js";
import { drawLines } from "./lines.js";
import { drawMatrix } from "./matrix.js";
import { upTo } from "./raster.js";
import { bestHeads } from "./weights.js";

const SPECIAL = /^(\[[A-Z]+\]|<[^>]*>|[.,;:!?])$/;
// What the filter does to a matrix: shades all but the rows and columns that it finds, or leaves out what it does not find.
const AMONG = [["either", "rows or columns (others pale)"], ["rows", "rows alone"], ["columns", "columns alone"], ["both", "rows and columns alone"]];
const ROLES = { self: ["looks", "at"], causal: ["looks back", "at"], alignment: ["was written while looking", "at"] };
const LARGEST = 48; // pixels of a cell of the matrix

/**
 * context: {state, setState(patch, options)}; the state is {view, layer, heads, links, zoom, cell, filter, among, pick, parts}, counted from 1.
 * Returns {unmount}.
 */
export function showPicture(root, payload, weights, context) {
  const tokens = Math.max(weights.rows, weights.columns);
  const isPair = payload.rowSegments.includes(1);
  const settings = start(context.state);
  const picture = h("div", { class: "picture scroll" });
  const caption = h("p", { class: "caption", "aria-live": "polite" });
  const note = h("p", { class: "soft note" });
  const finds = h("div", { class: "finds" });
  const controls = h("div", { class: "row controls" });
  let svg = null;
  let follow = () => {}; // keeps labels in sight
  let first = null; // where the matrix has the first token that the filter finds
  picture.addEventListener("scroll", () => follow(picture.scrollLeft, picture.scrollTop));

  function start(state) {
    const within = (value, most, otherwise) => (Number.isInteger(value) && value >= 1 && value <= most ? value - 1 : otherwise);
    const heads = (Array.isArray(state.heads) ? state.heads : []).map((head) => within(head, weights.heads, -1)).filter((head) => head >= 0);
    return {
      view: ["lines", "grid", "matrix"].includes(state.view) ? state.view : "lines",
      layer: within(state.layer, weights.layers, Math.max(0, payload.kind === "alignment" ? weights.layers - 2 : 0)),
      heads: heads.length ? heads : tokens > 60 ? [0] : upTo(weights.heads),
      links: [0, 1, 2, 3, 5, 10].includes(state.links) ? state.links : tokens > 60 ? 3 : heads.length === 1 || weights.heads === 1 ? 0 : 2,
      zoom: Number(state.zoom) >= 1 && Number(state.zoom) <= 36 ? Number(state.zoom) : tokens > 200 ? 14 : 22,
      cell: Number(state.cell) >= 1 && Number(state.cell) <= LARGEST ? Number(state.cell) : null,
      filter: typeof state.filter === "string" ? state.filter : "",
      among: AMONG.some(([name]) => name === state.among) ? state.among : "either",
      parts: isPair && ["00", "01", "10", "11"].includes(state.parts) ? state.parts : "all",
      pick: readPick(state.pick),
    };
  }

  function readPick(text) {
    const match = /^(row|column)-(\d+)$/.exec(text ?? "");
    if (!match) return null;
    const index = Number(match[2]) - 1;
    return index >= 0 && index < (match[1] === "row" ? weights.rows : weights.columns) ? { side: match[1], index } : null;
  }

  function keep(patch, options = {}) {
    Object.assign(settings, patch);
    context.setState({
      view: settings.view, layer: settings.layer + 1, heads: settings.heads.map((head) => head + 1), links: settings.links,
      zoom: settings.zoom, cell: settings.cell, filter: settings.filter || null, among: settings.among === "either" ? null : settings.among, parts: settings.parts === "all" ? null : settings.parts,
      pick: settings.pick ? `${settings.pick.side}-${settings.pick.index + 1}` : null,
    }, options);
  }

  function change(patch, options = {}) {
    keep(patch, options);
    press(views, settings.view);
    keepFocus(root, () => {
      if (options.controls !== false) drawControls();
      draw();
    });
  }

  const matches = (token) => !settings.filter || token.toLowerCase().includes(settings.filter.toLowerCase());
  const inParts = (row, column) => settings.parts === "all"
    || (payload.rowSegments[row] === Number(settings.parts[0]) && payload.columnSegments[column] === Number(settings.parts[1]));

  function draw() {
    const { view, layer, heads, links, zoom, pick } = settings;
    const rowMatches = payload.rows.map(matches);
    const columnMatches = payload.columns.map(matches);
    const nothing = settings.filter && !rowMatches.includes(true) && !columnMatches.includes(true);
    const faint = (side, index) => !nothing && !(side === "row" ? rowMatches : columnMatches)[index];
    let drawn;
    if (view === "grid") drawn = drawGrid(weights, { layer, heads, onopen: (newLayer, head) => {
      change({ view: "lines", layer: newLayer, heads: [head] });
      focusOn(root, "layer");
    } });
    else if (view === "matrix") {
      const { rows, columns } = matrixParts();
      drawn = drawMatrix(payload, weights, {
        layer, head: heads[0], cell: cellSize(), rows, columns, onread: tell,
        faint: (side, index) => settings.among === "either" && faint(side, index),
        pale: (row, column) => settings.among === "either" && faint("row", row) && faint("column", column),
      });
    } else {
      drawn = drawLines(payload, weights, {
        layer, heads, links, rowHeight: zoom, room: picture.clientWidth || 800, picked: pick,
        faint,
        allowed: (row, column) => inParts(row, column) && (rowMatches[row] || columnMatches[column]),
        onpick: (side, index) => {
          const again = settings.pick?.side === side && settings.pick.index === index;
          keep({ pick: again ? null : { side, index } });
          drawn.pick(settings.pick);
          explain();
        },
      });
    }
    const { scrollLeft, scrollTop } = picture;
    svg = drawn.svg;
    follow = drawn.follow ?? (() => {});
    first = drawn.first ?? null;
    fill(picture, svg);
    picture.scrollTo(scrollLeft, scrollTop);
    follow(picture.scrollLeft, picture.scrollTop);
    note.textContent = nothing ? `No token contains “${settings.filter}”.` : drawn.note;
    explain();
  }

  /** The rows and columns of the matrix: of the chosen texts, and those alone that the filter finds where it leaves others out. */
  function matrixParts() {
    const shown = (tokens, segments, place, leavesOut) => {
      const found = tokens.map(matches);
      return upTo(tokens.length).filter((index) => (settings.parts === "all" || segments[index] === Number(settings.parts[place]))
        && (!leavesOut || found[index] || !found.includes(true)));
    };
    return {
      rows: shown(payload.rows, payload.rowSegments, 0, ["rows", "both"].includes(settings.among)),
      columns: shown(payload.columns, payload.columnSegments, 1, ["columns", "both"].includes(settings.among)),
    };
  }

  /** Pixels of a cell: as chosen, or so that the matrix fits. */
  function cellSize() {
    const { rows, columns } = matrixParts();
    const [across, down] = [columns.length, rows.length].map((count) => Math.max(count, 1));
    const room = (picture.clientWidth || 800) - (across > 60 ? 12 : 110);
    const most = Math.max(26, Math.min(LARGEST, (0.62 * innerHeight) / down)); // a short text fills the card, but not more than the window
    return settings.cell ?? Math.max(1, Math.floor(Math.min(most, room / across)));
  }

  const headNames = () => (settings.heads.length === weights.heads && weights.heads > 1 ? "all heads" : settings.heads.length === 1 ? `head ${settings.heads[0] + 1}` : `heads ${settings.heads.map((head) => head + 1).join(", ")}`);

  function explain() {
    const { view, layer, pick } = settings;
    const [verb, at] = ROLES[payload.kind];
    fill(finds);
    if (view === "grid") caption.textContent = "Every square is one head: rows look at columns, darker is more. Vertical stripes: all tokens look at one; diagonals: they look at neighbours. Press one to open it.";
    else if (view === "matrix") caption.textContent = `Layer ${layer + 1}, head ${settings.heads[0] + 1}: a row ${verb} ${at} the columns, darker is more; every row sums to 1 over all columns. Point at a cell for its weight.`;
    else {
      const what = payload.kind === "alignment" ? "each word of the translation, at the left, was written while looking at words of the source, at the right" : `each token at the left ${verb} ${at} tokens at the right`;
      caption.textContent = `Layer ${layer + 1}, ${headNames()}: ${what}; a stronger line is more.${pick ? "" : " Point at a token for its weights, press it to keep them."}`;
      if (pick?.side === "row") showFinds(pick.index);
    }
  }

  function tell(row, column, weight) {
    caption.textContent = `Layer ${settings.layer + 1}, head ${settings.heads[0] + 1}: “${payload.rows[row]}” ${ROLES[payload.kind].join(" ")} “${payload.columns[column]}”: ${weight.toFixed(weights.digits)}`;
  }

  function showFinds(row) {
    const found = bestHeads(weights, row, (column) => SPECIAL.test(payload.columns[column]) || (payload.kind !== "alignment" && column === row));
    if (!found.length) return;
    fill(finds, h("span", { class: "soft" }, `Where “${payload.rows[row]}” looks most at another word: `),
      found.map((one) => h("button", { type: "button", class: "quiet", "data-control": `find-${one.layer}-${one.head}`, onclick: () => change({ layer: one.layer, heads: [one.head] }) },
        `layer ${one.layer + 1} head ${one.head + 1}: ${payload.columns[one.column]} ${one.weight.toFixed(weights.digits)}`)));
  }

  function drawControls() {
    const { view, layer, heads, links, zoom } = settings;
    const numbers = (count) => Array.from({ length: count }, (_, index) => [index, `${index + 1}`]);
    const parts = [];
    if (view !== "grid") {
      parts.push(field("Layer", select(numbers(weights.layers), layer, (value) => change({ layer: Number(value) }), { "data-control": "layer" })));
    }
    if (view === "matrix") parts.push(field("Head", select(numbers(weights.heads), heads[0], (value) => change({ heads: [Number(value)] }), { "data-control": "head" })));
    if (view === "lines") parts.push(headButtons());
    if (view === "lines") parts.push(field("Links from each token", select([[0, "all"], [1, "1"], [2, "2"], [3, "3"], [5, "5"], [10, "10"]], links, (value) => change({ links: Number(value) }), { "data-control": "links" })));
    if (view !== "grid") {
      const zoomer = h("input", { type: "range", min: view === "matrix" ? 1 : 6, max: view === "matrix" ? LARGEST : 36, step: 1, value: view === "matrix" ? cellSize() : zoom, "data-control": "zoom" });
      zoomer.addEventListener("input", () => change({ [view === "matrix" ? "cell" : "zoom"]: Number(zoomer.value) }, { replace: true, controls: false }));
      parts.push(field("Zoom", zoomer));
      const filter = h("input", { type: "search", value: settings.filter, size: 12, placeholder: "it", "data-control": "filter" });
      filter.addEventListener("input", debounce(() => {
        change({ filter: filter.value.trim() }, { replace: true, controls: false });
        if (first) picture.scrollTo(first[0] - picture.clientWidth / 2, first[1] - picture.clientHeight / 2);
        else picture.querySelector(".tokens text:not(.faint)")?.scrollIntoView({ block: "nearest" });
      }, 200));
      parts.push(field("Only tokens with", filter));
      if (view === "matrix") parts.push(field("Among", select(AMONG, settings.among, (value) => change({ among: value }), { "data-control": "among" })));
      if (isPair) parts.push(field("Between texts", select([["all", "all"], ["00", "first → first"], ["01", "first → second"], ["10", "second → first"], ["11", "second → second"]], settings.parts, (value) => change({ parts: value }), { "data-control": "parts" })));
    }
    fill(controls, parts);
  }

  function headButtons() {
    const toggle = (head) => {
      const others = settings.heads.filter((one) => one !== head);
      if (!settings.heads.includes(head)) change({ heads: [...others, head].sort((one, other) => one - other) });
      else if (others.length) change({ heads: others }); // the last one stays: a picture of no head shows nothing
    };
    const all = upTo(weights.heads);
    return h("div", { class: "field" }, h("span", { class: "legend-title" }, "Heads"),
      h("div", { class: "heads", role: "group", "aria-label": "Heads" },
        all.map((head) => h("button", {
          type: "button", "data-control": `head-${head}`, "aria-label": `head ${head + 1}`, "aria-pressed": String(settings.heads.includes(head)),
          style: { "--c": hue(head, weights.heads) }, title: `head ${head + 1}; with Shift, or pressed twice, this one alone`,
          onclick: (event) => (event.shiftKey ? change({ heads: [head] }) : toggle(head)), ondblclick: () => change({ heads: [head] }),
        }, `${head + 1}`)),
        weights.heads > 1 && h("button", { type: "button", class: "quiet", "data-control": "heads-all", onclick: () => change({ heads: settings.heads.length === weights.heads ? [0] : all }) },
          settings.heads.length === weights.heads ? "one" : "all")));
  }

  const views = choices("Kind of picture", [["lines", "Lines"], ["grid", "All heads"], ["matrix", "Matrix"]], settings.view, (view) => change({ view }));
  const name = () => (settings.view === "grid" ? "attention-grid" : `attention-${settings.view}-layer-${settings.layer + 1}`);
  const whole = () => {
    follow(0, 0); // a file is not scrolled
    queueMicrotask(() => follow(picture.scrollLeft, picture.scrollTop));
    return svg;
  };
  fill(root, h("section", { class: "card attention" },
    h("div", { class: "spread" }, views, downloads(name, { getSvg: whole, getData: () => dataOf(payload, weights, settings) })),
    controls, caption, picture, finds, note));
  drawControls();
  draw();
  addEventListener("themechange", draw);
  return { unmount: () => removeEventListener("themechange", draw) };
}
