"use strict";
// Everything shown is built with textContent; the data never become markup.
const DATA = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const MINUS = "\u2212";
// As Python rounds, so that page, terminal and figures agree: what lies exactly in the middle goes to the even digit.
function fixed(value, digits) {
  const scaled = value * 10 ** digits, below = Math.floor(scaled);
  const middle = Number.isInteger(value * 2 ** (digits + 1)) && scaled - below === 0.5;
  return middle ? ((below % 2 ? below + 1 : below) / 10 ** digits).toFixed(digits) : value.toFixed(digits);
}
const number = (value, digits = 1) =>
  value === null || value === undefined ? "" : fixed(value, digits).replace(/^-(?=.*[1-9])/, MINUS).replace(/^-/, "");
const spread = (measure, digits = 1) =>
  number(measure.mean, digits) + (measure.per_seed.length > 1 ? " ± " + number(measure.std, digits) : "");
const count = (n, what) => n + " " + what + (n === 1 ? "" : "s");
const short = (text, length = 26) => (text.length > length ? text.slice(0, length - 1) + "…" : text);
const unique = (values) => [...new Set(values)];

// Plotly reads a few tags in its texts; names must stay text there too.
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
// A long name in a tooltip is broken into lines, then escaped.
const LINE = innerWidth < 640 ? /.{1,36}/gsu : /.{1,60}/gsu;
const wrapped = (text) => (String(text).match(LINE) || [""]).slice(0, 5).map(plain).join("<br>");

// Rows that differ in their options alone are told apart by them.
const methodName = (row) => row.method + (row.differs ? " [" + row.differs + "]" : "");
const label = (row) => methodName(row) + ", " + row.head;
const group = (row) => row.dataset + ", " + row.scenario + "-IL" + (row.part === "test" ? "" : ", " + row.part + " data");
// A task is called by its classes where they are short, by its number otherwise.
function taskNames(row) {
  const names = row.tasks.map((task) => task.join(" "));
  return names.every((name) => name.length <= 5) ? names : names.map((_, k) => String(k + 1));
}
const fullTask = (row, k) => "task " + (k + 1) + " (" + short(row.tasks[k].join(", "), 80) + ")";

DATA.rows.forEach((row, index) => { row.index = index; });
const state = { chosen: {}, sort: null, by: "class" };
const DIMENSIONS = [["dataset", "Data set"], ["scenario", "Scenario"], ["method", "Method"], ["head", "Head"]];

function shownRows() {
  const rows = DATA.rows.filter((row) =>
    DIMENSIONS.every(([key]) => !state.chosen[key] || !state.chosen[key].size || state.chosen[key].has(row[key])));
  return sorted(rows);
}

// -- colours: Okabe and Ito's, which people with any colour vision can tell apart; black follows the theme.
const PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C", null];
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "x", "star"];
const METHODS = unique(DATA.rows.map((row) => row.method));
const HEADS = unique(DATA.rows.map((row) => row.head));

function theme() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  return { bg: get("--bg"), text: get("--text"), soft: get("--soft"), grid: get("--grid"), line: get("--line") };
}
const LIGHT = { bg: "#ffffff", text: "#1b1f24", soft: "#505a66", grid: "#e4e8ec", line: "#d5dae0" };
const methodColour = (row, colours) => PALETTE[METHODS.indexOf(row.method) % PALETTE.length] || colours.text;
function faint(colour, opacity) {
  const n = parseInt(colour.slice(1), 16);
  return `rgba(${n >> 16},${(n >> 8) & 255},${n & 255},${opacity})`;
}
