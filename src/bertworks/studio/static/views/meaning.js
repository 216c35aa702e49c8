// Meaning as geometry: a map of texts, one word in several sentences, word vectors.

import { choices, fill, h } from "../lib/dom.js";
import { mountMap } from "../meaning/map.js";
import { mountVectors } from "../meaning/vectors.js";
import { mountWord } from "../meaning/word.js";

export const title = "Meaning";
export const hint = "Texts and words as points: what the model takes to be alike lies close together.";

const TABS = [["map", "Map of texts"], ["word", "One word in context"], ["vectors", "Word vectors"]];
const MOUNT = { map: mountMap, word: mountWord, vectors: mountVectors };

export function mount(root, context) {
  const body = h("div", {});
  let unmount = null;
  let gone = false;
  let options = null;

  function open(tab) {
    unmount?.();
    fill(body);
    unmount = MOUNT[tab](body, { ...context, get state() { return context.state; }, options }) ?? null;
  }

  const asked = context.state.tab;
  const chosen = MOUNT[asked] ? asked : "map";
  fill(root,
    choices("What to look at", TABS, chosen, (tab) => {
      context.setState({ tab });
      context.announce(""); // what the other one said
      if (options) open(tab);
    }),
    body);
  context.api.get("/api/meaning").then((found) => {
    if (gone) return;
    options = found;
    open(MOUNT[context.state.tab] ? context.state.tab : chosen);
  }).catch(() => {});
  return () => {
    gone = true;
    unmount?.();
  };
}
