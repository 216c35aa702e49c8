// Elements without innerHTML: texts are always text, so nothing that a user types can become markup.

/**
 * Make an element: h("button", {class: "quiet", onclick: run, disabled: true}, "Run").
 * Functions become listeners, true/false attributes that are there or not, `style` an object of CSS properties.
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  setProps(element, props);
  append(element, children);
  return element;
}

export function setProps(element, props) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else if (name === "value" && "value" in element) element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replace everything within an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

let lastId = 0;

/** A label with its control: field("Text", h("textarea", {...})). The control keeps its id, or gets one. */
export function field(label, control, { hint = "", wide = false } = {}) {
  if (!control.id) control.id = `field-${++lastId}`;
  const parts = [h("label", { for: control.id }, label), control];
  if (hint) {
    control.setAttribute("aria-describedby", `${control.id}-hint`);
    parts.push(h("small", { id: `${control.id}-hint` }, hint));
  }
  return h("div", { class: wide ? "field wide" : "field" }, parts);
}

/** A select: options are strings or [value, text]; `onchange` gets the value. */
export function select(options, chosen, onchange, props = {}) {
  const pairs = options.map((option) => (Array.isArray(option) ? option : [option, option]));
  const element = h("select", props, pairs.map(([value, text]) => h("option", { value }, text)));
  if (chosen !== undefined && pairs.some(([value]) => String(value) === String(chosen))) element.value = String(chosen);
  element.addEventListener("change", () => onchange(element.value));
  return element;
}

/** A select of names that keeps the name a link asks for: where it is not among them, the server says so. With another choice it is gone. */
export function selectNamed(options, asked, onchange) {
  const known = options.some((option) => (Array.isArray(option) ? option[0] : option) === asked);
  if (!asked || known) return select(options, asked ?? undefined, onchange);
  const element = select([...options, String(asked)], asked, onchange);
  const unknown = element.lastElementChild;
  element.addEventListener("change", () => unknown.remove(), { once: true });
  return element;
}

/** Write what is typed to the state at once, so that going to another part and back loses nothing: {key in the state: control}. */
export function keepTyped(context, controls) {
  for (const [key, control] of Object.entries(controls))
    control.addEventListener("input", () => context.setState({ [key]: control.value }, { replace: true, later: true }));
}

/** A row of buttons of which one is chosen. `options` are [value, text]. */
export function choices(label, options, chosen, onchange) {
  const buttons = options.map(([value, text]) =>
    h("button", { type: "button", "data-value": value, "aria-pressed": String(value === chosen), onclick: () => choose(value) }, text));
  const group = h("div", { class: "choices", role: "group", "aria-label": label }, buttons);
  function choose(value) {
    press(group, value);
    onchange(value);
  }
  return group;
}

/** Show another button of `choices` as the chosen one. */
export function press(group, value) {
  for (const button of group.children) button.setAttribute("aria-pressed", String(button.dataset.value === String(value)));
}

/** A box that is scrolled where its content is larger, also with the keyboard. */
export function scroller(label, content, also = "") {
  return h("div", { class: `scroll ${also}`.trim(), tabindex: "0", role: "region", "aria-label": label }, content);
}

/** For `latest`: an element is shaded while something is asked for. */
export function shading(box) {
  return (busy) => void box.classList.toggle("busy", busy);
}

/** Draw something within `root` anew: who had the focus on one of its `data-control` elements has it again. */
export function keepFocus(root, draw) {
  const control = root.contains(document.activeElement) ? document.activeElement.dataset.control : undefined;
  draw();
  if (control !== undefined && !root.contains(document.activeElement)) focusOn(root, control);
}

export function focusOn(root, control) {
  root.querySelector(`[data-control="${CSS.escape(control)}"]`)?.focus({ preventScroll: true });
}

/** Call `run` once things have been still for `delay` milliseconds. */
export function debounce(run, delay = 300) {
  let timer = 0;
  const later = (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...args), delay);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}

/** 0.123, or with as many digits as are asked for. */
export function number(value, digits = 3) {
  return Number(value).toFixed(digits);
}

/** 31.3%, 0.012%, <0.001%: one digit after the point, or two that count where the share is small. */
export function percent(share) {
  const value = 100 * share;
  if (value >= 1) return `${value.toFixed(1)}%`;
  if (value < 0.001) return value === 0 ? "0%" : "<0.001%";
  return `${Number(value.toPrecision(2))}%`;
}
