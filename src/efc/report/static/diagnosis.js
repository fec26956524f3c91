"use strict";
// How good the features are, what the head makes less of them, and how far they drift. There only where it was asked for.
const HEADS_SHOWN = [["accuracy", "own head", "#0072B2", ""], ["oracle", "oracle, on all data", "#009E73", "/"], ["ridge", "ridge, on all data", "#E69F00", "."]];

function headsChart(rows, colours, width) {
  const y = rows.map((_, k) => k), length = width < 480 ? 18 : 26, height = 110 + 62 * rows.length;
  const hover = (row, name, key) => `<b>${wrapped(label(row))}</b><br>${name}: ${spread(row.diagnosis[key])} %<br>` +
    `lost in the head: ${spread(row.diagnosis.lost)} points<br>the head reads ${plain(row.diagnosis.reads)}`;
  const data = HEADS_SHOWN.map(([key, name, colour, shape]) => ({
    type: "bar", orientation: "h", name, y, x: rows.map((row) => row.diagnosis[key].mean), hoverinfo: "text", textposition: "none",
    marker: { color: colour, pattern: { shape, fillmode: "overlay", size: 5, solidity: 0.25, fgcolor: colours.bg } },
    error_x: { type: "data", array: rows.map((row) => row.diagnosis[key].std), color: colours.soft, thickness: 1, width: 2 },
    hovertext: rows.map((row) => hover(row, name, key)),
  }));
  const lost = rows.map((row, k) => ({ x: Math.max(...HEADS_SHOWN.map(([key]) => row.diagnosis[key].mean + row.diagnosis[key].std)), y: k,
    xanchor: "left", xshift: 4, showarrow: false, text: `lost ${number(row.diagnosis.lost.mean)}`, font: { size: 11 } }));
  const least = Math.min(...rows.flatMap((row) => HEADS_SHOWN.map(([key]) => row.diagnosis[key].mean - row.diagnosis[key].std)));
  const floor = least > 50 ? Math.floor((least - 5) / 10) * 10 : 0;
  return { data, height, layout: layout(colours, {
    height, barmode: "group", bargap: 0.25, margin: { l: left(rows, length), r: 12, t: width < 480 ? 84 : 50, b: 44 }, annotations: lost,
    legend: { orientation: "h", x: 1, xanchor: "right", y: 1, yanchor: "bottom", font: { size: 11 } },
    xaxis: { title: { text: "accuracy, %" }, range: [floor, 100 + (100 - floor) * (width < 480 ? 0.35 : 0.15)] },
    yaxis: { tickvals: y, ticktext: rows.map((row) => plain(short(label(row), length))), autorange: "reversed", showgrid: false, zeroline: false, automargin: false },
  }) };
}

function driftChart(rows, colours, width) {
  const length = width > 700 ? 40 : 26, longest = rows.reduce((a, row) => (row.tasks.length > a.tasks.length ? row : a));
  const data = rows.flatMap((row, k) => {
    const colour = PALETTE[k % PALETTE.length] || colours.text, x = row.tasks.map((_, t) => t + 1), { drift, unexplained, explained } = row.diagnosis;
    const base = { x, mode: "lines+markers", legendgroup: String(row.index), hoverinfo: "text", marker: { color: colour, size: 7, symbol: SYMBOLS[k % SYMBOLS.length] },
      hovertext: drift.map((value, t) => `<b>${wrapped(label(row))}</b><br>${wrapped(fullTask(row, t))}: ${number(value)} %` +
        (explained[t] === null ? "" : `<br>explained by a linear map: ${number(explained[t])} %`)) };
    return [{ ...base, y: drift, name: plain(short(label(row), length)), line: { color: colour, width: 2 } },
      { ...base, y: unexplained, showlegend: false, line: { color: colour, width: 1.5, dash: "dot" } }];
  });
  const lines = legendLines(rows.map((row) => short(label(row), length).length * 5.8 + 45), width - 60), height = 280 + 19 * lines;
  return { data, height, layout: layout(colours, {
    height, showlegend: true, margin: { l: 48, r: 12, t: 10, b: 60 + 19 * lines },
    legend: { orientation: "h", x: 0, xanchor: "left", y: -46 / 210, yanchor: "top", font: { size: 11 }, tracegroupgap: 0 },
    xaxis: { title: { text: "task" }, tickvals: longest.tasks.map((_, k) => k + 1), range: [0.85, longest.tasks.length + 0.15] },
    yaxis: { title: { text: "drift since the task, %" }, rangemode: "tozero" },
  }) };
}

function headNumbers(rows) {
  return [["", ...HEADS_SHOWN.map(([, name]) => name + ", %"), "lost", ...rows[0].tasks.map((_, t) => `lost, task ${t + 1}`)],
    rows.map((row) => [label(row), ...HEADS_SHOWN.map(([key]) => spread(row.diagnosis[key])), spread(row.diagnosis.lost), ...row.diagnosis.lost_by_task.map((v) => number(v))])];
}

function driftNumbers(rows) {
  return [["drift (explained by a linear map), %", ...rows[0].tasks.map((_, t) => "task " + (t + 1))],
    rows.map((row) => [label(row), ...row.diagnosis.drift.map((value, t) => number(value) + (row.diagnosis.explained[t] === null ? "" : ` (${number(row.diagnosis.explained[t], 0)})`))])];
}

function drawDiagnosis(rows) {
  const asked = rows.filter((row) => row.diagnosis), have = asked.filter((row) => row.diagnosis.oracle), place = $("diagnosis");
  $("diagnosis-section").hidden = !DATA.rows.some((row) => row.diagnosis);
  fill(place, grouped(have, MOST.bars).flatMap((g) => [
    { title: "Features and head, " + g.name, sub: g.sub, chart: (colours, width) => headsChart(g.rows, colours, width), numbers: () => headNumbers(g.rows) },
    { title: "Drift of the features, " + g.name, sub: g.sub, chart: (colours, width) => driftChart(g.rows, colours, width), numbers: () => driftNumbers(g.rows) },
  ]), "No rows with features that were looked at.");
  const told = have.slice(0, 40).map((row) => `${label(row)}, ${group(row)}: ${row.diagnosis.confusions}`);
  for (const line of [...told, ...unique(asked.flatMap((row) => row.diagnosis.notes))]) place.append(el("p", { class: "empty", text: line }));
}
