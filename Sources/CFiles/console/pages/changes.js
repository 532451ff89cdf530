// Changes: the feed, live, the newest first.

import { get } from "../api.js";
import { lastCall, receive } from "../feed.js";
import { h, json, moment, shown, show, tell } from "../h.js";
import { open } from "../dialog.js";
import { empty, fill, filled, table } from "../list.js";
import { setQuery } from "../main.js";

const keptRows = 500;
const span = 200;

const words = {
  "person.created": "new person", "person.merged": "two people are one", "merge.undone": "merge undone", "person.split": "person split", "split.undone": "split undone", "person.erased": "person erased",
  "identity.linked": "identity linked", "identity.moved": "identity moved", "identity.unlinked": "identity removed", refused: "call refused", "properties.changed": "properties changed", "identity.unproven": "call without proof",
};

export const personLink = (person, text = person) => person ? h("a", { href: `#/person/${encodeURIComponent(person)}`, class: "id" }, shown(text, "id")) : shown(null);

// What a change says besides, without what it left empty.
const details = (data) => Object.entries(data ?? {}).filter(([, value]) => !Array.isArray(value) || value.length)
  .map(([name, value], place) => [place ? " · " : "", `${name} `, shown(Array.isArray(value) ? value.map((one) => typeof one === "string" ? one : JSON.stringify(one)).join(", ") : value)]);

export function changesTable(caption, changes, options = {}) {
  return table(caption, [
    ["Call", (change) => h("button", { class: "plain", type: "button", onclick: () => open(`Call ${change.seq}`, json(change)) }, String(change.seq))],
    ["When", (change) => moment(change.at)],
    ["What", (change) => [shown(words[change.kind] ?? change.kind.replaceAll(/[._]/g, " ")), h("br"), h("code", { class: "soft" }, shown(change.kind))]],
    ["Person", (change) => personLink(change.person)],
    ["More", (change) => details(change.data)],
    ["Key", (change) => shown(change.key)],
  ], changes, options);
}

/** The changes of the last calls, the newest first. */
export async function recent(signal, kinds = "") {
  const end = await lastCall(signal);
  let after = Math.max(0, end - span);
  let all = [];
  for (;;) {
    const page = await get("/changes", { after, limit: 200, kinds }, { signal });
    all = all.concat(page.changes);
    if (!page.changes.length || page.next_after <= after || page.next_after >= end) break;
    after = page.next_after;
  }
  return all.reverse();
}

/** The changes of one day in UTC, the newest first. The day begins after a call. */
async function ofDay(day, after, kinds, signal) {
  const all = [];
  for (;;) {
    const page = await get("/changes", { after, limit: 200, kinds }, { signal });
    all.push(...page.changes.filter((change) => change.at.startsWith(day)));
    if (!page.changes.length || page.changes.at(-1).at.slice(0, day.length) > day || all.length >= keptRows) return all.slice(0, keptRows).reverse();
    after = page.next_after;
  }
}

export default async function changes(place, { heading, query, leave }) {
  heading("Changes");
  const day = query.get("day");
  if (day) {
    show(place, h("p", {}, "The changes of ", h("strong", {}, shown(day)), " (UTC). ", h("a", { href: "#/changes" }, "Show the last changes")), filled(10, async (signal) => {
      const found = await ofDay(day, query.get("after") ?? 0, query.get("kinds") ?? "", signal);
      return found.length ? changesTable(`Changes of ${day}, the newest first${found.length < keptRows ? "" : `; the first ${keptRows}`}`, found) : empty("No such change on this day.");
    }));
    return;
  }
  let isPaused = false;
  let held = [];
  let rows = null;
  const wanted = () => new Set((query.get("kinds") ?? "").split(",").filter(Boolean));
  const matches = (change) => (wanted().size === 0 || wanted().has(change.kind))
    && (!query.get("person") || change.person === query.get("person") || change.root === query.get("person"));
  const list = h("div");
  const pause = h("button", { type: "button", "aria-pressed": "false", onclick: () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
    label();
    if (!isPaused) { take(held); held = []; }
  } }, "Pause");
  const label = () => show(pause, isPaused ? `Go on (${held.length} waiting)` : "Pause");
  const filter = (name, text, help) => h("label", {}, text, h("br"), h("input", {
    value: query.get(name) ?? "", placeholder: help, spellcheck: "false", onchange: (event) => {
      const value = event.target.value.trim();
      if (value) query.set(name, value); else query.delete(name);
      setQuery({ [name]: value });
      load();
    } }));
  function take(fresh) {
    const matching = fresh.filter(matches).reverse();
    if (!matching.length) return;
    if (!rows) { load(); return; }
    rows.addFirst(matching, keptRows);
    tell(matching.length === 1 ? "A new change." : `${matching.length} new changes.`);
  }
  const load = () => fill(list, 10, async (signal) => {
    const found = (await recent(signal, query.get("kinds") ?? "")).filter(matches).slice(0, keptRows);
    rows = found.length ? changesTable("Changes, the newest first", found) : null;
    return rows ?? empty("None of the last calls made such a change. New changes appear here.");
  });
  show(place, h("div", { class: "filters" }, filter("kinds", "Kinds", "person.merged,refused"), filter("person", "Person", "the id"), pause), list);
  leave(receive((fresh) => {
    if (!isPaused) { take(fresh); return; }
    held = held.concat(fresh.filter(matches)).slice(-keptRows);
    label();
  }));
  await load();
}
