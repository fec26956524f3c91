// The first minute, as far as the network has come: what stands here follows from what it knows, also after a reload.
import { $, el, listed, percent } from "./dom.js";
import { inOrder, mean } from "./bars.js";
import { LESSON } from "./teach.js";

const FEW = 20;
const ALL = 10;
const FORGOTTEN = 0.8;

const shares = (held, labels) => listed(labels.map((label) => `${label} (${percent(held?.[String(label)])})`));
const average = (held, labels) => percent(mean(labels.map((label) => held?.[String(label)])));

function beginning(known, drawn, answer) {
  const wanted = known.includes(7) ? [2, 3, 4, 5, 6, 8, 9].find((digit) => !known.includes(digit)) : 7;
  if (!drawn) return { step: 0, text: [`This network knows ${listed(inOrder(known))}, and nothing else. `, el("strong", { text: `Draw a ${wanted}.` })] };
  const says = answer?.labels ? `It says ${answer.labels[0]}: it has no other word. ` : "";
  return { step: 1, text: [says, el("strong", { text: "Tell it what that is: press its digit." })] };
}

function practice(label, acts) {
  return { step: 2, text: [`Now it has met the ${label}, but one example is not much. `, el("strong", { text: `Show it ${LESSON} more.` })],
    button: `Give it ${LESSON} examples of ${label}`, act: () => acts.lesson(label) };
}

// The other learner may have forgotten, may never have learned the new one, or may hold its own so far.
function besideIt(name, held, old, fresh) {
  if (mean(old.map((label) => held?.[String(label)])) < FORGOTTEN) return ` ${name}, taught the same samples: ${shares(held, old)}.`;
  if (held?.[String(fresh)] < FORGOTTEN) return ` ${name} has them, too, but hardly learned the new one: ${shares(held, [fresh])}. Go on and watch both.`;
  return ` So does ${name}, still. Go on and watch both.`;
}

function comparison(state, known, acts, names) {
  const held = state.demo.held_out, fresh = known[known.length - 1], old = inOrder(known.slice(0, -1)).slice(0, 4);
  const rest = Array.from({ length: ALL }, (_, k) => k).filter((digit) => !known.includes(digit));
  return { step: 3, text: [`It knows the ${fresh} now. `, el("strong", { text: "And the old ones? " }),
    `${names[0]} still knows ${shares(held?.efc, old)}.`, state.beside ? besideIt(names[1], held?.beside, old, fresh) : ""],
    button: `Go on with ${listed(rest)}`, act: () => acts.course(rest) };
}

function end(state, known, names) {
  const held = state.demo.held_out;
  const beside = state.beside ? ` ${names[1]}, taught the same samples in the same order, knows ${average(held?.beside, known)}.` : "";
  return { step: 3, text: [el("strong", { text: "Ten digits, one after the other. " }), `Of digits it was never shown ${names[0]} knows ${average(held?.efc, known)}.${beside}`] };
}

function stage(state, drawn, answer, acts, names, busy) {
  const known = state.classes.map((each) => each.label), few = state.classes.find((each) => each.count < FEW);
  if (busy) return { step: 2, text: [busy] };
  if (known.length < 3) return beginning(known, drawn, answer);
  if (few && state.demo.lessons_left?.[String(few.label)]) return practice(few.label, acts);
  return known.length < ALL ? comparison(state, known, acts, names) : end(state, known, names);
}

let act = null;

export function prepareGuide() {
  $("guide-do").addEventListener("click", () => act?.());
}

// `acts` are {lesson, course}; `busy` says what is being learned, if anything.
export function showGuide(state, drawn, answer, acts, names, busy) {
  const now = stage(state, drawn, answer, acts, names, busy), place = $("guide-text"), button = $("guide-do");
  const words = now.text.map((part) => part.textContent ?? part).join("");
  if (place.textContent !== words) place.replaceChildren(...now.text);
  place.setAttribute("aria-live", busy ? "off" : "polite"); // progress is seen, not read out
  [...$("steps").children].forEach((item, k) => {
    item.classList.toggle("done", k < now.step);
    if (k === now.step) item.setAttribute("aria-current", "step"); else item.removeAttribute("aria-current");
  });
  act = now.act ?? null;
  if (button.textContent !== (now.button ?? "")) button.textContent = now.button ?? "";
  button.hidden = !now.button;
}
