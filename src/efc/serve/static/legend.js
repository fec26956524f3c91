// The names of a chart's lines, as buttons: one that is pressed, pointed at or in focus stands out, the others fade.
import { el, svg } from "./dom.js";

function entry(legend, line) {
  const swatch = svg("svg", { width: 24, height: 10, "aria-hidden": "true", focusable: "false" }, svg("path", { class: `line ${line.kind}`, d: "M1 5H23" }));
  const value = el("span", { class: "value" }), { name } = line;
  const node = el("button", { type: "button", "aria-pressed": "false", title: name }, swatch, el("span", { class: "label", text: name }), value);
  const look = (there) => () => { legend.looked = there ? name : null; legend.show(); };
  node.addEventListener("click", () => { if (!legend.pressed.delete(name)) legend.pressed.add(name); legend.show(); });
  for (const event of ["pointerenter", "focus"]) node.addEventListener(event, look(true));
  for (const event of ["pointerleave", "blur"]) node.addEventListener(event, look(false));
  return { node, value };
}

export class Legend {
  // `paths` is asked for the lines as they are drawn, by name; `changed` is told when others stand out.
  constructor({ paths, changed, title }) {
    Object.assign(this, { paths, changed });
    this.pressed = new Set();
    this.looked = null;
    this.entries = new Map();
    this.node = el("ul", { class: "legend", "aria-label": `${title}: press to make one stand out` });
  }

  // The lines that count: those that were pressed, or all.
  chosen(series) {
    const found = series.filter((line) => this.pressed.has(line.name));
    return found.length ? found : series;
  }

  // What each line says at a point. Buttons stay where they are: one of them may be in focus.
  tell(series, k) {
    const now = new Map(series.map((line) => [line.name, this.entries.get(line.name) ?? entry(this, line)]));
    this.entries = now;
    for (const name of this.pressed) if (!now.has(name)) this.pressed.delete(name);
    series.forEach((line) => { now.get(line.name).value.textContent = line.tell(line.values[k]); });
    const nodes = [...now.values()].map((each) => each.node);
    const there = [...this.node.children].map((item) => item.firstChild);
    if (nodes.length !== there.length || nodes.some((node, at) => node !== there[at])) this.node.replaceChildren(...nodes.map((node) => el("li", {}, node)));
    this.fade();
  }

  show() {
    for (const [name, { node }] of this.entries) node.setAttribute("aria-pressed", String(this.pressed.has(name)));
    this.fade();
    this.changed();
  }

  fade() {
    const lit = new Set([...this.pressed, ...(this.looked === null ? [] : [this.looked])]);
    for (const [name, path] of this.paths()) {
      path.classList.toggle("faded", lit.size > 0 && !lit.has(name));
      if (lit.has(name)) path.parentNode.append(path); // above the others
    }
  }
}
