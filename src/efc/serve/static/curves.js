// What the charts show: /history as curves, /state as numbers.
import { $, brief, bytes, el, listed, percent, whole } from "./dom.js";
import { lineChart } from "./charts.js";
import { inOrder, labelsOf, mean, namesOf, remembered, showPairs } from "./bars.js";

const LATELY = 50;

// Where a class was first met: its first point.
function beginnings(points) {
  const met = new Set(), found = [];
  for (const { seen, per_class: classes } of points) {
    const fresh = Object.keys(classes ?? {}).filter((label) => !met.has(label));
    fresh.forEach((label) => met.add(label));
    if (fresh.length) found.push({ seen, text: fresh.length > 3 ? `${fresh[0]}…` : fresh.join(" ") });
  }
  return found;
}

function accuracyChart(points, state, names) {
  const line = (name, kind, key) => ({ name, kind, values: points.map((point) => point[key] ?? null), tell: percent });
  const series = [line(names[0], "efc", "recent")];
  if (state.beside) series.push(line(names[1], "beside", "beside_recent"));
  return { title: "Accuracy on the way", sub: "Every sample is answered before it is learned.", series };
}

// A class keeps its line's looks for as long as the page is open.
const HUES = 5, looks = new Map();
function lookOf(label) {
  if (!looks.has(label)) looks.set(label, looks.size);
  return `of-class c${looks.get(label) % HUES} d${Math.floor(looks.get(label) / HUES)}`;
}

function classChart(points, state) {
  const labels = labelsOf(state).map(String), met = new Set(points.flatMap((point) => Object.keys(point.per_class ?? {})));
  labels.forEach(lookOf);
  const share = (point, label) => (Object.hasOwn(point.per_class ?? {}, label) ? point.per_class[label] : null);
  const series = labels.filter((label) => met.has(label)).map((label) => (
    { name: label, kind: lookOf(label), values: points.map((point) => share(point, label)), tell: percent }));
  const some = state.classes.length > met.size && met.size ? ` Of the first ${met.size} classes.` : "";
  return { title: "Accuracy of each class", sub: `Its last 100 samples, each answered before it was learned.${some}`, series, legend: true };
}

function layerChart(points, layer, layers) {
  const line = (name, kind, key) => ({ name, kind, values: points.map((point) => point[key]?.[layer] ?? null), tell: brief });
  const place = layer === layers - 1 ? "the output" : layers === 2 ? "the hidden layer" : `hidden layer ${layer + 1}`;
  const psi = line("‖ψ‖", "psi", "psi"), gamma = line("‖γ‖", "gamma", "gamma"), idle = !gamma.values.some((value) => value > 0);
  const sub = idle ? "ψ asks for change. γ, which resists, has been 0 so far." : "ψ asks for change, γ resists it; shown is their size.";
  return { title: `Control in ${place}`, sub, sizes: true, series: [psi, gamma] };
}

export function showCurves(points, state) {
  const xs = points.map((point) => point.seen), names = namesOf(state), marks = beginnings(points);
  const layers = Math.max(0, ...points.map((point) => point.psi?.length ?? 0));
  const specs = [accuracyChart(points, state, names), classChart(points, state), ...Array.from({ length: layers }, (_, k) => layerChart(points, k, layers))];
  const place = $("charts");
  while (place.children.length > specs.length) place.lastChild.remove();
  while (place.children.length < specs.length) place.append(el("figure", { class: "card" }));
  specs.forEach((spec, k) => lineChart(place.children[k], { xs, marks, ...spec }));
  place.classList.toggle("empty", !points.length);
  $("charts-empty").hidden = points.length > 0;
}

export function showRemembered(state) {
  const rows = remembered(state), names = namesOf(state), held = Boolean(state.demo?.held_out);
  showPairs($("remembered"), rows, names);
  const efc = mean(rows.map((row) => row.efc)), beside = mean(rows.map((row) => row.beside));
  $("mean-efc").textContent = percent(efc);
  $("mean-beside").textContent = percent(beside);
  $("remembered-empty").hidden = rows.length > 0;
  $("remembered-lead").textContent = held ? "Right answers on digits that neither was ever shown. After ×: how many samples of it were taught."
    : "Right answers before the sample was learned, the last 100 of a class. After ×: how many samples of it were taught.";
}

// What looked wrong lately, if anything did. That it goes on doing so is not read out again and again.
export function showFindings(state) {
  const place = $("findings"), found = (state.findings ?? []).filter((each) => state.seen - each.seen < LATELY);
  if ([...place.children].map((line) => line.dataset.text).join() !== found.map((each) => each.text).join()) {
    place.replaceChildren(...found.map(({ text }) => el("p", { "data-text": text },
      "Something looked wrong with batch ", el("span", { "aria-live": "off" }), `: ${text}.`)));
  }
  found.forEach(({ sequence }, k) => { place.children[k].querySelector("span").textContent = whole(sequence); });
  place.hidden = !found.length;
}

export function showFacts(state) {
  const { memory, journal } = state, facts = [["samples seen", whole(state.seen)], ["waiting", whole(state.queued)],
    ["right so far", percent(state.prequential?.all)], ["model", bytes(memory?.state_bytes)], ["memory", bytes(memory?.process_bytes)], ["journal", bytes(journal?.bytes)]];
  const place = $("facts");
  if (place.children.length !== facts.length) place.replaceChildren(...facts.map(() => el("div", {}, el("dt"), el("dd"))));
  facts.forEach(([name, value], k) => {
    const [dt, dd] = place.children[k].children;
    dt.textContent = name;
    dd.textContent = value;
  });
  const labels = inOrder(state.classes.map((each) => each.label));
  const classes = !labels.length ? "no class yet" : labels.length > 6 ? `${labels.length} classes` : `classes ${listed(labels)}`;
  $("about").textContent = `${state.model}: ${state.features} inputs, ${classes}`;
}
