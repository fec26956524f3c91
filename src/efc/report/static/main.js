"use strict";
function refresh() {
  const rows = shownRows();
  fillTable(rows);
  drawCurves(rows);
  drawStream(rows);
  drawTransfer(rows);
  drawShare(rows);
  drawEffort(rows);
  drawDiagnosis(rows);
  drawMatrices(rows);
  drawConfusion(rows);
  fillSettings(rows);
}

function pairs(title, entries) {
  const list = el("dl");
  for (const [key, value] of entries) list.append(el("dt", { text: key }), el("dd", { text: value }));
  return el("div", {}, el("h3", { text: title }), list);
}

function fillSettings(rows) {
  const place = $("reproduce");
  place.replaceChildren();
  if (DATA.command) {
    const code = el("pre", { text: DATA.command, tabindex: "0" });
    const copy = el("button", { type: "button", class: "copy", text: "Copy", onclick: async () => {
      getSelection().selectAllChildren(code);
      try { await navigator.clipboard.writeText(DATA.command); copy.textContent = "Copied"; } catch { copy.textContent = "Selected"; }
    } });
    place.append(el("h3", { text: "Command" }), code, copy);
  } else place.append(el("p", { text: "Read from the run store; several commands may have had a part in it." }));
  const both = el("div", { class: "pairs" });
  both.append(pairs("Configuration of all rows", Object.entries(DATA.common)), pairs("Environment", Object.entries(DATA.environment)));
  place.append(both);
  const named = ["method", "head", "dataset", "scenario", "encoder"];
  const own = (row) => Object.entries({ ...row.settings, ...row.environment }).filter(([key]) => !named.includes(key));
  if (!rows.some((row) => own(row).length)) return;
  const details = el("details", { class: "keep", open: rows.length <= 40 }, el("summary", { text: "Configuration, where rows differ" }));
  const add = () => {
    if (details.childElementCount > 1) return;
    const body = el("tbody");
    for (const row of rows) body.append(el("tr", {}, el("th", { scope: "row", class: "name", text: group(row) + ": " + label(row) }),
      el("td", { class: "wrap", text: own(row).map(([key, value]) => key.replace(/^options\./, "") + "\u00a0" + value).join(" · ") }),
      el("td", { class: "wrap", text: row.runs.map((id, k) => `${row.seeds[k]}:\u00a0${id.slice(0, 8)}`).join(" · ") })));
    const head = el("thead", {}, el("tr", {}, ...["row", "settings", "runs by seed (efc runs show ID)"].map((title) => el("th", { scope: "col", text: title }))));
    details.append(el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Configuration by row" }, el("table", {}, head, body)));
  };
  if (details.open) add();
  details.addEventListener("toggle", add);
  place.append(details);
}

// What happened, first of all; of many data sets the first, and the others one click away.
function tellVerdict() {
  const [first, ...others] = DATA.verdict.map((text) => el("p", { text }));
  if (!first) return;
  $("verdict").append(first, ...others.slice(0, 2));
  if (others.length > 2) $("verdict").append(el("details", {}, el("summary", { text: `${others.length - 2} more data sets and scenarios` }), ...others.slice(2)));
}

function setTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = name;
  redraw();
}

function begin() {
  const sets = unique(DATA.rows.map((row) => row.dataset)), seeds = unique(DATA.rows.map((row) => row.seeds.length));
  const tasks = unique(DATA.rows.map((row) => row.tasks.length));
  const list = (values) => values.join(", ");
  $("about").textContent = `${list(sets.slice(0, 8))}${sets.length > 8 ? ", …" : ""}: ${list(tasks)} ${tasks.length === 1 && tasks[0] === 1 ? "task" : "tasks"}, ` +
    `${count(METHODS.length, "method")}, ${list(seeds)} ${seeds.length === 1 && seeds[0] === 1 ? "seed" : "seeds"}; ` +
    `measured on ${list(unique(DATA.rows.map((row) => row.part)))} data`;
  document.title = "EFC report: " + short(list(sets), 60);
  tellVerdict();
  for (const note of DATA.notes) $("notes").append(el("p", { class: "note", text: note }));
  $("footer").textContent = `Written by efc ${DATA.version}. ± is one standard deviation over seeds.`;
  buildHead();
  buildFilters();
  let kept = "auto";
  try { kept = localStorage.getItem("efc-theme") || "auto"; } catch { /* a page opened from a file may have no storage */ }
  $("theme").value = kept;
  setTheme(kept);
  $("theme").addEventListener("change", () => {
    setTheme($("theme").value);
    try { localStorage.setItem("efc-theme", $("theme").value); } catch { /* as above */ }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  for (const input of document.querySelectorAll("input[name=by]")) input.addEventListener("change", () => { state.by = input.value; drawConfusion(shownRows()); });
  $("print").addEventListener("click", () => print());
  let timer = 0;
  addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(() => {
    for (const node of live) if (node.isConnected && node.drawnAt !== node.clientWidth) plot(node, node.spec);
  }, 150); });
  addEventListener("beforeprint", () => {
    document.body.classList.add("printing");
    document.documentElement.dataset.theme = "light";
    if (window.Plotly) drawWaiting();
    redraw();
  });
  addEventListener("afterprint", () => { document.body.classList.remove("printing"); setTheme($("theme").value); });
  refresh();
  // The library is unpacked once the table stands.
  setTimeout(() => loadLibrary().then(drawInPeace).catch(() => {}), 50);
}
begin();
