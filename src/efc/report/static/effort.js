"use strict";
// How control went during training: a panel per layer, and one for the samples that did not settle.
const SIGNALS = [["psi", "ψ, asked by learning", "#0072B2", "solid", "circle"], ["gamma", "γ, answered by preservation", "#D55E00", "dash", "square"]];
const UNSETTLED = ["unsettled", "unsettled", "#009E73", "solid", "diamond"];
const PANEL = 112, LAST = 84, GAP = 12;
const MOST_DECADES = 5;

const brief = (value) => (value === null || value === undefined ? "" : value === 0 ? "0" : String(Number(value.toPrecision(3))).replace("-", MINUS));
const briefSpread = (row, { mean, std }, layer, k) =>
  brief(mean[layer][k]) + (row.seeds.length > 1 && mean[layer][k] !== null ? " ± " + brief(std[layer][k]) : "");

// One range for all layers, so that they can be compared: as far down as the means go, but no further than some decades.
function signalRange({ psi, gamma }) {
  const over = [psi, gamma].flatMap(({ mean, std }) => mean.flatMap((line, i) => line.map((m, k) => m + std[i][k])));
  const means = [psi, gamma].flatMap(({ mean }) => mean.flat()).filter((m) => m > 0);
  if (!means.length) return [1e-3, 1];
  const top = 1.4 * Math.max(...over);
  return [Math.max(Math.min(...means) / 1.3, top / 10 ** MOST_DECADES), top];
}

// Powers of ten; where the range holds too few of them, twos and fives as well.
function signalTicks([floor, top]) {
  const steps = top / floor > 30 ? [1] : [1, 2, 5], vals = [];
  for (let power = Math.floor(Math.log10(floor)); 10 ** power <= top; power++) vals.push(...steps.map((step) => Number(`${step}e${power}`)));
  const kept = vals.filter((value) => value >= floor && value <= top);
  return { tickvals: kept, ticktext: kept.map((value) => (steps.length > 1 ? brief(value) : `10<sup>${brief(Math.round(Math.log10(value)))}</sup>`)) };
}

function effortCurve(row, [key, name, colour, dash, symbol], layer, panel, floor) {
  const { at, task, epoch, layers, [key]: curves } = row.effort, mean = curves.mean[layer], std = curves.std[layer];
  const shown = mean.map((m) => (m === null || (floor && m <= 0) ? null : m)), axis = panel ? "y" + (panel + 1) : "y";
  const known = at.map((_, k) => k).filter((k) => shown[k] !== null), xs = known.map((k) => at[k]);
  const low = known.map((k) => Math.max(mean[k] - std[k], floor)), high = known.map((k) => mean[k] + std[k]);
  const band = { x: xs.concat(xs.slice().reverse()), y: high.concat(low.reverse()), yaxis: axis, fill: "toself", fillcolor: faint(colour, 0.15),
    line: { width: 0 }, mode: "lines", hoverinfo: "skip", legendgroup: key, showlegend: false };
  const line = { x: at, y: shown, yaxis: axis, mode: at.length > 40 ? "lines" : "lines+markers", name, legendgroup: key,
    showlegend: panel === 0, line: { color: colour, width: 2, dash }, marker: { color: colour, size: 5, symbol }, hoverinfo: "text",
    hovertext: at.map((_, k) => `<b>${wrapped(label(row))}</b><br>${wrapped(fullTask(row, task[k] - 1))}, epoch ${epoch[k]}<br>` +
      (floor ? `${layers[layer]}: ${key === "psi" ? "ψ" : "γ"} ` : "unsettled: ") + briefSpread(row, curves, layer, k) + (floor ? "" : " %")) };
  return row.seeds.length > 1 && known.length > 1 ? [band, line] : [line];
}

// The tasks' names above the panels, as many as there is room for.
function taskLabels(row, width) {
  const { epochs, borders } = row.effort, edges = [0.5, ...borders, epochs + 0.5], names = taskNames(row);
  const every = Math.ceil((names.length * 8 * Math.max(5, ...names.map((name) => name.length))) / (width - 80));
  return edges.slice(1).map((end, t) => ({ x: (edges[t] + end) / 2, y: 1, yref: "paper", yanchor: "bottom", showarrow: false,
    text: t % every ? "" : plain(names[t]), font: { size: 11 } }));
}

function effortChart(row, colours, width) {
  const { epochs, layers, borders } = row.effort, [floor, top] = signalRange(row.effort), L = layers.length;
  const inner = L * (PANEL + GAP) + LAST, height = inner + 104, axes = {};
  layers.concat("unsettled, %").forEach((name, p) => {
    const high = inner - p * (PANEL + GAP), low = p < L ? high - PANEL : 0;
    const scale = p < L ? { type: "log", range: [Math.log10(floor), Math.log10(top)], ...signalTicks([floor, top]) }
      : { rangemode: "tozero", nticks: 4, range: row.effort.unsettled.mean[0].some((v) => v > 0) ? undefined : [0, 1] };
    axes["yaxis" + (p ? p + 1 : "")] = layout(colours, { yaxis: { ...scale, domain: [low / inner, high / inner], title: { text: name } } }).yaxis;
  });
  const data = layers.flatMap((_, i) => SIGNALS.flatMap((signal) => effortCurve(row, signal, i, i, floor)));
  data.push(...effortCurve(row, UNSETTLED, 0, L, 0));
  const { yaxis, ...others } = axes;
  const lines = legendLines(SIGNALS.map(([, name]) => name.length * 5.8 + 45), width - 70);
  const made = layout(colours, { height: height + 19 * lines, margin: { l: 62, r: 12, t: 26, b: 60 + 19 * lines }, showlegend: true,
    legend: { orientation: "h", x: 0, xanchor: "left", y: -46 / inner, yanchor: "top", font: { size: 11 }, tracegroupgap: 0 },
    xaxis: { title: { text: "epoch" }, range: [0.5, epochs + 0.5], anchor: "y" + (L + 1), showgrid: false, zeroline: false }, yaxis,
    shapes: borders.map((x) => ({ type: "line", x0: x, x1: x, y0: 0, y1: 1, yref: "paper", line: { color: colours.soft, width: 1, dash: "dot" } })),
    annotations: taskLabels(row, width) });
  return { data, height: made.height, layout: { ...made, ...others } };
}

function effortNumbers(row) {
  const { psi, gamma, unsettled, layers, task, epoch } = row.effort;
  return [["task, epoch", ...layers.map((name) => "ψ " + name), ...layers.map((name) => "γ " + name), "unsettled, %"],
    epoch.map((e, k) => [`${task[k]}, ${e}`, ...layers.map((_, i) => briefSpread(row, psi, i, k)), ...layers.map((_, i) => briefSpread(row, gamma, i, k)),
      briefSpread(row, unsettled, 0, k)])];
}

function drawEffort(rows) {
  const have = rows.filter((row) => row.effort), lost = rows.filter((row) => row.unsettled && !row.effort).length;
  fill($("effort"), have.map((row) => ({
    title: `Control: ${label(row)}, ${group(row)}`, lines: ["Control: " + label(row), group(row)], head: label(row),
    sub: group(row) + (row.effort.at.length < row.effort.epochs ? `: ${row.effort.at.length} of ${row.effort.epochs} epochs` : ""),
    chart: (colours, width) => effortChart(row, colours, width), numbers: () => effortNumbers(row),
  })), lost ? "" : "No rows: only EFC has these signals.");
  if (lost) $("effort").append(el("p", { class: "empty", text: `${count(lost, "row")} without: left out to keep this file small, or stored before it was recorded.` }));
}
