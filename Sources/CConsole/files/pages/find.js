// Find: the people that an id or a value may name. The server looks up one type of identity at a time, so a value without a type is
// looked up under the types that it may have.

import { Failure, get, path } from "../api.js";
import { counted, h, moment, shown, show } from "../h.js";
import { empty, failure, filled, table } from "../list.js";
import { personLink } from "./changes.js";

// An identity type of the server; the value may hold colons itself.
const named = /^([a-z][a-z0-9_]*):(.+)$/s;

/** The look-ups for a text: ids of people first, then identities by type. */
export function lookups(text) {
  const found = [];
  const typed = named.exec(text);
  if (/^-?\d{1,19}$/.test(text)) found.push({ id: text });
  if (typed) found.push({ type: typed[1], value: typed[2] });
  if (/^(QON_|owl_anon_)/.test(text)) found.push({ id: text });
  if (/^[0-9a-f]{24}$/.test(text)) found.push({ id: text }, { type: "linking_install_id", value: text });
  if (text.includes("@")) {
    found.push({ type: "email", value: text });
    if (text.toLowerCase() !== text) found.push({ type: "email", value: text.toLowerCase() });
  }
  const types = /^[0-9A-Fa-f-]{36}$/.test(text)
    ? ["ios_idfv", "ios_idfa", "android_uuid", "android_aaid", "device_application_stamp"]
    : ["customerid", "claim_user_id", "linking_external_id", "access_identity", "mobile_number", "other"];
  for (const type of types) found.push({ type, value: text });
  return found;
}

async function look({ id, type, value }, signal) {
  try {
    if (id) return [await get(path`/people/${id}`, { limit: 1 }, { signal })];
    return (await get("/people", { type, value }, { signal })).people;
  } catch (fault) {
    // No such person, an id of another form, or a type that the server has not.
    if (fault instanceof Failure && [400, 404].includes(fault.status)) return [];
    throw fault;
  }
}

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
    const results = await Promise.allSettled(lookups(text).map((lookup) => look(lookup, signal)));
    const faults = results.filter((result) => result.status === "rejected").map((result) => result.reason);
    const people = new Map();
    for (const result of results) for (const person of result.value ?? []) people.set(person.root, person);
    if (!people.size && faults.length) throw faults[0];
    if (people.size === 1 && !faults.length && location.hash.startsWith("#/find/")) {
      const [root] = people.keys();
      location.replace(`#/person/${encodeURIComponent(root)}`);
      return [];
    }
    return [faults.length ? failure(faults[0]) : null,
      people.size ? table("People", [
        ["Person", (person) => personLink(person.root, label(person))], ["Id", (person) => shown(person.root, "id")],
        ["Identities", (person) => counted(person.identities_count, "identity", "identities")], ["Last seen", (person) => moment(person.last_seen)],
      ], [...people.values()]) : empty("Nobody has this id or value now. The search compares whole values. To search a type that the console does not guess, write ",
        h("code", {}, "type:value"), ".")];
  }));
}
