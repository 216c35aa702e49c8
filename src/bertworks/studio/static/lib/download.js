// Every picture as .svg or .png and every answer as .json, made in the browser.

import { h } from "./dom.js";

const KEPT = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linejoin", "stroke-linecap",
  "opacity", "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline", "visibility", "display",
  "image-rendering",
];

const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g; // no XML may hold them

/** A copy of an SVG that looks the same outside of the page: what style sheets say becomes attributes. */
export function styled(svg) {
  const copy = svg.cloneNode(true);
  const originals = [svg, ...svg.querySelectorAll("*")];
  const copies = [copy, ...copy.querySelectorAll("*")];
  originals.forEach((original, index) => {
    const style = getComputedStyle(original);
    copies[index].removeAttribute("style");
    for (const name of KEPT) {
      const value = style.getPropertyValue(name);
      if (value) copies[index].setAttribute(name, value);
    }
  });
  return copy;
}

/** The SVG as text, as large as it is drawn, on the page's ground. */
export function svgText(svg) {
  const copy = styled(svg);
  const { width, height } = size(svg);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  const [left, top] = (svg.getAttribute("viewBox") ?? "0 0").split(/[\s,]+/).map(Number);
  ground.setAttribute("x", left);
  ground.setAttribute("y", top);
  ground.setAttribute("width", "100%");
  ground.setAttribute("height", "100%");
  ground.setAttribute("fill", getComputedStyle(document.body).getPropertyValue("--card").trim() || "#fff");
  copy.prepend(ground);
  return new XMLSerializer().serializeToString(copy).replace(CONTROL, "\ufffd");
}

function size(svg) {
  const box = svg.viewBox?.baseVal;
  if (box && box.width) return { width: box.width, height: box.height };
  const rectangle = svg.getBoundingClientRect();
  return { width: rectangle.width, height: rectangle.height };
}

/** The SVG as a PNG, twice as fine as the screen, as far as browsers can. */
export async function pngBlob(svg) {
  const { width, height } = size(svg);
  const factor = Math.min(2, 8000 / Math.max(width, height));
  const image = new Image();
  const url = URL.createObjectURL(new Blob([svgText(svg)], { type: "image/svg+xml" }));
  try {
    image.src = url;
    await image.decode();
    const canvas = h("canvas", { width: Math.max(1, Math.round(width * factor)), height: Math.max(1, Math.round(height * factor)) });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done) => canvas.toBlob(done, "image/png"));
  } finally {
    URL.revokeObjectURL(url);
  }
}

/** Give the user a file. */
export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/**
 * A row of download buttons. `getSvg` and `getData` are asked when a button is pressed, with the row; either may be null.
 * `name` is the file's name without its ending, or a function that gives it.
 */
export function downloads(name, { getSvg = null, getData = null } = {}) {
  const button = (ending, run) =>
    h("button", { type: "button", class: "quiet", "data-download": ending, onclick: run, "aria-label": `Download as ${ending.toUpperCase()}` }, ending.toUpperCase());
  const called = (ending) => `${typeof name === "function" ? name() : name}.${ending}`;
  const row = h("div", { class: "downloads", role: "group", "aria-label": "Download" },
    h("span", { class: "soft", "aria-hidden": "true" }, "Download"),
    getSvg && button("svg", () => save(new Blob([svgText(getSvg(row))], { type: "image/svg+xml" }), called("svg"))),
    getSvg && button("png", async () => save(await pngBlob(getSvg(row)), called("png"))),
    getData && button("json", () => save(new Blob([JSON.stringify(getData(row), null, 1)], { type: "application/json" }), called("json"))));
  return row;
}
