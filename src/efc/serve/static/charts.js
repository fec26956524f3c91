// Line charts in SVG. A chart is also a slider: arrow keys walk over its points and its words say what is there.
import { brief, el, svg, whole } from "./dom.js";
import { Legend } from "./legend.js";

const TOP = 20, BOTTOM = 26, LEFT = 46, NAMES = 80, NO_NAMES = 14;
const made = new WeakMap();

const scale = (from, to, low, high) => (value) => low + ((high - low) * (value - from)) / (to - from || 1);

// The next of ..., 1, 2, 5, 10, 20, ...
function roundStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((k) => k * power).find((step) => step >= rough * (1 - 1e-9));
}

function ticksUpTo(top, most) {
  const step = roundStep(Math.max(1, top / most));
  return Array.from({ length: Math.floor(top / step) + 1 }, (_, k) => k * step);
}

// Shares from 0 to 1, or sizes from 0 to a round number.
function axisOf(spec) {
  if (!spec.sizes) return { ticks: [0, 0.5, 1], name: (y) => `${100 * y}\u00a0%`, top: 1 };
  const largest = Math.max(0, ...spec.series.flatMap((line) => line.values).filter(Number.isFinite)) || 1;
  const step = roundStep(largest / 2), top = step * Math.ceil(largest / step - 1e-9);
  return { ticks: Array.from({ length: Math.round(top / step) + 1 }, (_, k) => k * step), name: brief, top };
}

const there = (value) => value !== null && value !== undefined;

function path(xs, values, x, y) {
  let drawn = "", open = false;
  values.forEach((value, k) => {
    if (there(value)) drawn += `${open ? "L" : "M"}${x(xs[k]).toFixed(1)} ${y(value).toFixed(1)}`;
    open = there(value);
  });
  return drawn;
}

// Names at the ends of the lines, pushed apart where they would lie on each other.
function endNames(series, y, width, bottom) {
  const ends = series.map((line) => {
    const last = line.values.findLast(there);
    return last === undefined ? null : { line, last, at: y(last) };
  }).filter(Boolean).sort((a, b) => a.at - b.at);
  ends.forEach((end, k) => { if (k) end.at = Math.max(end.at, ends[k - 1].at + 13); });
  const over = ends.length ? Math.max(0, ends[ends.length - 1].at - bottom) : 0;
  return ends.map(({ line, last, at }) =>
    svg("text", { class: `end ${line.kind}`, x: width - NAMES + 7, y: at - over + 4, text: `${line.name} ${line.tell(last)}` }));
}

// Lines where something began, with names where there is room for them.
function marks(spec, x, bottom, width) {
  let free = 0;
  return (spec.marks ?? []).flatMap(({ seen, text }) => {
    const at = x(seen), half = 3.5 * text.length + 2, line = svg("line", { class: "mark", x1: at, x2: at, y1: TOP - 4, y2: bottom });
    if (at - half < free || at + half > width) return [line];
    free = at + half + 3;
    return [line, svg("text", { class: "tick middle", x: at, y: TOP - 8, text })];
  });
}

function drawn(spec, width, height) {
  const bottom = height - BOTTOM;
  const axis = axisOf(spec), last = spec.xs.at(-1) ?? 1, right = width - (spec.legend ? NO_NAMES : NAMES);
  const x = scale(0, Math.max(1, last), LEFT, right), y = scale(0, axis.top, bottom, TOP);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true", focusable: "false" });
  for (const tick of axis.ticks) {
    const at = y(tick);
    root.append(svg("line", { class: "grid", x1: LEFT, x2: right, y1: at, y2: at }), svg("text", { class: "tick end-at", x: LEFT - 6, y: at + 4, text: axis.name(tick) }));
  }
  for (const tick of ticksUpTo(last, 4)) root.append(svg("text", { class: "tick middle", x: x(tick), y: height - 8, text: whole(tick) }));
  root.append(...marks(spec, x, bottom, width));
  const paths = new Map(spec.series.map((line) => [line.name, svg("path", { class: `line ${line.kind}`, d: path(spec.xs, line.values, x, y) })]));
  root.append(svg("g", {}, ...paths.values()), ...(spec.legend ? [] : endNames(spec.series, y, width, bottom)));
  const cursor = svg("line", { class: "cursor", y1: TOP, y2: bottom, visibility: "hidden" });
  root.append(cursor);
  return { root, x, cursor, paths };
}

// At 540 samples: EFC 96 %, SGD 31 %
function words({ spec, legend }, k) {
  if (k < 0) return "nothing yet";
  const series = legend ? legend.chosen(spec.series).filter((line) => there(line.values[k])) : spec.series;
  return `at ${whole(spec.xs[k])} samples: ${series.map((line) => `${line.name} ${line.tell(line.values[k])}`).join(", ")}`;
}

function pointAt(chart, k) {
  const { host, spec, told, legend } = chart, last = spec.xs.length - 1;
  chart.chosen = k;
  const shown = k ?? last;
  host.setAttribute("aria-valuemin", 0);
  host.setAttribute("aria-valuemax", Math.max(0, last));
  host.setAttribute("aria-valuenow", Math.max(0, shown));
  host.setAttribute("aria-valuetext", words(chart, shown));
  told.textContent = k === null ? spec.sub : legend ? `At ${whole(spec.xs[k])} samples:` : words(chart, k);
  legend?.tell(spec.series, shown);
  chart.cursor.setAttribute("visibility", k === null ? "hidden" : "visible");
  if (k !== null) for (const end of ["x1", "x2"]) chart.cursor.setAttribute(end, chart.x(spec.xs[k]));
}

function nearest(chart, event) {
  const at = event.clientX - chart.host.getBoundingClientRect().left, { xs } = chart.spec;
  let best = null;
  xs.forEach((seen, k) => { if (best === null || Math.abs(chart.x(seen) - at) < Math.abs(chart.x(xs[best]) - at)) best = k; });
  return best;
}

function walked(chart, event) {
  const last = chart.spec.xs.length - 1, now = chart.chosen ?? last, leap = Math.max(1, Math.round(last / 10));
  const to = { ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1, PageDown: now - leap, PageUp: now + leap, Home: 0, End: last }[event.key];
  if (to === undefined || last < 0) return;
  event.preventDefault();
  pointAt(chart, Math.max(0, Math.min(last, to)));
}

function begun(figure, spec) {
  const host = el("div", { class: "chart", tabindex: "0", role: "slider" }), told = el("p", { class: "sub" });
  const title = el("h3"), chart = { host, told, title, chosen: null, spec: null, cursor: null, x: null, paths: new Map(), legend: null };
  figure.append(el("figcaption", {}, title, told), host);
  if (spec.legend) {
    chart.legend = new Legend({ paths: () => chart.paths, changed: () => pointAt(chart, chart.chosen), title: spec.title });
    figure.append(chart.legend.node);
  }
  host.addEventListener("pointermove", (event) => chart.spec && pointAt(chart, nearest(chart, event)));
  for (const name of ["pointerleave", "blur"]) host.addEventListener(name, () => chart.spec && pointAt(chart, null));
  host.addEventListener("keydown", (event) => chart.spec && walked(chart, event));
  new ResizeObserver(() => chart.spec && redrawn(chart)).observe(host);
  return chart;
}

function redrawn(chart) {
  const { root, x, cursor, paths } = drawn(chart.spec, Math.max(200, chart.host.clientWidth), Math.max(150, chart.host.clientHeight));
  Object.assign(chart, { x, cursor, paths });
  chart.host.replaceChildren(root);
  pointAt(chart, chart.chosen === null ? null : Math.min(chart.chosen, chart.spec.xs.length - 1));
}

// `spec` is {title, sub, xs, series: [{name, kind, values, tell}], sizes, marks, legend}. With a `legend` names stand below
// the lines, as buttons, instead of at their ends; a figure has one for good, or none.
export function lineChart(figure, spec) {
  if (!made.has(figure)) made.set(figure, begun(figure, spec));
  const chart = made.get(figure);
  chart.spec = spec;
  chart.title.textContent = spec.title;
  chart.host.setAttribute("aria-label", `${spec.title}, point by point`);
  redrawn(chart);
}
