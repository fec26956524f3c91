// The drawing pad: mouse, finger, pen, or arrow keys and the space bar. What it holds are strokes, in shares of its side.
import { SIDE, picture, smoothed } from "./ink.js";

const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const PEN = 0.075;

export class Pad {
  // `changed` is called after every piece of a stroke, `labelled` when a digit key says what it is.
  constructor(canvas, { changed, labelled, told }) {
    Object.assign(this, { canvas, changed, labelled, told });
    this.strokes = [];
    this.stroke = null;
    this.done = false;
    this.cursor = { column: 3, row: 0, down: false };
    canvas.addEventListener("pointerdown", (event) => this.begin(event));
    canvas.addEventListener("pointermove", (event) => this.go(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => this.end());
    canvas.addEventListener("keydown", (event) => this.key(event));
    for (const name of ["focus", "blur"]) canvas.addEventListener(name, () => this.draw());
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  input() { return picture(this.strokes); }

  get empty() { return !this.strokes.length; }

  clear() {
    this.strokes = [];
    this.stroke = null;
    this.done = false;
    this.cursor.down = false;
    this.update();
  }

  // It has its label: the next stroke begins another drawing.
  finish() {
    this.done = true;
    this.stroke = null;
    this.cursor.down = false;
    this.draw();
  }

  update() {
    this.draw();
    this.changed();
  }

  place(event) {
    const { left, top, width, height } = this.canvas.getBoundingClientRect();
    const within = (share) => Math.max(0, Math.min(1, share));
    return { x: within((event.clientX - left) / width), y: within((event.clientY - top) / height) };
  }

  newStroke(point) {
    if (this.done) { this.strokes = []; this.done = false; }
    this.stroke = [point];
    this.strokes.push(this.stroke);
  }

  begin(event) {
    if (event.button > 0) return;
    try { this.canvas.setPointerCapture(event.pointerId); } catch { /* a pointer that is gone again */ }
    this.cursor.down = false;
    this.newStroke(this.place(event));
    this.update();
  }

  go(event) {
    if (!this.stroke || this.cursor.down) return;
    const events = event.getCoalescedEvents?.() ?? [];
    this.stroke.push(...(events.length ? events : [event]).map((each) => this.place(each)));
    this.update();
  }

  end() {
    if (!this.stroke || this.cursor.down) return;
    this.stroke = null;
    this.update();
  }

  get point() { return { x: (this.cursor.column + 0.5) / SIDE, y: (this.cursor.row + 0.5) / SIDE }; }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key in MOVES) this.move(...MOVES[event.key]);
    else if (event.key === " ") this.lift();
    else if (["Delete", "Backspace", "Escape"].includes(event.key)) { this.clear(); this.told("The pad is empty."); }
    else if (/^\d$/.test(event.key)) this.labelled(event.key);
    else return;
    event.preventDefault();
  }

  move(dx, dy) {
    const { cursor } = this, within = (k) => Math.max(0, Math.min(SIDE - 1, k));
    Object.assign(cursor, { column: within(cursor.column + dx), row: within(cursor.row + dy) });
    if (cursor.down) this.stroke.push(this.point);
    this.told(`Row ${cursor.row + 1}, column ${cursor.column + 1}${cursor.down ? ", drawing" : ""}.`);
    if (cursor.down) this.update(); else this.draw();
  }

  lift() {
    this.cursor.down = !this.cursor.down;
    if (this.cursor.down) this.newStroke(this.point); else this.stroke = null;
    this.told(this.cursor.down ? "Pen down: the arrow keys draw." : "Pen up.");
    this.update();
  }

  draw() {
    const { canvas } = this, size = canvas.clientWidth, dense = devicePixelRatio || 1;
    if (canvas.width !== Math.round(size * dense)) canvas.width = canvas.height = Math.round(size * dense);
    const pen = canvas.getContext("2d"), style = getComputedStyle(canvas), colour = (name) => style.getPropertyValue(name).trim();
    pen.setTransform(canvas.width, 0, 0, canvas.width, 0, 0);
    pen.clearRect(0, 0, 1, 1);
    this.lattice(pen, colour("--grid"), 1 / Math.max(1, size));
    Object.assign(pen, { lineCap: "round", lineJoin: "round", lineWidth: PEN, strokeStyle: colour(this.done ? "--soft" : "--text") });
    for (const stroke of this.strokes) this.line(pen, smoothed(stroke));
    if (canvas.matches(":focus-visible") || this.cursor.down) this.mark(pen, colour("--efc"));
  }

  lattice(pen, colour, thin) {
    Object.assign(pen, { lineWidth: thin, strokeStyle: colour });
    pen.beginPath();
    for (let k = 1; k < SIDE; k++) {
      pen.moveTo(k / SIDE, 0); pen.lineTo(k / SIDE, 1);
      pen.moveTo(0, k / SIDE); pen.lineTo(1, k / SIDE);
    }
    pen.stroke();
  }

  line(pen, points) {
    pen.beginPath();
    pen.moveTo(points[0].x, points[0].y);
    for (const p of points.length > 1 ? points : [points[0], points[0]]) pen.lineTo(p.x, p.y);
    pen.stroke();
  }

  // Where the arrow keys' pen is: filled while it is down.
  mark(pen, colour) {
    const { x, y } = this.point;
    Object.assign(pen, { lineWidth: 0.012, strokeStyle: colour, fillStyle: colour });
    pen.beginPath();
    pen.arc(x, y, 0.045, 0, 2 * Math.PI);
    if (this.cursor.down) pen.fill(); else pen.stroke();
  }
}

// What the network sees, a pixel of the canvas for each of its inputs.
export function showInput(canvas, input, maximum) {
  const side = Math.round(Math.sqrt(input?.length || SIDE * SIDE)), pen = canvas.getContext("2d", { willReadFrequently: true });
  canvas.width = canvas.height = side;
  pen.fillStyle = getComputedStyle(canvas).getPropertyValue("--text").trim();
  (input || []).forEach((value, k) => {
    pen.globalAlpha = Math.min(1, value / maximum);
    pen.fillRect(k % side, Math.floor(k / side), 1, 1);
  });
  const drawn = input ? "as it sees the drawing" : "empty";
  canvas.setAttribute("aria-label", `The network's input, ${side} by ${side} pixels, ${drawn}`);
}
