// Explain: why two ids are one person, or why not.

import { get } from "../api.js";
import { h, moment, shown, show } from "../h.js";
import { empty, fill, table } from "../list.js";
import { setQuery } from "../main.js";
import { personLink } from "./changes.js";

const reasons = {
  first_unknown: "Nobody has the first id.", second_unknown: "Nobody has the second id.", merge_undone: "A merge once made them one person. The merge is undone.",
  split_from: "A split gave an identity of one of them to another person.", moved: "An identity moved from one of them to the other.", refused: "A call would have made them one person. The rules refused the call.",
  never_together: "No call ever named both of them.", shared_device: "They held the same device, one after the other.",
};

export default async function explain(place, { query, heading }) {
  heading("Why, or why not");
  const fields = ["a", "b"].map((name) => h("input", { id: `explain-${name}`, value: query.get(name) ?? "", required: true, spellcheck: "false", autocomplete: "off" }));
  const answer = h("div");
  const ask = () => {
    const [a, b] = fields.map((field) => field.value.trim());
    setQuery({ a, b });
    if (!a || !b) { show(answer, empty("Name two people or identities: an id, or an identity like email:ada@example.com.")); return Promise.resolve(); }
    return fill(answer, 4, async (signal) => result(await get("/explain", { a, b }, { signal })));
  };
  show(place, h("form", { class: "filters", onsubmit: (event) => { event.preventDefault(); ask(); } },
    ["First id", "Second id"].map((text, place) => h("label", { for: fields[place].id }, text, h("br"), fields[place])), h("button", { class: "act", type: "submit" }, "Explain")), answer);
  await ask();
}

function result(answer) {
  if (answer.connected) {
    return [h("p", {}, h("strong", {}, "They are one person: "), personLink(answer.root)), answer.chain.length ? table("Each fact leads to the next", [
      ["Fact", (tie) => shown(tie.fact)], ["From", (tie) => shown(tie.from)], ["To", (tie) => shown(tie.to)], ["Since", (tie) => moment(tie.at)],
      ["Call", (tie) => shown(tie.call === null ? null : String(tie.call))], ["Key", (tie) => shown(tie.key)], ["Rule", (tie) => shown(tie.rule)], ["Request", (tie) => h("code", {}, shown(tie.request_id))],
    ], answer.chain) : h("p", {}, "The two ids name the same thing.")];
  }
  const calls = (caption, all) => all.length ? table(caption, [
    ["Call", (call) => String(call.call)], ["When", (call) => moment(call.at)], ["What", (call) => shown(call.kind)], ["Rule", (call) => shown(call.rule)],
    ["Key", (call) => shown(call.key)], ["Request", (call) => h("code", {}, shown(call.request_id))],
  ], all) : null;
  return [h("p", {}, h("strong", {}, "They are two people. "), reasons[answer.reason] ?? shown(answer.reason)),
    calls("Calls that the rules refused", answer.refused), calls("Merges that are undone", answer.undone)];
}
