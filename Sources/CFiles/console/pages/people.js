// People: the people that changed last, and a search by type and value.

import { get } from "../api.js";
import { counted, h, id, moment, show } from "../h.js";
import { empty, paged } from "../list.js";
import { personLink } from "./changes.js";

export default async function people(place, { heading }) {
  heading("People");
  const type = h("input", { id: "type", required: true, placeholder: "email", spellcheck: "false", autocomplete: "off" });
  const value = h("input", { id: "value", required: true, spellcheck: "false", autocomplete: "off" });
  const seen = new Set();
  show(place, h("form", { class: "filters", onsubmit: (event) => {
    event.preventDefault();
    location.hash = `#/find/${encodeURIComponent(`${type.value.trim()}:${value.value}`.toWellFormed())}`;
  } }, h("label", { for: "type" }, "Type of identity", h("br"), type), h("label", { for: "value" }, "Value", h("br"), value), h("button", { type: "submit" }, "Find")),
  h("h2", {}, "Changed last"),
  paged("People, the last change first", [
    ["Person", (one) => personLink(one.root, one.label ?? one.root)], ["Id", (one) => id(one.root)],
    ["Changed", (one) => moment(one.changed_at)], ["By", (one) => h("code", {}, one.changed_by)],
    ["Members", (one) => String(one.members)], ["Identities", (one) => counted(one.identities, "identity", "identities")],
    ["Made", (one) => moment(one.made_at)], ["Last seen", (one) => moment(one.last_seen)],
  ], async (cursor, signal) => {
    if (cursor === null) seen.clear();
    const page = await get("/people", { order: "recent", limit: 50, cursor }, { signal });
    // A later page may name a person again.
    const rows = page.people.filter((one) => !seen.has(one.root));
    for (const one of rows) seen.add(one.root);
    return { rows, next: page.next_cursor };
  }, empty("No call has made a person yet. ", h("a", { href: "#/home" }, "First steps")), { lines: 8, hidden: true }));
}
