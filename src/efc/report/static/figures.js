"use strict";
// Frames around the charts: caption, downloads, the numbers as a table. A chart is drawn when it comes into view.
const STEP = innerWidth < 640 ? 8 : 24;  // figures of a grid at a time
const waiting = new Map();
const live = new Set();
let library = null;

function loadLibrary() {
  library = library || (async () => {
    const holder = $("library"), packed = atob(holder.textContent);
    const bytes = Uint8Array.from(packed, (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
    holder.textContent = "";
  })();
  return library;
}

const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) draw(entry.target);
}, { rootMargin: "200px" });

function watch(node, spec) {
  waiting.set(node, spec);
  watcher.observe(node);
}

function draw(node) {
  const spec = waiting.get(node);
  if (!spec) return;
  watcher.unobserve(node);
  loadLibrary().then(() => { if (node.isConnected && waiting.delete(node)) plot(node, spec); }, () => {
    node.textContent = "Figures need a browser of 2023 or later; the numbers are below.";
    node.style.minHeight = "0";
  });
}

// All that is left, at once: to be printed.
function drawWaiting() {
  for (const [node, spec] of [...waiting]) { waiting.delete(node); watcher.unobserve(node); plot(node, spec); }
}

// What is out of sight is drawn when there is nothing else to do, a figure at a time: who captures the page has all of it.
// Where there are very many this would take longer than anyone stays: they wait until they come into view.
const FEW = 60;
function drawInPeace() {
  const next = waiting.size <= FEW && [...waiting.keys()].find((node) => node.isConnected);
  if (next) draw(next);
  setTimeout(() => (window.requestIdleCallback || setTimeout)(drawInPeace), next ? 30 : 1000);
}

function plot(node, spec) {
  const chart = spec.chart(theme(), node.clientWidth);
  node.spec = spec;
  node.drawnAt = node.clientWidth;
  live.add(node);
  node.style.minHeight = chart.height + "px";
  Plotly.newPlot(node, chart.data, { ...chart.layout, width: node.clientWidth }, { displayModeBar: false });
}

function redraw() {
  for (const node of live) if (node.isConnected) plot(node, node.spec); else live.delete(node);
}

function clear(place) {
  for (const node of place.querySelectorAll(".chart")) {
    watcher.unobserve(node);
    waiting.delete(node);
    if (live.delete(node)) Plotly.purge(node);
  }
  place.replaceChildren();
}

// Saved pictures are light, whatever the page is: they go onto paper and slides.
async function save(spec, format) {
  await loadLibrary();
  const width = spec.square ? 420 : 720, chart = spec.chart(LIGHT, width);
  const lines = (spec.lines || [spec.title]).map((line) => plain(short(line, spec.square ? 48 : 90)));
  const room = 18 + 16 * lines.length, margin = { ...chart.layout.margin, t: chart.layout.margin.t + room };
  const title = { text: lines.join("<br>"), font: { size: 13 }, x: 0.02, xanchor: "left", y: 0.99, yanchor: "top", yref: "container", pad: { t: 6 } };
  const made = { ...chart.layout, width, height: chart.height + room, margin, title };
  const name = spec.title.replace(/[^A-Za-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 80).toLowerCase() || "figure";
  await Plotly.downloadImage({ data: chart.data, layout: made }, { format, width, height: made.height, filename: name, scale: format === "png" ? 2 : 1 });
}

function figure(spec) {
  const chart = el("div", { class: "chart", role: "img", "aria-label": spec.title + ". " + spec.sub });
  chart.style.minHeight = (spec.square ? 300 : 340) + "px";
  const saves = el("div", { class: "saves" });
  for (const format of ["svg", "png"]) saves.append(el("button", {
    type: "button", text: format.toUpperCase(), "aria-label": `Download as ${format.toUpperCase()}: ${spec.title}`, onclick: () => save(spec, format) }));
  const numbers = el("details", {}, el("summary", { text: "Numbers" }));
  numbers.addEventListener("toggle", () => {
    if (numbers.childElementCount > 1) return;
    const [head, lines] = spec.numbers();
    numbers.append(el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Numbers: " + spec.title }, simpleTable(head, lines)));
  });
  const caption = el("figcaption", {}, el("div", {}, el("h3", { text: spec.head || spec.title }), el("div", { class: "sub", text: spec.sub })), saves);
  watch(chart, spec);
  return el("figure", {}, caption, chart, numbers);
}

function simpleTable(head, lines) {
  const cell = (tag, scope) => (value, k) => el(tag, { text: value, scope, class: k ? "num" : "name" });
  const body = el("tbody");
  for (const [first, ...rest] of lines) body.append(el("tr", {}, el("th", { text: first, scope: "row", class: "name" }), ...rest.map((value) => el("td", { text: value, class: "num" }))));
  return el("table", {}, el("thead", {}, el("tr", {}, ...head.map(cell("th", "col")))), body);
}

function grouped(rows, most) {
  const found = new Map();
  for (const row of rows) found.set(group(row), [...(found.get(group(row)) || []), row]);
  return [...found].map(([name, all]) => ({ name, rows: all.slice(0, most), sub: all.length > most ?
    `The first ${most} of ${all.length} rows, in the table's order; filter to see others.` : count(all.length, "row") }));
}

function fill(place, figures, empty) {
  clear(place);
  const more = (from) => {
    // A few that are left over come with the others.
    const until = figures.length - from - STEP <= STEP / 3 ? figures.length : from + STEP, left = figures.length - until;
    place.append(...figures.slice(from, until).map(figure));
    if (!left) return;
    const press = el("button", { type: "button", class: "more", text: left <= STEP * 4 / 3 ? `Show the other ${left}` : `Show ${STEP} more of ${left}`, onclick: () => {
      press.remove();
      more(until);
      place.children[until].querySelector("button").focus();
    } });
    place.append(press);
  };
  more(0);
  if (!figures.length) place.append(el("p", { class: "empty", text: empty }));
}

function drawCurves(rows) {
  fill($("curves"), grouped(rows, MOST.curves).map((g) => ({
    title: "Accuracy, " + g.name, sub: g.sub, chart: (colours, width) => curvesChart(g.rows, colours, width),
    numbers: () => [["after task", ...g.rows[0].tasks.map((_, k) => String(k + 1))], g.rows.map((row) => [label(row), ...row.curve.mean.map((m, k) =>
      number(m) + (row.seeds.length > 1 ? " ± " + number(row.curve.std[k]) : ""))])],
  })), "No rows.");
}

function drawTransfer(rows) {
  fill($("transfer"), grouped(rows.filter((row) => row.tasks.length > 1), MOST.bars).map((g) => ({
    title: "Forgetting and transfer, " + g.name, sub: g.sub, chart: (colours, width) => transferChart(g.rows, colours, width),
    numbers: () => [["", ...TRANSFERS.map(([, name]) => name)], g.rows.map((row) => [label(row), ...TRANSFERS.map(([key]) => spread(row[key]))])],
  })), "One task alone: nothing to forget or to transfer.");
}

function drawShare(rows) {
  fill($("share"), grouped(rows.filter((row) => row.share && row.scenario === "class"), MOST.bars).map((g) => ({
    title: "Share of predictions, " + g.name, sub: g.sub, chart: (colours, width) => shareChart(g.rows, colours, width),
    numbers: () => [["answers on task", ...taskNames(g.rows[0])], [["true share", ...g.rows[0].share.true.map((v) => number(v))],
      ...g.rows.map((row) => [label(row), ...row.share.mean.map((m, k) => number(m) + " ± " + number(row.share.std[k]))])]],
  })), "No Class-IL rows: elsewhere the task is told, or all tasks share their outputs.");
}

function drawMatrices(rows) {
  fill($("matrices"), rows.map((row) => ({
    title: `Accuracy matrix: ${label(row)}, ${group(row)}`, lines: ["Accuracy matrix: " + label(row), group(row)], head: label(row), sub: group(row) + ": " + spread(row.accuracy).replaceAll(" ", "\u00a0") + "\u00a0%", square: true,
    chart: (colours, width) => matrixChart(row, colours, width),
    numbers: () => [["after", ...taskNames(row)], row.matrix.map((line, i) => [taskNames(row)[i], ...line.map((v, j) =>
      (v === null ? "" : number(v) + " ± " + number(row.matrix_std[i][j])))])],
  })), "No rows.");
}

function drawConfusion(rows) {
  const by = state.by, have = rows.filter((row) => confusionOf(row, by)), lost = rows.length - have.length;
  fill($("confusion"), have.map((row) => ({
    title: `Confusion by ${by}: ${label(row)}, ${group(row)}`, lines: [`Confusion by ${by}: ` + label(row), group(row)], head: label(row), sub: group(row), square: true, chart: (colours, width) => confusionChart(row, by, colours, width),
    numbers: () => {
      const { counts, names } = confusionOf(row, by);
      return [["shown", ...names], counts.map((line, i) => [names[i], ...line.map(String)])];
    },
  })), "");
  const why = by === "task" ? "in Domain-IL all tasks share their outputs" : "left out to keep this file small; results.json has them";
  if (lost) $("confusion").append(el("p", { class: "empty", text: `${count(lost, "row")} without: ${why}.` }));
}
