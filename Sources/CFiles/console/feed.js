// The feed of changes. One tab waits for changes and passes them to the other tabs, because a browser has few
// connections to one server. A hidden tab asks nothing.

import { get, session } from "./api.js";

const waitSeconds = 25;
const pageSize = 200;
const receivers = new Set();
const watchers = new Set();
let after = null;
let stop = null;
let catching = null;

const channel = new BroadcastChannel("onym.feed");
channel.onmessage = ({ data }) => {
  if (after === null || document.hidden || data.session !== session.current?.id) return;
  if (data.after > after) catchUp(); else take(data);
};

function take({ changes, next_after }) {
  if (after === null || next_after <= after) return;
  const fresh = changes.filter((change) => change.seq > after);
  after = next_after;
  if (fresh.length) for (const receive of receivers) receive(fresh);
}

// A tab that was asleep reads from its own place.
function catchUp() {
  catching ??= (async () => {
    try {
      let page;
      do {
        page = await get("/changes", { after, limit: pageSize });
        take(page);
      } while (page.changes.length);
    } catch { say(false); } finally { catching = null; }
  })();
}

function say(isLive) { for (const watch of watchers) watch(isLive); }

async function lead(signal) {
  let pause = 1;
  while (!signal.aborted) {
    const from = after;
    try {
      const page = await get("/changes", { after: from, limit: pageSize, wait: waitSeconds }, { signal });
      pause = 1;
      say(true);
      take(page);
      channel.postMessage({ session: session.current?.id, after: from, changes: page.changes, next_after: page.next_after });
    } catch (failure) {
      if (signal.aborted) return;
      say(false);
      if (failure.status === 401 || failure.status === 403 || failure.code === "other_session") return;
      await new Promise((resolve) => setTimeout(resolve, (failure.retryAfter ?? pause) * 1000));
      pause = Math.min(pause * 2, 30);
    }
  }
}

function begin() {
  if (after === null || document.hidden || stop) return;
  stop = new AbortController();
  const { signal } = stop;
  catchUp();
  say(true);
  const work = () => lead(signal);
  // Without locks, each tab waits for itself.
  (navigator.locks ? navigator.locks.request("onym.feed", { signal }, work) : work()).catch(() => {});
}

function end() {
  stop?.abort();
  stop = null;
}

document.addEventListener("visibilitychange", () => { if (document.hidden) end(); else begin(); });

/** The number of the last call of the journal. */
export async function lastCall(signal) {
  const { last_seq: last } = await get("/stats", {}, { signal });
  if (last !== undefined) return last;
  // A server of several projects does not say it. After it the feed is empty, or refuses.
  const isAfterLast = (sequence) => get("/changes", { after: sequence, limit: 1 }, { signal }).then(
    ({ changes }) => !changes.length, (failure) => failure.code === "rewound" || Promise.reject(failure));
  let low = after ?? 0;
  let high = low || 1;
  while (!await isAfterLast(high)) { low = high; high *= 2; }
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (await isAfterLast(middle)) high = middle; else low = middle + 1;
  }
  return low;
}

/** Starts to follow the feed. */
export async function follow() {
  after ??= await lastCall();
  begin();
}

/** Ends following, as after a sign-out. */
export function unfollow() {
  end();
  after = null;
}

/** Gives changes to a function, until the answered function runs. */
export function receive(take) {
  receivers.add(take);
  return () => receivers.delete(take);
}

/** Gives the state of the feed to a function: live or not. */
export const watch = (tell) => watchers.add(tell);
