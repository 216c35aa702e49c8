// Characters as the server counts them. A string here counts an emoji as two.

/** (start, end) -> that part of the text, in characters (code points). */
export function slicer(text) {
  if (!/[\ud800-\udfff]/.test(text)) return (start, end) => text.slice(start, end);
  const characters = Array.from(text);
  return (start, end) => characters.slice(start, end).join("");
}

/** A text of at most `size` characters. */
export function shortened(text, size = 28) {
  const characters = Array.from(text);
  return characters.length <= size ? text : `${characters.slice(0, size - 1).join("").trimEnd()}…`;
}

/** The last `size` characters of a text. */
export function ending(text, size = 28) {
  const characters = Array.from(text);
  return characters.length <= size ? text : `…${characters.slice(1 - size).join("").trimStart()}`;
}
