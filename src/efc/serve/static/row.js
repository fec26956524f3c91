// Where the model is no demonstration: a row of numbers instead of a drawing.
import { $ } from "./dom.js";

// The row's numbers, or a sentence that says what is wrong with it.
export function numbers(text, features) {
  const parts = text.trim().replace(/^\[|\]$/g, "").split(/[\s,;]+/).filter(Boolean);
  if (!parts.length) return { fault: "There is no number in the row yet." };
  const odd = parts.findIndex((part) => !Number.isFinite(Number(part)));
  if (odd >= 0) return { fault: `Value ${odd + 1} is no number: “${parts[odd].slice(0, 20)}”.` };
  if (parts.length !== features) return { fault: `The row has ${parts.length} of ${features} numbers.` };
  return { input: parts.map(Number) };
}

export class Row {
  constructor({ changed, asked }) {
    this.features = 0;
    $("row-text").addEventListener("input", () => { $("row-fault").textContent = ""; changed(); });
    $("predict").addEventListener("click", () => { if (this.checked()) asked(); });
  }

  show(features) {
    this.features = features;
    $("row-label").textContent = `One row of ${features} numbers, separated by commas`;
  }

  input() { return numbers($("row-text").value, this.features).input ?? null; }

  // Whether there is a row; if not, says why.
  checked() {
    const { fault } = numbers($("row-text").value, this.features);
    $("row-fault").textContent = fault ?? "";
    $("row-text").setAttribute("aria-invalid", String(Boolean(fault)));
    if (fault) $("row-text").focus();
    return !fault;
  }
}
