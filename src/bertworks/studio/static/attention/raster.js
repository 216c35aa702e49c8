// A matrix of weights as a small picture: one pixel for a cell, or the largest of several cells.

const PALE = 0.2; // of the colour

/** 0, 1, … up to `count`. */
export function upTo(count) {
  return Array.from({ length: count }, (_, index) => index);
}

/** The colours of a page: from the ground to the accent. */
export function ramp() {
  const style = getComputedStyle(document.documentElement);
  return [parse(style.getPropertyValue("--card")), parse(style.getPropertyValue("--accent"))];
}

function parse(text) {
  const hex = text.trim().replace("#", "");
  const full = hex.length === 3 ? [...hex].map((digit) => digit + digit).join("") : hex;
  return [0, 2, 4].map((place) => parseInt(full.slice(place, place + 2), 16));
}

/**
 * A data: address of the given rows and columns (numbers) of one head, at most `limit` pixels wide and high.
 * The colour goes with the root of the weight, so that small weights are still seen; `pale(row, column)` cells are shown faintly.
 */
export function raster(weights, layer, head, { rows = upTo(weights.rows), columns = upTo(weights.columns), limit = 4096, colours, pale = () => false }) {
  const steps = weights.head(layer, head);
  const width = Math.min(columns.length, limit);
  const height = Math.min(rows.length, limit);
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const [from, to] = colours;
  for (let y = 0; y < height; y++) {
    const firstRow = Math.floor((y * rows.length) / height);
    const lastRow = Math.max(firstRow + 1, Math.floor(((y + 1) * rows.length) / height));
    for (let x = 0; x < width; x++) {
      const firstColumn = Math.floor((x * columns.length) / width);
      const lastColumn = Math.max(firstColumn + 1, Math.floor(((x + 1) * columns.length) / width));
      let share = 0;
      for (let i = firstRow; i < lastRow; i++) {
        const row = rows[i];
        for (let j = firstColumn; j < lastColumn; j++) {
          const column = columns[j];
          share = Math.max(share, weights.root(steps[row * weights.columns + column]) * (pale(row, column) ? PALE : 1));
        }
      }
      const place = (y * width + x) * 4;
      for (let channel = 0; channel < 3; channel++) image.data[place + channel] = from[channel] + (to[channel] - from[channel]) * share;
      image.data[place + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
  return canvas.toDataURL("image/png");
}
