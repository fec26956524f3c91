// Paired bars: EFC above, the learner beside it below, on one baseline. Kept from one showing to the next, so that they grow.
import { $, el, percent, upper } from "./dom.js";

function bar(kind) {
  const fill = el("span", { class: `fill ${kind}` }), value = el("span", { class: "value" });
  const who = el("span", { class: "unseen" });
  return { node: el("span", { class: "bar" }, el("span", { class: "track" }, fill), el("span", { class: "number" }, who, value)), fill, value, who };
}

function newRow() {
  const label = el("span", { class: "label" }), note = el("span", { class: "note" });
  const efc = bar("efc"), beside = bar("beside"), bars = el("span", { class: "bars" }, efc.node, beside.node);
  return { node: el("li", {}, el("span", { class: "head" }, label, note), bars), label, note, efc, beside };
}

function fillBar(part, name, share) {
  part.node.hidden = share === undefined;
  part.who.textContent = `${name}: `;
  part.value.textContent = percent(share);
  part.fill.style.width = `${100 * Math.max(0, Math.min(1, share || 0))}%`;
}

const kept = new WeakMap();

// Rows are {label, note, efc, beside, first, unmet}; `beside` undefined where nobody learns beside. `names` are the two learners'.
export function showPairs(list, rows, names) {
  const old = kept.get(list) ?? new Map(), now = new Map();
  for (const row of rows) {
    const key = String(row.label), parts = old.get(key) ?? newRow();
    parts.label.textContent = parts.label.title = key;
    parts.note.textContent = row.note ?? "";
    parts.node.classList.toggle("first", Boolean(row.first));
    parts.node.classList.toggle("unmet", Boolean(row.unmet));
    fillBar(parts.efc, names[0], row.efc);
    fillBar(parts.beside, names[1], row.beside);
    now.set(key, parts);
  }
  kept.set(list, now);
  const nodes = [...now.values()].map((parts) => parts.node);
  if (nodes.length !== list.children.length || nodes.some((node, k) => node !== list.children[k])) list.replaceChildren(...nodes);
}

const MOST = 12;
const by = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
export const inOrder = (labels) => [...labels].sort(by);

// The labels to speak of: the demonstration's ten digits are there from the beginning, met or not.
export function labelsOf(state) {
  const met = (state?.classes ?? []).map((each) => each.label);
  return inOrder(new Set([...met, ...(state?.demo ? Array.from({ length: 10 }, (_, k) => k) : [])]));
}

// The answer: a large label for each learner, and the probabilities of the likeliest classes, in the order of the labels.
export function showAnswer(answer, names, state) {
  const known = Boolean(answer?.labels), beside = answer?.beside, place = known ? answer.classes : [];
  const shares = known ? answer.probabilities[0] : [], others = beside?.probabilities?.[0];
  const met = new Set(state.classes.map((each) => each.label)), nobody = state.beside ? null : undefined;
  const rows = (state.demo ? labelsOf(state) : place).map((label) => {
    const k = place.indexOf(label);
    return { label, efc: shares[k] ?? null, beside: others?.[k] ?? nobody, unmet: !met.has(label), first: known && label === answer.labels[0] };
  });
  const size = (row) => Math.max(row.efc ?? -1, row.beside ?? -1);
  if (rows.length > MOST) rows.sort((a, b) => size(b) - size(a));
  showPairs($("answer-bars"), rows.slice(0, MOST).sort((a, b) => by(a.label, b.label)), names);
  showSaid("efc", known ? answer.labels[0] : null, known ? Math.max(...shares) : null);
  showSaid("beside", beside?.labels ? beside.labels[0] : null, others ? Math.max(...others) : null);
  $("answer-empty").hidden = known || Boolean(state.demo);
}

function showSaid(kind, label, share) {
  $(`said-${kind}`).textContent = $(`said-${kind}`).title = label === null ? "–" : String(label);
  $(`said-${kind}`).classList.toggle("long", String(label).length > 3);
  $(`sure-${kind}`).textContent = share === null ? "" : `${percent(share)} sure`;
  $(`brief-${kind}`).textContent = label === null ? "–" : String(label);
}

// "EFC says 7, 93 %; SGD says 1, 100 %.": what a screen reader hears.
export function answerSentence(answer, names) {
  if (!answer?.labels) return "";
  const one = (name, labels, shares) => `${name} says ${labels[0]}, ${percent(Math.max(...shares[0]))}`;
  const said = [one(names[0], answer.labels, answer.probabilities)];
  if (answer.beside?.labels) said.push(one(names[1], answer.beside.labels, answer.beside.probabilities));
  return `${said.join("; ")}.`;
}

// What each learner knows of each class: held-out data where there are any, answers before learning where not.
export function remembered(state) {
  const held = state.demo?.held_out, others = new Map((state.beside?.classes ?? []).map((each) => [String(each.label), each.accuracy]));
  const classes = new Map(state.classes.map((each) => [String(each.label), each]));
  return labelsOf(state).map((label) => {
    const key = String(label), one = classes.get(key), nobody = state.beside ? null : undefined;
    if (!one) return { label, note: "not met", efc: null, beside: nobody, unmet: true };
    const efc = held ? held.efc?.[key] : one.accuracy, beside = held ? held.beside?.[key] : others.get(key);
    return { label, note: `× ${one.count.toLocaleString("en")}`, efc: efc ?? null, beside: beside ?? nobody };
  });
}

export const mean = (values) => {
  const there = values.filter((value) => Number.isFinite(value));
  return there.length ? there.reduce((a, b) => a + b, 0) / there.length : null;
};

export const namesOf = (state) => [upper(state?.method ?? "efc"), upper(state?.beside?.method ?? "")];
