// Texts that attention is known for, and where their pictures open. The studio and pages of `bertworks attend` share them.

import { bestHeads } from "./weights.js";

// A text, a second one, and the question that it is known for: who looks at whom?
export const SAMPLES = [
  { text: "The animal didn't cross the street because it was too tired", from: "it", to: ["animal", "street"] },
  { text: "The animal didn't cross the street because it was too wide", from: "it", to: ["animal", "street"] },
  { text: "The keys to the cabinet are on the table.", from: "are", to: ["keys", "cabinet"] },
  { text: "The cat sat on the mat.", pair: "The dog slept on the rug.", from: "dog", to: ["cat"] },
];

/** The state in which a picture opens: an example at the head that answers its question most clearly, others with nothing said. */
export function opening(payload, weights) {
  const sample = SAMPLES.find((one) => one.text === payload.text && (one.pair ?? null) === payload.pair);
  const row = sample ? payload.rows.indexOf(sample.from) : -1;
  if (row < 0 || payload.kind !== "self") return {};
  const [best] = bestHeads(weights, row, (column) => !sample.to.includes(payload.columns[column]), 1);
  return best ? { layer: best.layer + 1, heads: [best.head + 1], pick: `row-${row + 1}` } : {};
}
