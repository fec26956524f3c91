// Labels: a button for each, a field for a new one, and lessons of the data's own samples.
import { $, el, plural } from "./dom.js";
import { inOrder } from "./bars.js";

export const LESSON = 40;
const MOST = 20;

// Classes are of one kind: numbers stay numbers unless the classes so far are texts.
export function asLabel(text, classes) {
  const texts = classes.length && classes.every((label) => typeof label === "string");
  return !texts && /^-?\d{1,15}$/.test(text) ? Number(text) : text;
}

export class Teacher {
  // `teach` is called with a label, `lesson` with a digit.
  constructor({ teach, lesson }) {
    this.teach = teach;
    this.chosen = null;
    this.state = null;
    $("other").addEventListener("submit", (event) => {
      event.preventDefault();
      const field = $("other-label"), text = field.value.trim();
      if (text) this.given(asLabel(text, this.known())); else field.focus();
      field.value = "";
    });
    $("lesson").addEventListener("click", () => lesson(this.chosen));
  }

  known() { return (this.state?.classes ?? []).map((each) => each.label); }

  given(label) {
    this.choose(label);
    this.teach(label);
  }

  choose(label) {
    this.chosen = label;
    if (this.state) this.show(this.state, this.busy);
  }

  show(state, busy = false) {
    this.state = state;
    this.busy = busy;
    if (state.classes.length > 2) this.chosen ??= state.classes.at(-1).label;
    const counts = new Map(state.classes.map((each) => [each.label, each.count]));
    const labels = state.demo ? Array.from({ length: 10 }, (_, k) => k) : inOrder(this.known()).slice(0, MOST);
    const place = $("labels");
    if (place.dataset.labels !== JSON.stringify(labels)) {
      place.dataset.labels = JSON.stringify(labels);
      place.replaceChildren(...labels.map((label) => el("button", { type: "button", onclick: () => this.given(label) }, el("span", { text: String(label) }))));
    }
    [...place.children].forEach((button, k) => {
      const count = counts.get(labels[k]) ?? 0;
      button.classList.toggle("known", count > 0);
      button.setAttribute("aria-label", `Teach: this is ${labels[k]}, ${count ? `known from ${plural(count, "sample")}` : "unknown so far"}`);
    });
    this.showLesson(state);
  }

  showLesson(state) {
    const button = $("lesson"), left = state.demo?.lessons_left?.[String(this.chosen)];
    button.hidden = left === undefined;
    if (button.hidden) return;
    button.disabled = left === 0 || this.busy;
    button.textContent = left ? `Give it ${plural(Math.min(LESSON, left), "example")} of ${this.chosen}` : `No examples of ${this.chosen} are left`;
  }
}
