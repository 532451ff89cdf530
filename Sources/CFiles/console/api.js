// The calls of the console. No other file asks the server.

/** A call that has failed, with a sentence for people. */
export class Failure extends Error {
  constructor(status, code, detail, requestID = null, retryAfter = null) {
    super(detail);
    Object.assign(this, { status, code, detail, requestID, retryAfter });
  }
}

/** The session, and what runs when the server ends it. */
export const session = { current: null, onEnd: () => {} };

const base = "/onym/v1";

/** Encodes the parts of a path: path`/people/${id}`. */
export const path = (texts, ...values) =>
  texts.reduce((all, text, place) => all + encodeURIComponent(String(values[place - 1]).toWellFormed()) + text);

/** The number of seconds after which a call without an answer is given up. */
const patienceSeconds = 60;

async function send(method, address, { query, body, raw, signal, idempotencyKey, isUse = true, id = session.current?.id } = {}) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== null && value !== undefined && value !== "") parameters.set(name, String(value).toWellFormed());
  }
  // All tabs have one cookie, so each call names the session of its tab.
  const fields = { "Onym-Console": id ?? "1", Accept: "application/json" };
  if (raw) fields["Content-Type"] = "application/x-ndjson";
  else if (body !== undefined) fields["Content-Type"] = "application/json";
  if (!isUse) fields["Onym-Use"] = "none";
  if (idempotencyKey) fields["Idempotency-Key"] = idempotencyKey;
  const limit = AbortSignal.timeout(patienceSeconds * 1000);
  let answer, text;
  try {
    answer = await fetch(address + (parameters.size ? `?${parameters}` : ""), {
      method, headers: fields, body: raw ?? (body === undefined ? undefined : JSON.stringify(body)), cache: "no-store",
      credentials: "same-origin", redirect: "error", signal: signal ? AbortSignal.any([signal, limit]) : limit,
    });
    text = await answer.text();
  } catch (fault) {
    if (signal?.aborted) throw new Failure(0, "stopped", "You stopped this.");
    if (limit.aborted) throw new Failure(0, "no_answer", `The server did not answer within ${patienceSeconds} seconds.`);
    throw new Failure(0, "no_connection", "The server cannot be reached, or its answer broke off. Look whether it runs.");
  }
  const requestID = answer.headers.get("X-Request-Id");
  if (answer.ok) return { answer, text, requestID };
  let problem = {};
  try { problem = JSON.parse(text); } catch { /* The status alone tells enough. */ }
  const retryAfter = Number(answer.headers.get("Retry-After")) || null;
  throw new Failure(
    answer.status, problem?.code ?? `status_${answer.status}`,
    problem?.detail ?? problem?.reason ?? `The server answered with status ${answer.status}.`, problem?.request_id ?? requestID, retryAfter);
}

function parsed({ text, answer, requestID }) {
  try { return text === "" ? null : JSON.parse(text); } catch {
    throw new Failure(answer.status, "cut_answer", "The server's answer is incomplete.", requestID);
  }
}

async function call(method, address, options) {
  try {
    return parsed(await send(method, base + address, options));
  } catch (failure) {
    if ((failure.status === 401 || failure.code === "other_session") && session.current) session.onEnd(failure);
    throw failure;
  }
}

export const get = (address, query, options) => call("GET", address, { query, ...options });
export const post = (address, body = {}, options) => call("POST", address, { body, ...options });
export const put = (address, body, options) => call("PUT", address, { body, ...options });
export const remove = (address, options) => call("DELETE", address, options);

/** Lines of JSON, page by page; `take` gets the text of each page. Answers the number of lines. */
export async function lines(address, take, signal) {
  let cursor = null;
  let count = 0;
  do {
    const { text, answer, requestID } = await send("POST", base + address, { query: { cursor }, signal });
    const all = text.split("\n").filter((line) => line !== "");
    cursor = null;
    try {
      const last = all.length ? JSON.parse(all.at(-1)) : null;
      if (last?.kind === "next") { cursor = last.cursor; all.pop(); }
    } catch { throw new Failure(answer.status, "cut_answer", "The server's answer is incomplete.", requestID); }
    count += all.length;
    if (all.length) take(`${all.join("\n")}\n`);
  } while (cursor !== null);
  return count;
}

/** Whether the server takes calls, in its own words. */
export async function readiness() {
  try { return parsed(await send("GET", "/readyz")); } catch (failure) {
    if (failure.status === 503) return { status: "unavailable", reason: failure.detail };
    throw failure;
  }
}

/** Whether a file of the console is away because the server runs another version by now. */
export async function hasChanged(address) {
  try { await send("GET", address); return false; } catch (failure) { return failure.code === "console_changed"; }
}

export async function signIn(code) {
  session.current = parsed(await send("POST", `${base}/console/session`, { body: { code }, id: "1" }));
  return session.current;
}

/** The session of the cookie; null if nobody is signed in. */
export async function knownSession() {
  try {
    session.current = parsed(await send("GET", `${base}/console/session`, { id: "1" }));
  } catch (failure) {
    if (failure.status !== 401) throw failure;
    session.current = null;
  }
  return session.current;
}

export async function signOut() {
  await send("DELETE", `${base}/console/session`);
  session.current = null;
}

/** Whether the signed-in person may do something; the server decides, the page only hides. */
export const may = {
  get act() { return ["support", "admin"].includes(session.current?.role); },
  get administer() { return session.current?.role === "admin"; },
};

export const newKey = () => crypto.randomUUID();
