"use strict";
// Streams without boundaries: how samples were answered before they were learned.
function streamChart(rows, colours, width) {
  const data = rows.map((row) => ({
    x: row.prequential.at, y: row.prequential.mean, mode: "lines", name: plain(short(label(row), width > 700 ? 40 : 26)), hoverinfo: "text",
    line: { color: methodColour(row, colours), width: 2, dash: DASHES[HEADS.indexOf(row.head) % DASHES.length] },
    hovertext: row.prequential.at.map((n, k) => `<b>${wrapped(label(row))}</b><br>${n} samples: ${number(row.prequential.mean[k])} %`),
  }));
  const lines = legendLines(rows.map((row) => short(label(row), 40).length * 5.8 + 45), width - 60), height = 300 + 19 * lines;
  return { data, height, layout: layout(colours, {
    height, showlegend: true, margin: { l: 48, r: 12, t: 10, b: 60 + 19 * lines },
    legend: { orientation: "h", x: 0, xanchor: "left", y: -46 / 230, yanchor: "top", font: { size: 11 }, tracegroupgap: 0 },
    xaxis: { title: { text: "samples" } }, yaxis: { title: { text: "right before learned, %" }, range: [0, 102] },
  }) };
}

const STREAMED = [["accuracy", "right before learned, %"], ["adaptation", "samples of a class until it is learned"],
  ["microseconds", "microseconds per sample"], ["megabytes", "MB held"]];

function drawStream(rows) {
  const have = rows.filter((row) => row.prequential);
  $("stream-section").hidden = !DATA.rows.some((row) => row.prequential);
  fill($("stream"), grouped(have, MOST.curves).map((g) => ({
    title: "Stream, " + g.name, sub: g.sub, chart: (colours, width) => streamChart(g.rows, colours, width),
    numbers: () => [["", ...STREAMED.map(([, name]) => name)],
      g.rows.map((row) => [label(row), ...STREAMED.map(([key]) => (row.prequential[key] === null ? "" : number(row.prequential[key])))])],
  })), "No rows.");
}
