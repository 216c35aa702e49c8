// The entry of a page that `bertworks attend` writes: the picture that lies in the page, its state in the address.

import { fill, h } from "./lib/dom.js";
import { startTheme } from "./lib/theme.js";
import { read, write } from "./lib/url.js";
import { showPicture } from "./attention/panel.js";
import { opening } from "./attention/samples.js";
import { readWeights } from "./attention/weights.js";

const VIEW = "attention";

async function start() {
  const payload = JSON.parse(document.getElementById("data").textContent);
  startTheme();
  const what = payload.kind === "alignment" ? `${payload.columns.length} words read, ${payload.rows.length} written` : `${payload.rows.length} tokens`;
  fill(document.getElementById("about"), h("b", {}, payload.model), ` · ${payload.layers} layers with ${payload.heads} heads · ${what}`);
  const weights = await readWeights(payload);
  const first = payload.opening ?? opening(payload, weights);
  let shown = null;
  const show = () => {
    let { state } = read();
    if (!state.layer) state = { ...state, ...first };
    shown?.unmount();
    shown = showPicture(document.getElementById("view"), payload, weights, {
      get state() {
        return state;
      },
      setState(patch, options) {
        state = { ...state, ...patch };
        write(VIEW, state, options);
      },
    });
  };
  addEventListener("popstate", show);
  show();
}

start();
