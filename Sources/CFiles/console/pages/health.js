// Health: is the server well, and what to do if not.

import { get, may, readiness } from "../api.js";
import { counted, h, moment, show, shown } from "../h.js";
import { facts, filled, table, twin } from "../list.js";
import { bars, sum } from "../plot.js";

const spans = [7, 30, 90];
// The member of a day, its name, and the kind of change in the feed.
const counters = [["people_made", "People made", "person.created"], ["merged", "Merges", "person.merged"], ["undone", "Merges undone", "merge.undone"], ["refused", "Calls refused", "refused"],
  ["split", "Splits", "person.split"], ["erased", "People erased", "person.erased"], ["unproven", "Calls without proof", "identity.unproven"]];

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

export default async function health(place, { heading, query }) {
  heading("Health");
  const tile = (name, state, word, ...more) => h("section", { class: "box tile" }, h("h2", {}, name), h("strong", { class: state }, word), more);
  const tiles = filled(4, async (signal) => {
    const [ready, server, compaction, webhooks, parked] = await Promise.all([readiness(), get("/server", {}, { signal }), get("/compact", {}, { signal }),
      may.administer && get("/webhooks", {}, { signal }), may.administer && get("/deliveries", { state: "parked", limit: 1 }, { signal })]);
    const isReady = ready.status === "ready";
    const isBehind = may.administer && (webhooks.webhooks.some((hook) => hook.paused || hook.parked > 0) || parked.deliveries.length > 0);
    return h("div", { class: "boxes" },
      tile("Store", isReady ? "good" : "bad", isReady ? "ok" : "bad", isReady ? `${server.store.kind}: it can be written.` : shown(ready.reason),
        isReady ? null : h("p", {}, "Look at the server's log and at the free space of its disk.")),
      disk(server.store, tile),
      server.queue && tile("Queue", server.queue.calls < manyCalls ? "good" : "look", server.queue.calls < manyCalls ? "ok" : "look",
        [`${counted(server.queue.calls, "call")} waiting. `, "Running since ", moment(server.started_at), ", version ", shown(server.version), "."]),
      tile("Clock", isReady && ready.detail ? "look" : "good", isReady && ready.detail ? "look" : "ok", ready.detail ? [shown(ready.detail), h("p", {}, "Look whether the clock of this machine is synchronized.")] : "It agrees with the journal."),
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
  const draw = () => filled(6, async (signal) => {
    const { days, complete, since } = await get("/stats/days", { days: span() }, { signal });
    return [h("p", { class: "soft" }, "Days in UTC.", complete ? null : [" The journal has many calls: the numbers begin at ", moment(since), "."]), h("div", { class: "boxes" }, counters.map(([member, text, kind]) => {
      const counts = days.map((day) => [day.day, sum(day[member])]);
      const parts = new Map(days.map((day) => [day.day, typeof day[member] === "object" ? Object.entries(day[member]) : []]));
      const total = counts.reduce((sum, [, number]) => sum + number, 0);
      const picture = h("svg", { viewBox: "0 0 240 70", role: "img", "aria-label": `${text}: ${total} in ${span()} days` },
        h("line", { class: "axis", x1: 0, x2: 240, y1: 60.5, y2: 60.5 }),
        bars(counts, 240, 56).map((bar) => h("rect", { class: "column", x: bar.x, y: bar.y + 4, width: bar.width, height: bar.height }, h("title", {}, `${bar.day}: ${bar.number}`))));
      const columns = [["Day", ([day]) => day], ["Number", ([, number]) => number.toLocaleString("en")]];
      if (member === "merged" || member === "refused") columns.push([member === "merged" ? "By rule" : "By reason", ([day]) => parts.get(day).map(([name, number]) => h("div", {}, h("code", {}, shown(name)), ` ${number.toLocaleString("en")}`))]);
      return h("section", { class: "box" }, h("h3", {}, h("a", { href: `#/changes?kinds=${encodeURIComponent(kind)}` }, text), ` ${total.toLocaleString("en")}`),
        twin(member, picture, () => table(`${text} per day`, columns, counts.filter(([, number]) => number))));
    }))];
  });
  show(place, tiles, h("h2", {}, "Numbers"), numbers, h("h2", {}, "Days"),
    h("label", { class: "inline", for: "days" }, "Days ", h("select", { id: "days", onchange: (event) => { query.set("days", event.target.value); show(chart, draw()); } },
      spans.map((one) => h("option", { value: one, selected: one === span() }, String(one))))), chart);
  show(chart, draw());
}
