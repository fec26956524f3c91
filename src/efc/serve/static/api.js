// The server's words: a token where it wants one, its own sentence where it refuses.
import { $, el } from "./dom.js";

const KEY = "efc-token";
const PATIENCE = 20_000;

export class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}
export class Unreachable extends Error {}

let kept = "";
try { kept = sessionStorage.getItem(KEY) || ""; } catch { /* no storage: the token lives as long as the page */ }

async function asked(path, body) {
  const headers = { Accept: "application/json" };
  if (kept) headers.Authorization = `Bearer ${kept}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const options = { headers, signal: AbortSignal.timeout(PATIENCE), cache: "no-store" };
  if (body !== undefined) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  let answer;
  try { answer = await fetch(path, options); } catch { throw new Unreachable("The server does not answer."); }
  let content = null;
  try { content = await answer.json(); } catch { /* said below */ }
  if (!answer.ok) throw new Refused(answer.status, content?.error || `The server answered ${answer.status}.`);
  if (content === null) throw new Unreachable("The server's answer was cut off.");
  return content;
}

let asking = null;

// One dialogue, however many requests wait for it.
function token() {
  asking ??= new Promise((resolve) => {
    const dialog = $("token"), input = $("token-value");
    $("token-why").textContent = kept ? "The server does not know this token." : "This server wants a token.";
    input.value = "";
    dialog.addEventListener("close", () => {
      asking = null;
      const given = dialog.returnValue === "given" ? input.value.trim() : "";
      if (given) {
        kept = given;
        try { sessionStorage.setItem(KEY, given); } catch { /* as above */ }
      }
      resolve(Boolean(given));
    }, { once: true });
    dialog.returnValue = "";
    dialog.showModal();
    input.focus();
  });
  return asking;
}

// What is done by hand asks for the token; what is polled, only if it never had a chance to.
export async function call(path, body, { ask = true } = {}) {
  for (;;) {
    try { return await asked(path, body); } catch (error) {
      if (!(error instanceof Refused) || error.status !== 401 || !ask || !(await token())) throw error;
    }
  }
}

export function prepareToken() {
  const dialog = $("token");
  $("token-cancel").addEventListener("click", () => dialog.close(""));
  $("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    dialog.close("given");
  });
}

export const tokenButton = (onclick) => el("button", { type: "button", text: "Enter the token", onclick });
