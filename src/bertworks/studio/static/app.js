// The shell: which view is shown, its state in the address, the status line, light and dark.

import { debounce, fill, h } from "./lib/dom.js";
import { makeApi, SILENT } from "./lib/api.js";
import { startTheme } from "./lib/theme.js";
import { read, tooLong, toHash, write } from "./lib/url.js";

const VIEWS = ["attention", "cloze", "tokens", "meaning", "tasks", "runs"];
const NAMES = { attention: "Attention", cloze: "Cloze", tokens: "Tokens", meaning: "Meaning", tasks: "Tasks", runs: "Runs" };

const root = document.getElementById("view");
const status = document.getElementById("status");
const states = Object.fromEntries(VIEWS.map((name) => [name, {}]));
let current = null; // {name, unmount}
let asked = 0; // how often a view was asked for
let leaving = false; // another view is being fetched
let models = [];

function announce(text, kind = "") {
  status.textContent = text ?? "";
  status.className = kind;
}

const api = makeApi({
  onError: (error) => announce(error.message, "error"),
  onDone: () => {
    if (status.className === "error") announce("");
  },
});

// An error of the server was shown above already; whoever does not catch it has nothing to add.
addEventListener("unhandledrejection", (event) => {
  if (event.reason?.name === "ApiError") event.preventDefault();
  else announce(`The page failed: ${event.reason?.message ?? event.reason}`, "error");
});

const links = new Map(VIEWS.map((name) => [name, h("a", {}, NAMES[name])]));
fill(document.getElementById("nav"), [...links.values()]);

/** The links stay the same elements: who has the focus on one keeps it. */
function drawNavigation() {
  for (const [name, link] of links) {
    link.setAttribute("href", toHash(name, states[name]));
    if (name === current?.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const long = current && tooLong(states[current.name]);
  document.getElementById("link-note").textContent = long ? "This is too long for a link: the address does not hold all of it." : "";
}

/** While somebody types, the address is written when there is a pause; browsers refuse hundreds of changes in a row. */
const writeLater = debounce((name) => write(name, states[name], { replace: true }));

async function show() {
  writeLater.cancel();
  const { view, state } = read();
  const name = VIEWS.includes(view) ? view : VIEWS[0];
  const mine = ++asked;
  leaving = true;
  // A link of the navigation cannot carry a very long text; what was there is still known.
  const returning = !history.state && toHash(name, states[name]) === location.hash;
  if (!returning) states[name] = name === view ? state : {};
  if (name !== view && view && view !== "main") announce(`There is no part called “${view}”.`, "error");
  else announce("");
  const module = await import(`./views/${name}.js`).catch(() => null);
  if (mine !== asked) return; // another view was asked for in the meantime
  leaving = false;
  if (!module) {
    announce(SILENT, "error");
    if (current) write(current.name, states[current.name], { replace: true }); // the old view stays, with what was typed there
    return;
  }
  const own = { name, unmount: null };
  const other = current && current.name !== name;
  current?.unmount?.();
  current = own;
  root.replaceChildren();
  const heading = document.getElementById("title");
  heading.textContent = module.title;
  document.getElementById("hint").textContent = module.hint;
  document.title = `${NAMES[name]} · Bertworks studio`;
  drawNavigation();
  if (other) heading.focus({ preventScroll: true });
  const context = {
    models,
    api,
    announce: (text, kind) => current === own && announce(text, kind),
    get state() {
      return states[name];
    },
    setState(patch, options) {
      if (current !== own || leaving) return;
      states[name] = { ...states[name], ...patch };
      writeLater.cancel();
      if (options?.later) writeLater(name);
      else write(name, states[name], options);
      drawNavigation();
    },
  };
  own.unmount = module.mount(root, context) ?? null;
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});
addEventListener("popstate", show); // the back button, a link of the navigation, an address typed by hand

startTheme({ remember: true });
try {
  ({ models } = await api.get("/api/models"));
} catch {
  // The status line says it; the views say what they need.
}
await show();
