// The weights of a picture: compressed levels in, numbers out. A level q stands for (q / levels)².

/** Read a payload of the server or of a page. */
export async function readWeights(payload) {
  const bytes = await inflate(fromBase64(payload.weights));
  const steps = payload.levels > 255 ? new Uint16Array(bytes) : new Uint8Array(bytes);
  const { layers, heads } = payload;
  const rows = payload.rows.length;
  const columns = payload.columns.length;
  if (steps.length !== layers * heads * rows * columns) throw new Error("the weights are not whole");
  const size = rows * columns;
  const value = (step) => (step / payload.levels) ** 2;
  return {
    layers, heads, rows, columns,
    digits: payload.levels > 255 ? 3 : 2,
    at: (layer, head, row, column) => value(steps[(layer * heads + head) * size + row * columns + column]),
    /** The levels of one head, row by row; √weight is level / levels. */
    head: (layer, head) => steps.subarray((layer * heads + head) * size, (layer * heads + head + 1) * size),
    root: (step) => step / payload.levels,
  };
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let place = 0; place < binary.length; place++) bytes[place] = binary.charCodeAt(place);
  return bytes;
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

/** The columns of the `count` largest steps of a row, the largest first, only those that `allowed(column)` allows. */
export function strongest(steps, start, columns, count, allowed) {
  const best = [];
  for (let column = 0; column < columns; column++) {
    const step = steps[start + column];
    if (step === 0 || (best.length === count && step <= steps[start + best[count - 1]]) || !allowed(column)) continue;
    let place = Math.min(best.length, count - 1);
    while (place > 0 && steps[start + best[place - 1]] < step) {
      best[place] = best[place - 1];
      place--;
    }
    best[place] = column;
  }
  return best;
}

/** [{layer, head, column, weight}] of the heads with which `row` looks most at another word, one entry for each head. */
export function bestHeads(weights, row, ignored, count = 5) {
  const found = [];
  for (let layer = 0; layer < weights.layers; layer++) {
    for (let head = 0; head < weights.heads; head++) {
      const steps = weights.head(layer, head);
      const [column] = strongest(steps, row * weights.columns, weights.columns, 1, (one) => !ignored(one));
      if (column !== undefined) found.push({ layer, head, column, weight: weights.at(layer, head, row, column) });
    }
  }
  return found.sort((one, other) => other.weight - one.weight).slice(0, count);
}
