// Health: is the server well, and what to do if not.

import { get, may, readiness } from "../api.js";
import { counted, h, moment, show, shown } from "../h.js";
import { empty, facts, fill, filled, table, twin } from "../list.js";
import { bars, sum } from "../plot.js";
import { personLink } from "./changes.js";

const spans = [7, 30, 90];
// The member of a day, its name, and the kind of change in the feed, if the feed has it.
const counters = [["people_made", "People made", "person.created"], ["merged", "Merges", "person.merged"], ["undone", "Merges undone", "merge.undone"], ["refused", "Calls refused", "refused"], ["set_aside", "Values set aside", null],
  ["split", "Splits", "person.split"], ["erased", "People erased", "person.erased"], ["unproven", "Calls without proof", "identity.unproven"]];

// What the parts of a day's number are.
const sorts = { merged: "By rule", refused: "By reason", set_aside: "By rule" };

// More waiting calls than this are worth a look: the writer takes far more in one batch.
const manyCalls = 1000;
const gib = 2 ** 30;
const size = (bytes) => bytes >= gib ? `${(bytes / gib).toFixed(1)} GiB` : `${(bytes / 2 ** 20).toFixed(1)} MiB`;

function disk({ bytes, free_bytes: free }, tile) {
  if (bytes === undefined || bytes === null || free === null) return null;
  // A compaction may need as much room again.
  const isShort = free < Math.max(bytes, gib);
  return tile("Disk", isShort ? "look" : "good", isShort ? "look" : "ok", `The store has ${size(bytes)}, and ${size(free)} are free.`,
    isShort ? h("p", {}, "Make room on the disk, or set retention of rows.") : null);
}

const againMilliseconds = 1500;
const listed = 10;

/** A list that the server reads in parts: the page asks again until all is read. Only the first call is a person's. */
function reading(address, query, leave, draw, unit = ["identity", "identities"]) {
  const place = h("div");
  let timer;
  leave(() => clearTimeout(timer));
  const look = (isUse) => fill(place, 3, async (signal) => {
    const answer = await get(address, query, { signal, isUse });
    // Another choice may have taken the place.
    if (!answer.complete) timer = setTimeout(() => { if (place.isConnected) look(false); }, againMilliseconds);
    return [draw(answer), answer.complete ? null : h("p", { class: "soft", role: "status" }, `${counted(answer.read, ...unit)} read so far.`)];
  });
  look(true);
  return place;
}

const shares = (leave) => reading("/identities/shared", { limit: listed }, leave, ({ identities }) => !identities.length ? empty("No identity belongs to more than one person.") : table("Identities that the most people hold", [
  ["Identity", (one) => shown(one.value)], ["Type", (one) => shown(one.type)], ["People", (one) => one.people.toLocaleString("en")],
  ["State", (one) => one.set_aside ? "set aside: it finds nobody" : "it finds people"],
  ["Look", (one) => h("a", { href: `#/find/${encodeURIComponent(`${one.type}:${one.value}`.toWellFormed())}`, "aria-label": `The people with this ${one.type}` }, "who")],
], identities));

const measures = ["identities", "members", "rows"];

function largest(leave) {
  const place = h("div");
  const draw = (by) => show(place, reading("/people/largest", { limit: listed, by }, leave, ({ people }) => people.length ? table(`People with the most ${by}`, [
    ["Person", (one) => personLink(one.root, one.label ?? one.root)], ...measures.map((name) => [name[0].toUpperCase() + name.slice(1), (one) => one[name].toLocaleString("en")]),
    ["Last seen", (one) => moment(one.last_seen)],
  ], people) : empty("There are no people yet. The first call of an app makes one.")));
  draw(measures[0]);
  return [h("label", { class: "inline", for: "largest-by" }, "By ", h("select", { id: "largest-by", onchange: (event) => draw(event.target.value) }, measures.map((name) => h("option", { value: name }, name)))), place];
}

const limits = () => filled(2, async (signal) => {
  const { keys, since } = await get("/stats/limits", {}, { signal });
  return keys.length ? table("Keys whose calls were refused because of a limit", [
    ["Key", (one) => shown(one.name)], ["Id", (one) => shown(one.key, "id")], ["Refused in an hour", (one) => one.limited_last_hour.toLocaleString("en")],
    ["In a day", (one) => one.limited_last_day.toLocaleString("en")], ["Last", (one) => moment(one.last_at)], ["Limit used now", (one) => `${Math.round(one.share_used * 100)} %`],
  ], keys) : empty("No key has met its limit in the last day. This server has counted since ", moment(since), ".");
});

const behind = () => filled(2, async (signal) => {
  const late = (await get("/webhooks", {}, { signal })).webhooks.filter((hook) => hook.paused || hook.parked > 0 || hook.waiting > 0);
  return late.length ? table("Webhooks that are behind", [
    ["Webhook", (one) => h("a", { href: "#/webhooks" }, shown(one.url))], ["Waiting", (one) => one.waiting.toLocaleString("en")], ["Parked", (one) => one.parked.toLocaleString("en")], ["State", (one) => one.paused ? "paused" : "running"],
  ], late) : empty("All webhooks have all changes.");
});

export default async function health(place, { heading, query, leave }) {
  heading("Health");
  const tile = (name, state, word, ...more) => h("section", { class: "box tile" }, h("h2", {}, name), h("strong", { class: state }, word), more);
  const tiles = filled(4, async (signal) => {
    const [ready, server, compaction, webhooks, parked] = await Promise.all([readiness(), get("/server", {}, { signal }), get("/compact", {}, { signal }),
      may.administer && get("/webhooks", {}, { signal }), may.administer && get("/deliveries", { state: "parked", limit: 1 }, { signal })]);
    const isReady = ready.status === "ready";
    const isBehind = may.administer && (webhooks.webhooks.some((hook) => hook.paused || hook.parked > 0) || parked.deliveries.length > 0);
    return h("div", { class: "boxes" },
      tile("Store", isReady ? "good" : "bad", isReady ? "ok" : "bad", isReady ? `${server.store.kind}: it can be written.` : shown(ready.reason),
        server.store.last_fault && h("p", {}, "Last fault ", moment(server.store.last_fault.at), ": ", shown(server.store.last_fault.fault)),
        isReady ? null : h("p", {}, "Look at the server's log and at the free space of its disk.")),
      disk(server.store, tile),
      server.queue && tile("Queue", server.queue.calls < manyCalls ? "good" : "look", server.queue.calls < manyCalls ? "ok" : "look",
        [`${counted(server.queue.calls, "call")} waiting${server.queue.calls ? `, the oldest for ${server.queue.oldest_ms} ms` : ""}. `, "Running since ", moment(server.started_at), ", version ", shown(server.version), "."]),
      tile("Clock", isReady && ready.detail ? "look" : "good", isReady && ready.detail ? "look" : "ok", ready.detail ? [shown(ready.detail), h("p", {}, "Look whether the clock of this machine is synchronized.")] : "It agrees with the journal.",
        server.clock.steps.length ? h("p", {}, `It was set ${counted(server.clock.steps.length, "time")}, last `, moment(server.clock.steps.at(-1).at), ` by ${Math.round(server.clock.steps.at(-1).ms / 1000)} s.`) : null),
      tile("Compaction", compaction.waits_for_readers ? "look" : "good", compaction.running ? "running" : compaction.waits_for_readers ? "look" : "ok",
        compaction.waits_for_readers ? "It waits for a read that still runs, such as a backup." : ["Last done ", moment(compaction.done_at)]),
      may.administer && tile("Webhooks", isBehind ? "look" : "good", isBehind ? "look" : "ok",
        isBehind ? [h("a", { href: "#/webhooks" }, "Some deliveries are parked"), ". Look whether the receiver answers."] : counted(webhooks.webhooks.length, "webhook")));
  });
  const numbers = filled(4, async (signal) => {
    const stats = await get("/stats", {}, { signal });
    return facts([["people", "People"], ["identities", "Identities"], ["links", "Links"], ["rows", "Rows"], ["merges", "Merges"], ["apps", "Apps"], ["keys", "Keys"], ["last_seq", "Calls in the journal"]]
      .map(([name, text]) => stats[name] === undefined ? null : [text, stats[name].toLocaleString("en")]));
  });
  const chart = h("div");
  const span = () => spans.includes(Number(query.get("days"))) ? Number(query.get("days")) : spans[0];
  const draw = () => reading("/stats/days", { days: span() }, leave, ({ days, complete, since }) => [h("p", { class: "soft" }, "Days in UTC.", complete ? null : [" The numbers begin at ", moment(since), ". Earlier calls are being read."]), h("div", { class: "boxes" }, counters.map(([member, text, kind]) => {
      const counts = days.map((day) => [day.day, sum(day[member])]);
      const starts = new Map(days.map((day) => [day.day, day.after]));
      const ofDay = (day) => `#/changes?kinds=${encodeURIComponent(kind)}&day=${day}&after=${starts.get(day)}`;
      const parts = new Map(days.map((day) => [day.day, typeof day[member] === "object" ? Object.entries(day[member]) : []]));
      const total = counts.reduce((sum, [, number]) => sum + number, 0);
      const picture = h("svg", { viewBox: "0 0 240 70", role: kind && total ? "group" : "img", "aria-label": `${text}: ${total} in ${span()} days` },
        h("line", { class: "axis", x1: 0, x2: 240, y1: 60.5, y2: 60.5 }),
        bars(counts, 240, 56).map((bar) => {
          const column = h("rect", { class: "column", x: bar.x, y: bar.y + 4, width: bar.width, height: bar.height }, h("title", {}, `${bar.day}: ${bar.number}`));
          return kind && bar.number ? h("svg:a", { href: ofDay(bar.day), "aria-label": `${text} of ${bar.day}` }, column) : column;
        }));
      const columns = [["Day", ([day, number]) => kind && number ? h("a", { href: ofDay(day) }, day) : day], ["Number", ([, number]) => number.toLocaleString("en")]];
      if (sorts[member]) columns.push([sorts[member], ([day]) => parts.get(day).map(([name, number]) => h("div", {}, h("code", {}, shown(name)), ` ${number.toLocaleString("en")}`))]);
      return h("section", { class: "box" }, h("h3", {}, kind ? h("a", { href: `#/changes?kinds=${encodeURIComponent(kind)}` }, text) : text, ` ${total.toLocaleString("en")}`),
        twin(member, picture, () => table(`${text} per day`, columns, counts.filter(([, number]) => number))));
    }))], ["call", "calls"]);
  show(place, tiles, h("h2", {}, "Numbers"), numbers, h("h2", {}, "Days"),
    h("label", { class: "inline", for: "days" }, "Days ", h("select", { id: "days", onchange: (event) => { query.set("days", event.target.value); show(chart, draw()); } },
      spans.map((one) => h("option", { value: one, selected: one === span() }, String(one))))), chart,
    h("h2", {}, "Shared identities"), shares(leave), h("h2", {}, "Largest people"), largest(leave), h("h2", {}, "Keys at their limits"), limits(),
    may.administer ? [h("h2", {}, "Webhooks behind"), behind()] : null);
  show(chart, draw());
}
