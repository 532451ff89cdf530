// Find: what an id or a value may name.

import { post } from "../api.js";
import { counted, h, moment, shown, show } from "../h.js";
import { empty, failure, filled, table } from "../list.js";
import { personLink } from "./changes.js";

/** A short name of a person: an e-mail address or a user id if there is one. */
export function label(person) {
  for (const type of ["email", "customerid", "claim_user_id", "mobile_number"]) {
    const identity = person.identities.find((identity) => identity.type === type);
    if (identity) return identity.value;
  }
  return person.root;
}

export default async function find(place, { heading, parts, leave }) {
  const text = parts.join("/").trim();
  heading("Search");
  const box = document.getElementById("search");
  if (box) box.value = text;
  if (!text) { show(place, empty("Type an id, an e-mail address or another value in the box above.")); return; }
  show(place, h("p", {}, "Searched for ", shown(text), "."), filled(5, async (signal) => {
    // The value is in the body, so no log of a proxy has it.
    const { results } = await post("/search", { q: text.toWellFormed() }, { signal });
    const of = (kind) => results.filter((result) => result.kind === kind);
    const people = new Map(of("person").map((result) => [result.root, result]));
    if (people.size === 1 && people.size === results.length && location.hash.startsWith("#/find/")) {
      const [root] = people.keys();
      location.replace(`#/person/${encodeURIComponent(root)}`);
      return [];
    }
    if (!results.length) {
      return [empty("Nobody has this id or value now. The search compares whole values. To search one type only, write ", h("code", {}, "type:value"), "."), scan(text, leave)];
    }
    const group = (caption, columns, rows) => rows.length ? table(caption, columns, rows) : null;
    return [
      group("People", [
        ["Person", (one) => personLink(one.root, one.label ?? one.root)], ["Id", (one) => shown(one.root, "id")],
        ["Found by", (one) => [h("code", {}, shown(one.match.type)), " ", shown(one.match.value)]],
        ["Identities", (one) => counted(one.identities, "identity", "identities")], ["Last seen", (one) => moment(one.last_seen)],
      ], [...people.values()]),
      group("Purchases", [["Transaction", (one) => shown(one.transaction, "id")], ["Product", (one) => shown(one.product)], ["Reported by", (one) => personLink(one.person)]], of("purchase")),
      group("Installs", [["Install", (one) => shown(one.id, "id")], ["Person", (one) => personLink(one.person)], ["State", (one) => shown(one.state)]], of("install")),
      group("Merges", [["Merge", (one) => shown(one.id, "id")], ["From", (one) => personLink(one.from)], ["Into", (one) => personLink(one.into)],
        ["State", (one) => one.undone_at ? ["undone ", moment(one.undone_at)] : "in force"]], of("merge")),
      group("Splits", [["Split", (one) => shown(one.id, "id")], ["From", (one) => personLink(one.from)], ["Into", (one) => personLink(one.into)],
        ["State", (one) => one.undone_at ? ["undone ", moment(one.undone_at)] : "in force"]], of("split")),
      group("Keys", [["Key", (one) => h("a", { href: "#/keys" }, shown(one.name))], ["Id", (one) => shown(one.id, "id")]], of("key")),
      group("Requests", [["Request", (one) => h("a", { href: `#/requests/${encodeURIComponent(one.request_id)}` }, shown(one.request_id, "id"))], ["Answered", (one) => moment(one.at)],
        ["Route", (one) => h("code", {}, shown(one.route))], ["Status", (one) => String(one.status)]], of("request")),
      group("Deliveries", [["Delivery", (one) => h("a", { href: "#/webhooks" }, shown(one.id, "id"))], ["Call", (one) => String(one.seq)], ["State", (one) => shown(one.state)], ["Fault", (one) => shown(one.fault)]], of("delivery")),
      scan(text, leave),
    ];
  }));
}

const peopleAtMost = 200;
const charactersAtLeast = 2;

/** A search in parts of values. The server reads some identities for each call, so a large project takes many calls. */
function scan(text, leave) {
  const place = h("section");
  const begin = h("button", { type: "button", onclick: () => run(place, text, begin, leave) }, "Search in parts of values");
  if (text.length < charactersAtLeast) return null;
  return show(place, h("h2", {}, "Parts of values"), h("p", { class: "soft" }, "This reads all identities, the last first, and stops at ", String(peopleAtMost), " people."), begin);
}

async function run(place, text, begin, leave) {
  const stop = new AbortController();
  leave(() => stop.abort());
  const bar = h("progress", { max: 1, value: 0, "aria-label": "Identities read" });
  const state = h("p", { role: "status" }, "Reading…");
  const button = h("button", { type: "button", onclick: () => stop.abort() }, "Stop");
  const found = h("div");
  show(place, h("h2", {}, "Parts of values"), bar, state, button, found);
  button.focus();
  const people = new Map();
  const columns = [["Person", (one) => personLink(one.root, one.label ?? one.root)], ["Id", (one) => shown(one.root, "id")],
    ["Found by", (one) => [h("code", {}, shown(one.match.type)), " ", shown(one.match.value)]],
    ["Identities", (one) => counted(one.identities, "identity", "identities")], ["Last seen", (one) => moment(one.last_seen)]];
  const told = () => `${counted(read, "identity", "identities")} read, ${counted(people.size, "person", "people")} found.`;
  let rows = null;
  let read = 0;
  let cursor = null;
  try {
    do {
      const slice = await post("/search/scan", { text: text.toWellFormed(), cursor }, { signal: stop.signal });
      read += slice.read;
      ({ next_cursor: cursor } = slice);
      // At most as many identities are left as the place of the next slice says.
      bar.value = cursor === null ? 1 : read / (read + Number(cursor));
      const more = slice.results.filter((one) => !people.has(one.root)).slice(0, peopleAtMost - people.size);
      for (const one of more) people.set(one.root, one);
      if (more.length && rows) rows.add(more);
      else if (more.length) show(found, rows = table("People with a value that has the text", columns, more));
      show(state, told());
    } while (cursor !== null && people.size < peopleAtMost);
    show(state, told(), cursor === null ? " All identities are read." : " There may be more: write a longer part.");
    if (!people.size) show(found, empty("No value has this text."));
    button.replaceWith(begin);
  } catch (fault) {
    if (stop.signal.aborted) show(state, told(), " You stopped the search.");
    else show(found, rows, failure(fault));
    show(begin, "Search again");
    button.replaceWith(begin);
  }
}
