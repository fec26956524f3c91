"use strict";
// What is drawn: each function returns {data, layout} for Plotly in given colours. Tooltips are plain texts.
const MOST = { curves: 12, bars: 16 };
const CELLS_WITH_NUMBERS = 12;

function layout(colours, more) {
  const axis = { gridcolor: colours.grid, linecolor: colours.line, zerolinecolor: colours.line, fixedrange: true,
    tickfont: { size: 11 }, title: { font: { size: 12 }, standoff: 8 }, automargin: true };
  const { xaxis, yaxis, ...rest } = more;
  const merged = (own = {}) => ({ ...axis, ...own, title: { ...axis.title, ...(own.title || {}) } });
  return {
    paper_bgcolor: colours.bg, plot_bgcolor: colours.bg, font: { family: "system-ui, sans-serif", size: 12, color: colours.text },
    margin: { l: 50, r: 12, t: 10, b: 40 }, dragmode: false, hovermode: "closest", colorway: PALETTE.filter(Boolean),
    hoverlabel: { bgcolor: colours.text, bordercolor: colours.line, font: { color: colours.bg, size: 12 }, align: "left" },
    legend: { orientation: "h", x: 0, xanchor: "left", y: -0.2, yanchor: "top", font: { size: 11 } },
    ...rest, xaxis: merged(xaxis), yaxis: merged(yaxis),
  };
}

function seedLines(row, values) {
  const listed = row.seeds.slice(0, 6).map((seed, k) => `seed ${seed}: ${number(values[k])}`);
  return listed.join("<br>") + (row.seeds.length > 6 ? "<br>…" : "");
}

// How many lines entries of these widths take: the legend needs its room before it is drawn.
function legendLines(widths, room) {
  let lines = 1, used = 0;
  for (const width of widths) {
    if (used && used + width > room) { lines += 1; used = 0; }
    used += width;
  }
  return lines;
}

function curvesChart(rows, colours, width) {
  const data = [], drawn = new Map(), length = width > 700 ? 40 : 26;
  const longest = rows.reduce((a, row) => (row.tasks.length > a.tasks.length ? row : a));
  for (const row of rows) {
    const colour = methodColour(row, colours), head = HEADS.indexOf(row.head), { mean, std, per_seed: each } = row.curve;
    // Curves that lie on each other are told apart by a little space between their points.
    const aside = rows.length > 1 ? (rows.indexOf(row) / (rows.length - 1) - 0.5) * Math.min(0.24, 0.05 * rows.length) : 0;
    const x = mean.map((_, k) => k + 1 + aside), key = String(row.index);
    // Rows that differ in options alone have one colour; another symbol each.
    const times = drawn.get(row.method + row.head) ?? 0, shape = head + times + Math.floor(METHODS.indexOf(row.method) / PALETTE.length);
    drawn.set(row.method + row.head, times + 1);
    if (row.seeds.length > 1) data.push({
      x: x.concat(x.slice().reverse()), fill: "toself", fillcolor: faint(colour, 0.13), line: { width: 0 }, mode: "lines",
      y: mean.map((m, k) => m + std[k]).concat(mean.map((m, k) => m - std[k]).reverse()), hoverinfo: "skip",
      legendgroup: key, showlegend: false,
    });
    data.push({
      x, y: mean, mode: "lines+markers", name: plain(short(label(row), length)), legendgroup: key, hoverinfo: "text",
      line: { color: colour, width: 2, dash: DASHES[head % DASHES.length] },
      marker: { color: colour, size: 7, symbol: SYMBOLS[shape % SYMBOLS.length] },
      hovertext: mean.map((m, k) => `<b>${wrapped(label(row))}</b><br>after ${wrapped(fullTask(row, k))}<br>` +
        `${number(m)} ± ${number(std[k])} %<br>` + seedLines(row, each.map((values) => values[k]))),
    });
  }
  // Where everything is high the axis need not begin at zero.
  const lowest = Math.min(...rows.map((row) => Math.min(...row.curve.mean.map((m, k) => m - row.curve.std[k]))));
  const floor = lowest > 50 ? Math.floor((lowest - 2) / 10) * 10 : 0;
  const lines = legendLines(rows.map((row) => short(label(row), length).length * 5.8 + 45), width - 60);
  const height = 300 + 19 * lines;
  return { data, height, layout: layout(colours, {
    height, showlegend: true, margin: { l: 48, r: 12, t: 10, b: 60 + 19 * lines },
    legend: { orientation: "h", x: 0, xanchor: "left", y: -46 / 230, yanchor: "top", font: { size: 11 }, tracegroupgap: 0 },
    xaxis: { title: { text: "tasks learned" }, tickvals: longest.tasks.map((_, k) => k + 1), range: [0.8, longest.tasks.length + 0.2] },
    yaxis: { title: { text: "accuracy, %" }, range: [floor, 100 + (100 - floor) / 40] },
  }) };
}

// Room for the names of the rows at the left.
const left = (rows, length) => 14 + 6.3 * Math.max(10, ...rows.map((row) => Math.min(length, label(row).length)));

const TRANSFERS = [["forgetting", "forgetting", "#D55E00", ""], ["bwt", "backward transfer", "#0072B2", "/"], ["fwt", "forward transfer", "#009E73", "."]];

function transferChart(rows, colours, width) {
  const height = 90 + 56 * rows.length, y = rows.map((_, k) => k), length = width < 480 ? 18 : 26;
  const data = TRANSFERS.map(([key, name, colour, shape]) => ({
    type: "bar", orientation: "h", name, y, x: rows.map((row) => row[key].mean), hoverinfo: "text", textposition: "none",
    marker: { color: colour, pattern: { shape, fillmode: "overlay", size: 5, solidity: 0.25, fgcolor: colours.bg } },
    error_x: { type: "data", array: rows.map((row) => row[key].std), color: colours.soft, thickness: 1, width: 2 },
    hovertext: rows.map((row) => `<b>${wrapped(label(row))}</b><br>${name}: ${plain(spread(row[key]))}<br>` + seedLines(row, row[key].per_seed)),
  }));
  return { data, height, layout: layout(colours, {
    height, barmode: "group", bargap: 0.25, margin: { l: left(rows, length), r: 12, t: width < 480 ? 66 : 34, b: 44 },
    legend: { orientation: "h", x: 1, xanchor: "right", y: 1, yanchor: "bottom", font: { size: 11 } },
    xaxis: { title: { text: "points of accuracy" }, zeroline: true, zerolinecolor: colours.soft },
    yaxis: { tickvals: y, ticktext: rows.map((row) => plain(short(label(row), length))), autorange: "reversed", showgrid: false, zeroline: false, automargin: false },
  }) };
}

function shareChart(rows, colours, width) {
  const first = rows[0], T = first.tasks.length, names = taskNames(first), length = width < 480 ? 18 : 26;
  const y = rows.map((_, k) => k + 1), height = 100 + 34 * (rows.length + 1);
  const data = first.tasks.map((_, t) => ({
    type: "bar", orientation: "h", y: [0, ...y], x: [first.share.true[t], ...rows.map((row) => row.share.mean[t])],
    name: plain(names[t]), hoverinfo: "text", textposition: "none",
    marker: { color: cividis(T > 1 ? t / (T - 1) : 0), line: { color: colours.soft, width: 0.6 } },
    hovertext: [`<b>true share</b><br>${wrapped(fullTask(first, t))}: ${number(first.share.true[t])} %`, ...rows.map((row) =>
      `<b>${wrapped(label(row))}</b><br>${wrapped(fullTask(row, t))}: ${number(row.share.mean[t])} ± ${number(row.share.std[t])} %`)],
  }));
  return { data, height, layout: layout(colours, {
    height, barmode: "stack", bargap: 0.25, margin: { l: left(rows, length), r: 12, t: 40, b: 44 },
    legend: { orientation: "h", x: 1, xanchor: "right", y: 1, yanchor: "bottom", traceorder: "normal", font: { size: 11 }, title: { text: "task " } },
    xaxis: { title: { text: "share of answers, %" }, range: [0, 100.5] },
    yaxis: { tickvals: [0, ...y], ticktext: ["true share", ...rows.map((row) => plain(short(label(row), length)))], autorange: "reversed", showgrid: false, zeroline: false, automargin: false },
  }) };
}

// A few stops of cividis, which looks the same to all eyes; the heat maps use it too.
const CIVIDIS = [[0, 32, 76], [0, 57, 110], [65, 77, 107], [97, 99, 112], [124, 123, 120], [155, 148, 118], [190, 175, 111], [223, 204, 96], [255, 233, 69]];
function cividis(at) {
  const k = Math.min(CIVIDIS.length - 2, Math.floor(at * (CIVIDIS.length - 1))), part = at * (CIVIDIS.length - 1) - k;
  return `rgb(${CIVIDIS[k].map((from, c) => Math.round(from + part * (CIVIDIS[k + 1][c] - from))).join(",")})`;
}

// The numbers in the cells, dark on light and light on dark.
function cellNumbers(z) {
  const cells = z.flatMap((line, i) => line.map((value, j) => ({ i, j, value }))).filter((cell) => cell.value !== null);
  return { type: "scatter", mode: "text", x: cells.map((cell) => cell.j), y: cells.map((cell) => cell.i), hoverinfo: "skip",
    text: cells.map((cell) => fixed(cell.value, 0)), showlegend: false,
    textfont: { size: z.length > 8 ? 9 : 12, color: cells.map((cell) => (cell.value > 55 ? "#000000" : "#ffffff")) } };
}

function heatMap(z, names, titles, hover, colours, width) {
  const n = z.length, numbers = n <= CELLS_WITH_NUMBERS, every = n > CELLS_WITH_NUMBERS ? Math.ceil(n / 8) : 1;
  const size = Math.min(width, 380), height = size - 30, kept = names.map((_, k) => k).filter((k) => k % every === 0);
  const ticks = { tickvals: kept, ticktext: kept.map((k) => plain(short(names[k], 10))), showgrid: false, zeroline: false, constrain: "domain" };
  return { height, data: [{
    type: "heatmap", z, zmin: 0, zmax: 100, colorscale: CIVIDIS.map((_, k) => [k / 8, cividis(k / 8)]), hoverinfo: "text", hovertext: hover,
    xgap: n > 40 ? 0 : 1, ygap: n > 40 ? 0 : 1, colorbar: { thickness: 8, len: 1, outlinewidth: 0, tickfont: { size: 10 }, xpad: 4, ticksuffix: " %", nticks: 5 },
  }, ...(numbers ? [cellNumbers(z)] : [])], layout: layout(colours, {
    height, margin: { l: 40, r: 8, t: 6, b: 40 },
    xaxis: { ...ticks, title: { text: titles[0] }, tickangle: names.some((name) => name.length > 3) && n > 4 ? -60 : 0 },
    yaxis: { ...ticks, title: { text: titles[1] }, autorange: "reversed", scaleanchor: "x" },
  }) };
}

function matrixChart(row, colours, width) {
  const when = row.prequential ? "at the checkpoint of" : "after";
  const hover = row.matrix.map((line, i) => line.map((value, j) => (value === null ? "" :
    `<b>${wrapped(label(row))}</b><br>on ${wrapped(fullTask(row, j))}<br>${when} ${wrapped(fullTask(row, i))}<br>` +
    `${number(value)} ± ${number(row.matrix_std[i][j])} %`)));
  return heatMap(row.matrix, taskNames(row), ["tested on task", when + " task"], hover, colours, width);
}

function confusionOf(row, by) {
  const counts = by === "class" ? row.confusion : row.by_task;
  if (!counts) return null;
  const totals = counts.map((line) => line.reduce((a, b) => a + b, 0));
  return { counts, totals, share: counts.map((line, i) => line.map((c) => (totals[i] ? (100 * c) / totals[i] : null))),
    names: by === "class" ? row.classes : taskNames(row) };
}

function confusionChart(row, by, colours, width) {
  const { counts, totals, share, names } = confusionOf(row, by);
  const full = (k) => (by === "class" ? "class " + short(names[k], 80) : fullTask(row, k));
  const hover = share.map((line, i) => line.map((value, j) => `<b>${wrapped(label(row))}</b><br>shown: ${wrapped(full(i))}<br>` +
    `answered: ${wrapped(full(j))}<br>${number(value)} % (${counts[i][j]} of ${totals[i]})`));
  return heatMap(share, names, ["answered", "shown"], hover, colours, width);
}
