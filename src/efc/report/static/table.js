"use strict";
// The summary table: sorted by its headings, filtered by the chips above it.
const text = (key) => ({ key, value: (row) => row[key], sort: (row) => row[key], kind: "name" });
// Where all runs of a row diverged their answers are no measure.
const measured = (row, key) => row[key] && row.diverged.length < row.seeds.length;
const measure = (key, digits = 1) => ({
  key, value: (row) => (measured(row, key) ? spread(row[key], digits) : ""), sort: (row) => (measured(row, key) ? row[key].mean : null),
});
const COLUMNS = [
  { ...text("dataset"), title: "data set", meaning: "The data, with the frozen encoder where there is one." },
  { ...text("scenario"), title: "scenario", meaning: "class: all classes seen so far compete; task: the task is told; domain: all tasks share their outputs." },
  { ...text("method"), value: methodName, sort: methodName, title: "method",
    meaning: "The method, its variant behind an @, and in brackets the options in which it is unlike its other rows." },
  { ...text("head"), title: "head", meaning: "How the output weights of new classes begin." },
  { ...measure("accuracy"), title: "accuracy %", meaning: "Mean over all tasks after the last one; bold: the highest mean of its data set and scenario." },
  { key: "paper", title: "paper %", value: (row) => (row.paper ? number(row.paper[0]) + " ± " + number(row.paper[1]) : ""),
    sort: (row) => (row.paper ? row.paper[0] : null), meaning: "What the paper reports for this method (arXiv 2602.04542)." },
  { ...measure("average_incremental"), title: "over time %", meaning: "Average incremental accuracy: the mean over tasks seen so far, averaged over all moments." },
  { ...measure("forgetting"), title: "forgetting", tasks: true, meaning: "How far tasks fell below their best, in points; lower is better." },
  { ...measure("bwt"), title: "backward", tasks: true, meaning: "Backward transfer: accuracy at the end less that just after learning, in points." },
  { ...measure("fwt"), title: "forward", tasks: true, meaning: "Forward transfer: accuracy on a task not learned yet, less that of the untrained network, in points." },
  { ...measure("unsettled", 2), title: "unsettled %", meaning: "EFC: share of samples that found no equilibrium in training." },
  { key: "seeds", title: "seeds", value: (row) => String(row.seeds.length),
    sort: (row) => row.seeds.length, meaning: "Independent runs; ± is the standard deviation over them." },
  { key: "status", title: "status", value: (row) => row.status, sort: (row) => row.status,
    meaning: "Runs that diverged, whose answers all count as wrong, and runs that failed and are missing." },
  { key: "seconds", title: "seconds", value: (row) => number(row.seconds), sort: (row) => row.seconds, meaning: "Computing time of all seeds together." },
].filter((column) => column.kind || DATA.rows.some((row) => column.value(row) !== ""));

// On a narrow screen a column of names that are all the same gives way; the head of the page says which.
const same = (key) => ["dataset", "scenario"].includes(key) && unique(DATA.rows.map((row) => row[key])).length === 1;
const KINDS = new Map(COLUMNS.map((column) => [column.key, (column.kind || "num") + (same(column.key) ? " same" : "")]));
const kindOf = (column) => KINDS.get(column.key);

function sorted(rows) {
  if (!state.sort) return rows;
  const column = COLUMNS.find((each) => each.key === state.sort.key);
  const sign = state.sort.down ? -1 : 1;
  return rows.slice().sort((a, b) => {
    const x = column.sort(a), y = column.sort(b);
    if (x === null || y === null) return (x === null) - (y === null) || a.index - b.index;  // what is missing comes last
    const order = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
    return sign * order || a.index - b.index;
  });
}

function buildHead() {
  const line = el("tr");
  for (const column of COLUMNS) {
    const press = el("button", { type: "button", text: column.title, onclick: () => {
      const again = state.sort && state.sort.key === column.key;
      state.sort = { key: column.key, down: again ? !state.sort.down : !column.kind };
      for (const th of line.children) th.removeAttribute("aria-sort");
      press.parentNode.setAttribute("aria-sort", state.sort.down ? "descending" : "ascending");
      refresh();
    } });
    line.append(el("th", { scope: "col", class: kindOf(column) }, press));
  }
  // A long table scrolls in a frame of its own: the figures stay within reach.
  if (DATA.rows.length > 30) $("table").parentNode.classList.add("tall");
  $("table").append(el("thead", {}, line), el("tbody"));
  for (const column of COLUMNS) $("meanings").append(el("dt", { text: column.title }), el("dd", { text: column.meaning }));
}

function fillTable(rows) {
  const best = new Map();
  for (const row of DATA.rows) best.set(group(row), Math.max(best.get(group(row)) ?? -1, row.accuracy.mean));
  const several = new Map();
  for (const row of DATA.rows) several.set(group(row), (several.get(group(row)) ?? 0) + 1);
  const body = document.createDocumentFragment();
  for (const row of rows) {
    const line = el("tr");
    for (const column of COLUMNS) {
      const cell = el("td", { class: kindOf(column) });
      const [mean, std] = column.tasks && row.tasks.length < 2 ? [""] : column.value(row).split(" ± ");
      if (column.kind) cell.append(el("span", { text: column.value(row) }));
      else cell.textContent = mean;
      if (!column.kind && std !== undefined) cell.append(el("span", { class: "pm", text: " ± " + std }));
      if (column.key === "accuracy" && several.get(group(row)) > 1 && row.accuracy.mean === best.get(group(row))) cell.classList.add("best");
      if (column.key === "accuracy" && row.seeds.length > 1)
        cell.title = row.seeds.map((seed, k) => `seed ${seed}: ${number(row.accuracy.per_seed[k])}`).join("\n");
      line.append(cell);
    }
    body.append(line);
  }
  $("table").tBodies[0].replaceChildren(body);
  const order = state.sort ? `, sorted by ${COLUMNS.find((c) => c.key === state.sort.key).title}, ${state.sort.down ? "highest" : "lowest"} first` : "";
  const on = DIMENSIONS.filter(([key]) => state.chosen[key] && state.chosen[key].size).map(([key, title]) => `${title.toLowerCase()} ${[...state.chosen[key]].join(" or ")}`);
  $("status").textContent = `${rows.length} of ${count(DATA.rows.length, "row")}${on.length ? ": " + on.join(", ") : ""}${order || ", the best of each data set and scenario first"}`;
  const reset = document.querySelector("#filters button[type=reset]");
  if (reset) reset.disabled = !on.length;
}

function buildFilters() {
  const form = $("filters");
  for (const [key, title] of DIMENSIONS) {
    const values = unique(DATA.rows.map((row) => row[key]));
    if (values.length < 2) continue;
    state.chosen[key] = new Set();
    const chips = el("div", { class: "chips" });
    for (const value of values) {
      const box = el("input", { type: "checkbox", onchange: () => {
        if (box.checked) state.chosen[key].add(value); else state.chosen[key].delete(value);
        refresh();
      } });
      chips.append(el("label", {}, box, el("span", { text: value })));
    }
    form.append(el("fieldset", {}, el("legend", { text: title }), chips));
  }
  if (!Object.keys(state.chosen).length) return;
  form.append(el("button", { type: "reset", text: "Show all", title: "None chosen means all" }));
  form.addEventListener("reset", () => {
    for (const chosen of Object.values(state.chosen)) chosen.clear();
    refresh();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  // Few filters stay in sight while one scrolls; many would cover what they filter.
  form.classList.toggle("slim", form.querySelectorAll("input").length <= 16 && form.textContent.length < 250);
  form.hidden = false;
}
