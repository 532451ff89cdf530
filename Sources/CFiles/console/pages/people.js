// People: the people that changed last, and a search by type and value.

import { h, moment, show } from "../h.js";
import { empty, filled, long } from "../list.js";
import { personLink, recent } from "./changes.js";

export default async function people(place, { heading }) {
  heading("People");
  const type = h("input", { id: "type", required: true, placeholder: "email", spellcheck: "false", autocomplete: "off" });
  const value = h("input", { id: "value", required: true, spellcheck: "false", autocomplete: "off" });
  show(place, h("form", { class: "filters", onsubmit: (event) => {
    event.preventDefault();
    location.hash = `#/find/${encodeURIComponent(`${type.value.trim()}:${value.value}`.toWellFormed())}`;
  } }, h("label", { for: "type" }, "Type of identity", h("br"), type), h("label", { for: "value" }, "Value", h("br"), value), h("button", { type: "submit" }, "Find")),
  h("h2", {}, "Changed last"),
  filled(8, async (signal) => {
    const seen = new Map();
    for (const change of await recent(signal)) {
      if (change.root && !seen.has(change.root)) seen.set(change.root, change);
    }
    return long("People that the last calls changed", [
      ["Person", (change) => personLink(change.root)], ["Changed", (change) => moment(change.at)], ["By", (change) => h("code", {}, change.kind)],
    ], [...seen.values()], empty("None of the last calls changed a person. ", h("a", { href: "#/home" }, "First steps")));
  }));
}
