// The view and its state in the address: #attention?model=minilm&layer=3. What is too long for an address is kept in the
// browser's history instead, so that the back button still finds it.

const LONGEST = 8000;

function encode(value) {
  if (typeof value !== "string") return JSON.stringify(value);
  try {
    JSON.parse(value);
  } catch {
    return value; // a plain word, readable in the address
  }
  return JSON.stringify(value); // "5" is not 5
}

function decode(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The hash of a view with a state. */
export function toHash(view, state = {}) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(state)) {
    if (value === undefined || value === null) continue;
    const text = encode(value);
    if (text.length <= LONGEST) query.set(key, text);
  }
  const parameters = query.toString();
  return `#${view}${parameters ? `?${parameters}` : ""}`;
}

/** Whether something of a state is too long for a link. */
export function tooLong(state) {
  return Object.values(state).some((value) => value !== undefined && value !== null && encode(value).length > LONGEST);
}

/** {view, state} of a hash. */
export function fromHash(hash) {
  const [view, query = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const state = {};
  for (const [key, text] of new URLSearchParams(query)) state[key] = decode(text);
  return { view, state };
}

/** Write the address. `replace` leaves no step for the back button. */
export function write(view, state, { replace = false } = {}) {
  const hash = toHash(view, state);
  const kept = { view, state };
  if (replace || hash === location.hash) history.replaceState(kept, "", hash);
  else history.pushState(kept, "", hash);
}

/** What the address and the history say now. */
export function read() {
  const found = fromHash(location.hash);
  if (history.state?.view === found.view) return { view: found.view, state: { ...history.state.state, ...found.state } };
  return found;
}
