// Word vectors: neighbours, analogies, and the axis of she and he.

import { latest } from "../lib/api.js";
import { choices, field, fill, h, keepTyped, number, percent, scroller, selectNamed } from "../lib/dom.js";
import { downloads } from "../lib/download.js";
import { pictureOf } from "../lib/picture.js";
import { bars, narrow } from "../lib/plot.js";
import { s, scale, ticks } from "../lib/svg.js";

const ANALOGIES = [["man", "king", "woman"], ["paris", "france", "rome"], ["good", "better", "bad"]];

export function mountVectors(root, context) {
  const { options, api, state } = context;
  const tables = options.vectors;
  if (!tables.length) {
    return void fill(root, h("div", { class: "card" },
      h("p", { class: "notice" }, "No word vectors are loaded. Make some, and give their directory (or a file of word2vec, GloVe or gensim) to the studio:"),
      h("p", {}, h("code", {}, "bertworks vectors train texts.txt -o my-vectors")),
      h("p", {}, h("code", {}, "bertworks studio minilm my-vectors"))));
  }
  const table = selectNamed(tables.map((one) => [one.name, `${one.name} (${one.words.toLocaleString("en")} words, ${one.dim} numbers)`]),
    state.vectors, () => { context.setState({ vectors: table.value }); everything(); });

  const ask = async (newest, path, body, show) => {
    const found = await newest((signal) => api.post(path, { vectors: table.value, ...body }, { signal }));
    if (found) show(found);
  };
  const list = (neighbours) => bars(neighbours.map((near) => ({ name: near.word, value: near.similarity,
    node: h("button", { type: "button", class: "link", onclick: () => { word.value = near.word; similar(); } }, near.word) })));
  const headed = (text, name, box, found) => {
    const vectors = table.value; // another table may be chosen by the time the file is wanted
    return h("div", { class: "spread" }, h("h3", {}, text), downloads(name, { getSvg: () => pictureOf(box), getData: () => ({ vectors, ...found }) }));
  };

  // -- neighbours
  const word = h("input", { type: "text", size: 14, value: state.near ?? "" });
  const near = h("div", {});
  const newestNear = latest();
  function similar() {
    context.setState({ tab: "vectors", vectors: table.value, near: word.value }, { replace: true });
    return ask(newestNear, "/api/meaning/similar", { word: word.value }, (found) =>
      fill(near, headed(`Nearest to “${found.word}”, by cosine`, "neighbours", near, found), list(found.neighbours)));
  }

  // -- analogies
  const [a, b, c] = ["a", "b", "c"].map((key, index) => h("input", { type: "text", size: 8, value: state[key] ?? ANALOGIES[0][index] }));
  const fourth = h("div", {});
  const newestFourth = latest();
  function analogy() {
    context.setState({ tab: "vectors", vectors: table.value, a: a.value, b: b.value, c: c.value }, { replace: true });
    return ask(newestFourth, "/api/meaning/analogy", { a: a.value, b: b.value, c: c.value }, (found) => fill(fourth,
      headed(`${found.words[0]} is to ${found.words[1]} as ${found.words[2]} is to …`, "analogy", fourth, found), list(found.neighbours)));
  }

  // -- the axis
  const own = h("input", { type: "text", value: state.own ?? "" });
  const axis = h("div", {});
  const newestAxis = latest();
  let when = state.when === "after" ? "after" : "before";
  function bias() {
    const words = own.value.split(/[\s,;]+/).filter(Boolean);
    context.setState({ tab: "vectors", vectors: table.value, own: own.value }, { replace: true });
    return ask(newestAxis, "/api/meaning/bias", { words }, (found) => {
      const picture = h("div", {});
      const tests = h("div", {});
      const draw = () => fill(picture, axisPlot(found, when));
      fill(axis,
        h("ul", { class: "facts" },
          h("li", {}, h("b", {}, `${number(found.before.direct)} → ${number(found.after.direct)}`), h("small", {}, "mean size of the neutral words' projections")),
          h("li", {}, h("b", {}, percent(found.explained[0])), h("small", {}, "of the pairs' variance is the direction")),
          h("li", {}, h("b", {}, `${percent(found.before.clustering)} → ${percent(found.after.clustering)}`), h("small", {}, "side told by a word's neighbours (50% is chance)"))),
        h("div", { class: "spread" },
          choices("Before or after", [["before", "As they are"], ["after", "Neutralised and equalised"]], when, (value) => { when = value; context.setState({ when }, { replace: true }); draw(); }),
          downloads("bias", { getSvg: () => picture.querySelector("svg"), getData: () => found })),
        picture,
        h("p", { class: "soft" }, `Right of 0 leans to “${found.sides.positive}”, left of it to “${found.sides.negative}”. `,
          "Taking the direction out does not take out the bias: words that leant the same way still stand together."),
        found.before.tests.length ? tests : null);
      fill(tests, headed("Association tests (WEAT effect size)", "association-tests", tests, { before: found.before.tests, after: found.after.tests }), testTable(found));
      draw();
    });
  }

  const form = (run, ...parts) => h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); run(); } }, parts);
  fill(root,
    h("div", { class: "card" }, h("div", { class: "row" }, field("Word vectors", table))),
    h("div", { class: "columns" },
      h("section", {}, h("h2", {}, "Neighbours"), form(similar, field("Word", word), h("button", { type: "submit", class: "main" }, "Find")), near),
      h("section", {}, h("h2", {}, "Analogies"),
        form(analogy, field("a", a), field("is to b", b), field("as c", c), h("button", { type: "submit", class: "main" }, "is to …")),
        h("div", { class: "samples" }, ANALOGIES.map((three) =>
          h("button", { type: "button", onclick: () => { [a.value, b.value, c.value] = three; analogy(); } }, `${three[0]} : ${three[1]} = ${three[2]} : ?`))),
        fourth)),
    h("section", {}, h("h2", {}, "The axis of she and he"),
      form(bias, field("Words of your own on the axis", own, { wide: true }), h("button", { type: "submit", class: "main" }, "Measure")), axis));

  keepTyped(context, { near: word, a, b, c, own });

  const stop = () => [newestNear, newestFourth, newestAxis].forEach((one) => one.cancel());
  function everything() {
    stop();
    fill(near);
    fill(fourth);
    fill(axis);
    if (word.value) similar();
    if (context.state.a) analogy();
    if ((context.state.own ?? null) !== null) bias();
  }
  everything();
  return stop;
}

/** The words that lean most on each side, and the user's own, on a line. */
function axisPlot(found, when) {
  const projections = Object.entries(found[when].projections);
  const most = projections.slice(0, 14).concat(projections.slice(-14)).map(([name, value]) => ({ name, value, own: false }));
  const own = found.words.map((one) => ({ name: one.word, value: when === "before" ? one.projection : one.after, own: true }));
  const chosen = [...new Map([...most, ...own].map((one) => [one.name, one])).values()].sort((one, other) => one.value - other.value);
  const [width, line] = [narrow() ? 400 : 700, 18];
  const all = Object.values(found.before.projections).concat(found.words.map((one) => one.projection));
  const reach = Math.max(...all.map(Math.abs), 0.05) * 1.08;
  const x = scale(-reach, reach, width < 500 ? 84 : 120, width - (width < 500 ? 84 : 120));
  const height = chosen.length * line + 50;
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot axis-plot", role: "img", "aria-label": `Words between ${found.sides.negative} and ${found.sides.positive}` });
  for (const value of ticks(-reach, reach, width < 500 ? 4 : 6))
    svg.append(s("line", { class: "grid", x1: x(value), x2: x(value), y1: 20, y2: height - 24 }), s("text", { x: x(value), y: height - 8, "text-anchor": "middle" }, String(Number(value.toFixed(2)))));
  svg.append(
    s("text", { x: 8, y: 14, class: "axis" }, `← ${found.sides.negative}`), s("text", { x: width - 8, y: 14, "text-anchor": "end", class: "axis" }, `${found.sides.positive} →`));
  chosen.forEach(({ name, value, own }, index) => {
    const y = 34 + index * line;
    svg.append(
      s("line", { class: value >= 0 ? "lean positive" : "lean negative", x1: x(0), x2: x(value), y1: y, y2: y }),
      s("circle", { cx: x(value), cy: y, r: 3.5, class: value >= 0 ? "lean positive" : "lean negative" }, s("title", {}, `${name}: ${value.toFixed(4)}`)),
      s("text", { x: x(value) + (value >= 0 ? 8 : -8), y: y + 4, "text-anchor": value >= 0 ? "start" : "end", class: own ? "own" : "word", "data-value": value.toFixed(3) }, name));
  });
  return svg;
}

function testTable(found) {
  const shown = (test) => `${test.effect >= 0 ? "+" : ""}${test.effect.toFixed(2)} (p ${Number(test.p_value.toPrecision(2))})`;
  return scroller("Association tests", h("table", { class: "numbers" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Test"), h("th", { scope: "col" }, "before"), h("th", { scope: "col" }, "after"))),
    h("tbody", {}, found.before.tests.map((test, index) =>
      h("tr", {}, h("th", { scope: "row" }, test.title), h("td", {}, shown(test)), h("td", {}, shown(found.after.tests[index])))))));
}
