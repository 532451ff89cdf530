// Webhooks: their progress, and deliveries that wait or are parked.

import { get, may, newKey, path, post, remove } from "../api.js";
import { counted, h, id, moment, show, shown, tell } from "../h.js";
import { change, open, secret } from "../dialog.js";
import { empty, facts, failure, fill, paged, table } from "../list.js";

export default async function webhooks(place, { heading, again }) {
  heading("Webhooks");
  const { webhooks: hooks } = await get("/webhooks");
  show(place, may.administer ? h("div", { class: "row actions" }, h("button", { type: "button", onclick: () => make(again) }, "Make a webhook…")) : null,
    hooks.length ? table("Webhooks", [
      ["Address", (hook) => shown(hook.url)], ["Id", (hook) => id(hook.id)], ["Kinds", (hook) => hook.kinds.length ? shown(hook.kinds.join(", ")) : "all"],
      ["State", (hook) => hook.paused ? h("span", { class: "bad" }, "paused: too many deliveries wait") : hook.parked ? h("span", { class: "look" }, "deliveries are parked") : hook.waiting ? h("span", { class: "look" }, "deliveries wait") : h("span", { class: "good" }, "ok")],
      ["Delivered", (hook) => String(hook.delivered ?? 0)], ["Read to call", (hook) => String(hook.read_to ?? 0)], ["Waiting", (hook) => String(hook.waiting ?? 0)], ["Parked", (hook) => String(hook.parked ?? 0)],
      ["Do", (hook) => may.administer ? [h("button", { class: "plain", type: "button", "aria-label": `Test the webhook ${hook.id}`, onclick: () => test(hook) }, "test"), " ",
        hook.parked ? [h("button", { class: "plain", type: "button", "aria-label": `Replay all of the webhook ${hook.id}`, onclick: () => replayAll(hook, again) }, "replay all…"), " "] : null,
        h("button", { class: "plain", type: "button", "aria-label": `Remove the webhook ${hook.id}`, onclick: () => change({
        title: "Remove a webhook", verb: "Remove", takesReason: false, note: "Its waiting and parked deliveries are removed too.",
        dry: async () => (await get("/webhooks")).webhooks.find((one) => one.id === hook.id) ?? null,
        columns: (one) => ({ now: one ? [shown(one.url), h("p", {}, `${one.waiting ?? 0} deliveries wait, ${one.parked ?? 0} are parked.`)] : "The webhook is gone already.", then: "No webhook." }),
        run: (_, _reason, options) => remove(path`/webhooks/${hook.id}`, options), done: () => { tell("The webhook is removed."); again(); },
      }) }, "remove…")] : null],
    ], hooks) : empty("There is no webhook. A webhook sends changes to an address of yours."),
    h("h2", {}, "Deliveries"), paged("Deliveries that wait or are parked", [
      ["Delivery", (one) => shown(one.id, "id")], ["Webhook", (one) => shown(one.webhook, "id")], ["Call", (one) => String(one.seq)],
      ["State", (one) => h("span", { class: one.state === "parked" ? "look" : null }, shown(one.state))], ["Tries", (one) => String(one.attempts)],
      ["First try", (one) => moment(one.first_tried_at)], ["Next try", (one) => moment(one.next_try_at)], ["Last answer", (one) => shown(one.fault)],
      ["Do", (one) => may.act && one.state === "parked" ? replay(one) : null],
    ], async (cursor, signal) => {
      const page = await get("/deliveries", { limit: 100, cursor }, { signal });
      return { rows: page.deliveries, next: page.next_cursor };
    }, empty("No delivery waits.")));
}

/** Sends a test message, and shows the receiver's answer beside how far the webhook is. */
function test(hook) {
  const place = h("div", { "aria-live": "polite" });
  open("Test of a webhook", [h("p", {}, "The server sends a signed message of the type ", h("code", {}, "test"), " to ", shown(hook.url), "."), place]);
  fill(place, 3, async (signal) => {
    const result = await post(path`/webhooks/${hook.id}/test`, {}, { signal });
    const now = await get(path`/webhooks/${hook.id}`, {}, { signal });
    const isGood = result.status !== null && result.status >= 200 && result.status < 300;
    return facts([
      ["Answer", h("span", { class: isGood ? "good" : "bad" }, result.status === null ? shown(result.fault) : isGood ? `${result.status}, taken` : `${result.status}, not taken`)],
      ["Time", `${result.ms.toLocaleString("en")} ms`], ["Behind the feed", counted(now.behind_calls, "call")],
      ["Waits since", moment(now.waiting_since)], ["Last failure", now.last_fault === null ? "none" : [shown(now.last_fault), ` after ${counted(now.last_fault_attempts, "try", "tries")}`]],
    ]);
  });
}

function replayAll(hook, again) {
  change({
    title: "Replay all parked deliveries", verb: "Replay", takesReason: false,
    dry: async (_, signal) => ({ parked: (await get(path`/webhooks/${hook.id}`, {}, { signal })).parked }),
    columns: ({ parked }) => ({ now: `${counted(parked, "delivery is", "deliveries are")} parked, and nobody tries again.`, then: "The server tries them again, for another 24 hours, in the order of the feed." }),
    run: (_, _reason, options) => post(path`/webhooks/${hook.id}/replay`, {}, options),
    done: (result) => { tell(`${counted(result.replayed, "delivery waits", "deliveries wait")} again.`); again(); },
  });
}

/** A button that tries a parked delivery again. */
export function replay(one) {
  const place = h("span");
  const key = newKey();
  const button = h("button", { class: "plain", type: "button", "aria-label": `Replay ${one.id}`, onclick: async () => {
    button.disabled = true;
    try { await post(path`/deliveries/${one.id}/replay`, {}, { idempotencyKey: key }); show(place, "tried again"); } catch (fault) { show(place, failure(fault)); }
  } }, "replay");
  return show(place, button);
}

function make(again) {
  const url = h("input", { id: "hook-url", type: "url", required: true, placeholder: "https://hooks.example.com/onym", spellcheck: "false" });
  const kinds = h("input", { id: "hook-kinds", spellcheck: "false", placeholder: "person.merged, merge.undone" });
  const trouble = h("div");
  const key = newKey();
  const close = open("Make a webhook", h("form", { onsubmit: async (event) => {
    event.preventDefault();
    const wanted = kinds.value.split(",").map((kind) => kind.trim()).filter(Boolean);
    try {
      const made = await post("/webhooks", wanted.length ? { url: url.value, kinds: wanted } : { url: url.value }, { idempotencyKey: key });
      close();
      again();
      secret("Secret of the webhook", made.secret, "The secret is shown now and never again. The receiver checks signatures with it.");
    } catch (fault) { show(trouble, failure(fault)); }
  } }, h("div", { class: "field" }, h("label", { for: "hook-url" }, "Address"), url),
  h("div", { class: "field" }, h("label", { for: "hook-kinds" }, "Kinds of changes; all if empty"), kinds), trouble,
  h("div", { class: "row end" }, h("button", { class: "act", type: "submit" }, "Make"))));
}

