// The page: what is asked of the server and when, and who shows what it answers.
import { $, listed, plural } from "./dom.js";
import { Refused, Unreachable, call, prepareToken, tokenButton } from "./api.js";
import { answerSentence, namesOf, showAnswer } from "./bars.js";
import { showCurves, showFacts, showFindings, showRemembered } from "./curves.js";
import { prepareGuide, showGuide } from "./guide.js";
import { Pad, showInput } from "./pad.js";
import { Row } from "./row.js";
import { LESSON, Teacher } from "./teach.js";

const OFTEN = 300, USUALLY = 1000, SELDOM = 2500, PIECE = 4;
const view = { state: null, points: [], drawnFor: null, answer: null, lesson: null, rest: [] };
const demo = () => Boolean(view.state?.demo);
const input = () => (demo() ? pad.input() : row.input());

const pad = new Pad($("pad"), { changed: inputChanged, labelled: (key) => teacher.given(Number(key)), told: (text) => { $("spoken").textContent = text; } });
const row = new Row({ changed: predict, asked: predict });
const teacher = new Teacher({ teach, lesson });
const acts = { lesson, course };

// What went wrong stands where it was done, until something goes well.
function fault(error) {
  $("told").textContent = "";
  if (error instanceof Unreachable) gone(error.message);
  else $("fault").textContent = error.message;
}

function well(sentence) {
  $("fault").textContent = "";
  if (sentence) $("told").textContent = sentence;
}

// -- the answer: one question at a time; what has changed meanwhile is asked next

let asking = false, again = false, speaking = 0;

async function predict() {
  if (asking) { again = true; return; }
  asking = true;
  try {
    do {
      again = false;
      const asked = input();
      view.answer = asked ? await call("predict", { input: asked }) : null;
      showAll();
    } while (again);
    well();
  } catch (error) { fault(error); } finally { asking = false; }
  clearTimeout(speaking);
  speaking = setTimeout(() => { $("spoken").textContent = answerSentence(view.answer, namesOf(view.state)); }, 600);
}

function inputChanged() {
  $("pad-empty").hidden = !pad.empty;
  showInput($("small"), pad.input(), view.state?.demo?.maximum ?? 16);
  if (pad.empty) $("told").textContent = "";
  predict();
}

// -- teaching

async function teach(label) {
  const sample = input();
  if (!sample) {
    if (demo()) { $("told").textContent = `Draw a ${label} first, or give it examples of ${label}.`; $("pad").focus(); } else row.checked();
    return;
  }
  try {
    await call("learn?wait=1", { input: sample, label });
    if (demo()) pad.finish();
    well(`Learned: this is ${label}.${demo() ? " The next stroke begins another drawing." : ""}`);
    await pollNow();
    predict();
  } catch (error) { fault(error); }
}

const pause = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });

// A lesson goes in small pieces, each learned before the next is sent: so it can be watched, and every sample is
// answered by a network that knows the ones before it.
async function lesson(label) {
  if (view.lesson) return false;
  teacher.choose(label);
  const all = Math.min(LESSON, view.state.demo.lessons_left[String(label)] ?? 0);
  view.lesson = { label, all, given: 0 };
  try {
    while (view.lesson.given < all) {
      const { accepted } = await patient("demo/lesson?wait=1", { label, samples: Math.min(PIECE, all - view.lesson.given) });
      view.lesson.given += accepted;
      await pollNow();
    }
    well(`It was given ${plural(all, "example")} of ${label}.`);
    return true;
  } catch (error) { fault(error); return false; } finally {
    view.lesson = null;
    showAll();
  }
}

// Where its queue is full it will be shorter soon.
async function patient(path, body) {
  for (let tries = 0; ; tries++) {
    try { return await call(path, body); } catch (error) {
      if (!(error instanceof Refused && error.status === 429 && tries < 20)) throw error;
    }
    await pause(USUALLY);
  }
}

// Several digits, one after the other.
async function course(labels) {
  if (view.rest.length) return;
  view.rest = [...labels];
  while (view.rest.length && (await lesson(view.rest.shift())));
  view.rest = [];
  showAll();
}

// -- what the server knows, asked again and again while somebody looks

let timer = 0, polling = null, lost = false;

async function fetchState(ask) {
  const state = await call("state", undefined, { ask });
  const moved = state.seen !== view.state?.seen;
  if (moved || view.drawnFor === null) view.points = (await call("history", undefined, { ask })).points;
  view.state = state;
  return moved;
}

async function poll() {
  let next = USUALLY;
  try {
    const moved = await fetchState(view.state === null && !lost);
    if (lost) back();
    const { broken } = view.state;
    notice(broken ? `Nothing is learned any more: ${broken}` : "");
    showAll();
    if (moved && view.answer) predict();
    if (view.state.queued > 0) next = OFTEN;
  } catch (error) {
    next = SELDOM;
    if (error instanceof Refused && error.status === 401) locked(); else gone(error.message);
  }
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(pollNow, next);
}

function pollNow() {
  polling ??= poll().finally(() => { polling = null; });
  return polling;
}

function notice(sentence, ...more) {
  const place = $("notice");
  if (place.firstChild?.textContent !== sentence) place.replaceChildren(document.createTextNode(sentence), ...more);
  place.hidden = !sentence;
}

function gone(sentence) {
  lost = true;
  notice(`${sentence} It is asked again every few seconds; what it has acknowledged is not lost.`);
}

function locked() {
  lost = true;
  notice("This server shows nothing without its token. ", tokenButton(() => call("state").then(pollNow, fault)));
}

function back() {
  lost = false;
  $("spoken").textContent = "The server answers again.";
}

// -- all that is shown

function busyWith(state) {
  const { lesson: now, rest } = view;
  if (now) return `It learns the ${now.label}: ${now.given} of ${now.all} examples.${rest.length ? ` Then ${listed(rest)}.` : ""}`;
  return state.queued > 0 ? `It learns: ${plural(state.queued, "sample")} to go.` : "";
}

function showNames(state) {
  const names = namesOf(state);
  for (const node of document.querySelectorAll(".name-efc")) node.textContent = names[0];
  for (const node of document.querySelectorAll(".name-beside")) node.textContent = names[1];
  document.body.classList.toggle("alone", !state.beside);
  document.body.classList.toggle("demo", Boolean(state.demo));
  return names;
}

function showAll() {
  const { state } = view;
  if (!state) return;
  const names = showNames(state);
  document.querySelector("main").hidden = false;
  $("draw").hidden = $("guide").hidden = !state.demo;
  $("row").hidden = Boolean(state.demo);
  $("input-title").textContent = state.demo ? "Your drawing" : "Your sample";
  if (state.demo) showGuide(state, !pad.empty && !pad.done, view.answer, acts, names, busyWith(state));
  else row.show(state.features);
  teacher.show(state, Boolean(view.lesson));
  showAnswer(view.answer, names, state);
  showRemembered(state);
  showFacts(state);
  showFindings(state);
  if (view.drawnFor !== state.seen) showCurves(view.points, state);
  view.drawnFor = state.seen;
}

$("clear").addEventListener("click", () => pad.clear());
$("snapshot").addEventListener("click", async () => {
  try {
    const { path } = await call("snapshot", {});
    $("saved").textContent = `Saved: ${path}`;
  } catch (error) { $("saved").textContent = error.message; }
});
document.addEventListener("visibilitychange", () => { if (document.hidden) clearTimeout(timer); else pollNow(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => showInput($("small"), pad.input(), view.state?.demo?.maximum ?? 16));
prepareToken();
prepareGuide();
pollNow();
