// What the page asks the server, and how it hears the answer.

let key = sessionStorage.getItem("key") ?? "";

export function useKey(text) {
  key = text.trim();
  sessionStorage.setItem("key", key);
}

// An error that can be shown as it is.
export class Told extends Error {}

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (key) headers.Authorization = `Bearer ${key}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Told("The server cannot be reached. Is it still running?");
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  const needsKey = "This server asks for a key. Enter yours on the first view, under More.";
  const why = response.status === 401 ? needsKey : (body?.error?.message ?? `The server answered ${response.status}.`);
  const told = new Told(sentence(why));
  told.status = response.status;
  throw told;
}

// The server's messages begin in lower case, as parts of a log line do.
function sentence(text) {
  const full = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(full) ? full : `${full}.`;
}

export const get = async (path) => (await ask(path)).json();
export const getText = async (path) => (await ask(path)).text();

// Grows a tree: calls `hear(name, data)` for every event, until the last or until `signal`.
export async function grow(body, signal, hear) {
  const headers = { "Content-Type": "application/json" };
  const response = await ask("/eager/grow", { method: "POST", headers, body: JSON.stringify(body), signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let ended = false;
  for (;;) {
    const { done, value } = await reader.read().catch((error) => {
      if (error.name === "AbortError") throw error;
      throw new Told("The connection was lost before the tree was grown.");
    });
    if (done) break;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const { name, data } = parse(block);
      if (data === "") continue;
      const told = JSON.parse(data);
      if (name === "error") throw new Told(sentence(told.error?.message ?? "the server gave up"));
      ended ||= name === "end";
      hear(name, told);
    }
  }
  if (!ended) throw new Told("The connection was lost before the tree was grown.");
}

function parse(block) {
  let [name, data] = ["", ""];
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  return { name, data };
}
