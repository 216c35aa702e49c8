// A matrix of weights as a small picture: one pixel for a cell, or the largest of several cells.

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
 * A data: address of the rows `order` of one head, at most `limit` pixels wide and high.
 * The colour goes with the root of the weight, so that small weights are still seen.
 */
export function raster(weights, layer, head, { order = null, limit = 4096, colours }) {
  const rows = order ?? Array.from({ length: weights.rows }, (_, row) => row);
  const steps = weights.head(layer, head);
  const width = Math.min(weights.columns, limit);
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
      const firstColumn = Math.floor((x * weights.columns) / width);
      const lastColumn = Math.max(firstColumn + 1, Math.floor(((x + 1) * weights.columns) / width));
      let largest = 0;
      for (let row = firstRow; row < lastRow; row++) {
        const start = rows[row] * weights.columns;
        for (let column = firstColumn; column < lastColumn; column++) largest = Math.max(largest, steps[start + column]);
      }
      const share = weights.root(largest);
      const place = (y * width + x) * 4;
      for (let channel = 0; channel < 3; channel++) image.data[place + channel] = from[channel] + (to[channel] - from[channel]) * share;
      image.data[place + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
  return canvas.toDataURL("image/png");
}
