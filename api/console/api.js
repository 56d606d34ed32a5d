// The server's routes, its refusals in words, and the key that goes with every request.

const BASE = new URL("../", import.meta.url);
const KEY = "voicekin-key";
// Another key may do what this one may not; any other 403 is about a voice.
const KEY_REFUSALS = new Set(["scope_missing", "admin_disabled"]);
const UNREACHABLE = "The server cannot be reached. See whether it runs and whether you are online, then try again.";

export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

/** What the server refused: `code` for the page, the message for people, `details` with limits and figures. */
export class Refusal extends Error {
  constructor(status, details) {
    super(details.detail ?? `the server answered ${status}`);
    this.status = status;
    this.code = details.code ?? `http_${status}`;
    this.details = details;
  }
}

/** An error's words, whoever made it. */
export function wordsOf(error) {
  if (!(error instanceof Refusal))
    return error.name === "AbortError" ? "" : `Something went wrong here: ${error.message}`;
  if (error.code === "key_missing") return "This server asks for a key. Press Key above and enter yours.";
  if (error.code === "key_wrong") return "The server does not know this key. Press Key above to enter another.";
  if (error.status === 401) return `${sentence(error.message)} Press Key above to enter another.`;
  if (error.code === "admin_disabled")
    return "No admin key is configured on this server, so nobody can use this section.";
  if (KEY_REFUSALS.has(error.code)) return `This key may not do that: ${error.message}`;
  return sentence(error.message);
}

/** The words with a capital and a full stop. */
export function sentence(words) {
  const whole = words.charAt(0).toUpperCase() + words.slice(1);
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}

/** A reply, or a Refusal. `query` values that are null or empty are left out. */
export async function ask(method, path, { query = {}, json, headers = {}, signal } = {}) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(query))
    if (value !== null && value !== "") url.searchParams.set(name, value);
  const sent = { ...headers, ...authorization() };
  if (json !== undefined) sent["Content-Type"] = "application/json";
  const options = { method, headers: sent, body: json === undefined ? undefined : JSON.stringify(json), signal };
  let response;
  try {
    response = await fetch(url, { ...options, credentials: "omit" });
  } catch (error) {
    throw error.name === "AbortError" ? error : new Refusal(0, { code: "unreachable", detail: UNREACHABLE });
  }
  if (!response.ok) throw new Refusal(response.status, await response.json().catch(() => ({})));
  return response;
}

/** The JSON of a reply; null where there is none. */
export async function askJson(method, path, options) {
  const response = await ask(method, path, options);
  return response.status === 204 ? null : response.json();
}

/** Sends a form and tells how much of it has gone; fetch cannot say that, so this is an XMLHttpRequest. */
export function upload(path, form, { onprogress, headers = {}, signal } = {}) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", new URL(path, BASE));
    for (const [name, value] of Object.entries({ ...headers, ...authorization() }))
      request.setRequestHeader(name, value);
    request.responseType = "json";
    request.upload.onprogress = (event) => onprogress(event.total ? event.loaded / event.total : 0);
    request.onload = () => {
      if (request.status < 300) resolve(request.response);
      else reject(new Refusal(request.status, request.response ?? {}));
    };
    request.onerror = () => reject(new Refusal(0, { code: "unreachable", detail: UNREACHABLE }));
    request.onabort = () => reject(new DOMException("stopped", "AbortError"));
    signal?.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}

/** The documents of a reply in lines of JSON, as they come. */
export async function* lines(response) {
  for await (const line of rows(response)) if (line) yield JSON.parse(line);
}

/** The documents of a reply in server-sent events, one line of data each, as they come; comments are passed over. */
export async function* events(response) {
  for await (const line of rows(response)) if (line.startsWith("data: ")) yield JSON.parse(line.slice(6));
}

async function* rows(response) {
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
    const whole = rest.split("\n");
    rest = whole.pop();
    yield* whole;
    if (done) return;
  }
}

let limits;

/** What this server allows; asked once. */
export const serverLimits = () =>
  (limits ??= askJson("GET", "console/limits.json").catch((error) => ((limits = undefined), Promise.reject(error))));

/** One page of speakers. */
export const speakerPage = (name, cursor, limit = 30) =>
  askJson("GET", "v1/speakers", { query: { name_contains: name, cursor, limit } });

const authorization = () => (key.get() ? { Authorization: `Bearer ${key.get()}` } : {});
