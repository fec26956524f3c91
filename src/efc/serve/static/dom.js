// Everything shown is built with textContent: what the server says never becomes markup.
export const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

function dressed(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

export const el = (tag, attributes = {}, ...children) => dressed(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) => dressed(document.createElementNS(SVG, tag), attributes, children);

const known = (value) => value !== null && value !== undefined && Number.isFinite(value);
export const whole = (value) => (known(value) ? Math.round(value).toLocaleString("en") : "–");
export const percent = (value) => (known(value) ? `${Math.round(100 * value)}\u00a0%` : "–");
export function brief(value) {
  if (!known(value)) return "–";
  if (value > 0 && value < 1e-4) return value.toExponential(0).replace("-", "\u2212");
  return String(Number(value.toPrecision(value < 1e-3 ? 1 : 2)));
}
export const plural = (n, what) => `${whole(n)} ${what}${n === 1 ? "" : "s"}`;

export function bytes(value) {
  if (!known(value)) return "–";
  const units = ["B", "kB", "MB", "GB"];
  let k = 0;
  for (; value >= 1000 && k < units.length - 1; k++) value /= 1000;
  return `${value >= 100 || k === 0 ? Math.round(value) : value.toFixed(1)}\u00a0${units[k]}`;
}

// "2, 3 and 4"
export function listed(items) {
  const words = items.map(String);
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}`;
}

export const upper = (name) => String(name).toUpperCase();

// Says a sentence once to screen readers, and shows it: the same sentence again is said again.
export function say(place, sentence) {
  if (place.textContent === sentence) return;
  place.textContent = sentence;
}
