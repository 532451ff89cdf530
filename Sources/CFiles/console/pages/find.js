// Find: what an id or a value may name.

import { post } from "../api.js";
import { counted, h, moment, shown, show } from "../h.js";
import { empty, filled, table } from "../list.js";
import { personLink } from "./changes.js";

/** A short name of a person: an e-mail address or a user id if there is one. */
export function label(person) {
  for (const type of ["email", "customerid", "claim_user_id", "mobile_number"]) {
    const identity = person.identities.find((identity) => identity.type === type);
    if (identity) return identity.value;
  }
  return person.root;
}

export default async function find(place, { heading, parts }) {
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
      return empty("Nobody has this id or value now. The search compares whole values. To search one type only, write ", h("code", {}, "type:value"), ".");
    }
    const group = (caption, columns, rows) => rows.length ? table(caption, columns, rows) : null;
    return [
      group("People", [
        ["Person", (one) => personLink(one.root, one.label ?? one.root)], ["Id", (one) => shown(one.root, "id")],
        ["Found by", (one) => [h("code", {}, shown(one.match.type)), " ", shown(one.match.value)]],
        ["Identities", (one) => counted(one.identities, "identity", "identities")], ["Last seen", (one) => moment(one.last_seen)],
      ], [...people.values()]),
      group("Purchases", [["Transaction", (one) => shown(one.transaction, "id")], ["Product", (one) => shown(one.product)], ["Reported by", (one) => personLink(one.person)]], of("purchase")),
      group("Merges", [["Merge", (one) => shown(one.id, "id")], ["From", (one) => personLink(one.from)], ["Into", (one) => personLink(one.into)],
        ["State", (one) => one.undone_at ? ["undone ", moment(one.undone_at)] : "in force"]], of("merge")),
      group("Splits", [["Split", (one) => shown(one.id, "id")], ["From", (one) => personLink(one.from)], ["Into", (one) => personLink(one.into)],
        ["State", (one) => one.undone_at ? ["undone ", moment(one.undone_at)] : "in force"]], of("split")),
      group("Keys", [["Key", (one) => h("a", { href: "#/keys" }, shown(one.name))], ["Id", (one) => shown(one.id, "id")]], of("key")),
    ];
  }));
}
