// Home: the state of the server in short and the last changes, or the first steps while there are no people.

import { get, may, post, readiness, remove, session } from "../api.js";
import { change } from "../dialog.js";
import { receive } from "../feed.js";
import { counted, h, show, tell } from "../h.js";
import { empty, failure, filled } from "../list.js";
import { changesTable, recent } from "./changes.js";

const json = "-H 'Content-Type: application/json'";
// The first call of each dialect, with the place of the key.
const dialects = [
  ["IDSync", "Apps with mParticle's SDK", () => `curl -s ${location.origin}/v1/identify -H 'x-mp-key: KEY' ${json} \\\n  -d '{"environment":"development","known_identities":{"customerid":"ada"}}'`],
  ["Claim", "Apps with OwlMetry's SDK", () => `curl -s ${location.origin}/v1/ingest -H 'Authorization: Bearer KEY' ${json} \\\n  -d '{"bundle_id":"com.example.demo","events":[{"session_id":"${crypto.randomUUID()}","user_id":"ada","level":"info","message":"hello"}]}'`],
  ["Entitlements", "Apps with Qonversion's SDK", () => `curl -s ${location.origin}/v3/users/ada -H 'Authorization: Bearer KEY' ${json} \\\n  -d '{"environment":"sandbox"}'`],
  ["Linking", "Apps with Sentiance's SDK", () => `curl -s -X POST ${location.origin}/users/auth-code -H 'Authorization: Bearer KEY' ${json} \\\n  -d '{"external_id":"ada"}'`],
];

export default async function home(place, { heading, leave, again }) {
  heading("Home");
  // Only a server for trying has demo data.
  const isForTrying = may.administer && session.current.mode === "development";
  const [stats, ready, demo] = await Promise.all([get("/stats"), readiness(), isForTrying ? get("/demo") : {}]);
  if (await hasNobody(stats)) {
    // In development mode, the keys of the first start; otherwise KEY stands for a key.
    const { keys } = may.administer ? await get("/console/snippets") : { keys: {} };
    const call = (name, snippet) => snippet().replace("KEY", keys[name.toLowerCase()] ?? "KEY");
    const state = h("p", { class: "soft" }, "No call has made a person yet.");
    show(place, h("p", {}, "The server runs, and nobody is known yet. Send a first call: a key is in the answer of ",
      h("code", {}, "onym init"), ", or make one on the page ", h("a", { href: "#/keys" }, "Keys"), "."),
    h("div", { class: "two" }, dialects.map(([name, what, snippet]) => h("section", { class: "box" }, h("h2", {}, name), h("p", { class: "soft" }, what),
      h("pre", { tabindex: 0, "aria-label": `First call of ${name}` }, call(name, snippet))))), state, demo.possible && makeDemo(again));
    leave(receive((changes) => {
      if (!changes.some((change) => change.kind === "person.created")) return;
      show(state, "Received: the first person is here. ");
      state.append(h("button", { type: "button", onclick: again }, "Show it"));
    }));
    return;
  }
  const tile = (name, value, page) => h("section", { class: "box tile" }, h("h2", {}, page ? h("a", { href: page }, name) : name), value);
  const number = (value, one, many) => value === undefined ? null : h("strong", {}, counted(value, one, many));
  show(place, h("div", { class: "boxes" },
    tile("Server", [h("strong", { class: ready.status === "ready" ? "good" : "bad" }, ready.status === "ready" ? "ok" : "bad"),
      ready.reason ?? ready.detail ?? "It takes calls."], "#/health"),
    tile("People", [number(stats.people, "person", "people"), stats.identities === undefined ? null : counted(stats.identities, "identity", "identities")], "#/people"),
    tile("Merges", [number(stats.merges, "merge")], "#/changes?kinds=person.merged,merge.undone"),
    tile("Apps and keys", [h("strong", {}, counted(stats.apps, "app")), counted(stats.keys, "key")], "#/keys")),
  demo.made && h("p", { class: "row" }, "These people are demo data. ", h("button", { type: "button", onclick: () => removeDemo(again) }, "Remove demo data…")),
  h("h2", {}, "Last changes"),
  filled(6, async (signal) => {
    const changes = (await recent(signal)).slice(0, 15);
    return changes.length ? changesTable("Last changes", changes, { hidden: true }) : empty("Nothing changed lately.");
  }), demo.possible && makeDemo(again));
}

// Whether the project has no people. With several projects, only the operator gets their number.
async function hasNobody(stats) {
  if (stats.people !== undefined) return stats.people === 0;
  return (await get("/people", { order: "recent", limit: 1 })).people.length === 0;
}

// Demo data: people who do not exist, for a first look.
function makeDemo(again) {
  const trouble = h("div");
  const button = h("button", { type: "button", onclick: async () => {
    button.disabled = true;
    try {
      const made = await post("/demo");
      tell(`Made ${counted(made.people, "person", "people")}.`);
      again();
    } catch (fault) { button.disabled = false; show(trouble, failure(fault)); }
  } }, "Make demo data");
  return h("section", {}, h("h2", {}, "Only looking?"), h("p", {}, "200 people who do not exist, of all dialects: with devices, purchases, and a wrong merge to find. You can remove them again."), button, trouble);
}

function removeDemo(again) {
  change({
    title: "Remove demo data", verb: "Remove", takesReason: false,
    dry: (_, signal) => remove("/demo", { query: { dry_run: true }, signal }),
    columns: (result) => ({ now: `${counted(result.erased, "person", "people")} of the demo data.`,
      then: result.left.length ? `These people are erased. ${counted(result.left.length, "person", "people")} stay, because a merge joined them with other people.` : "These people are erased. The demo data can be made again." }),
    run: (_, reason, options) => remove("/demo", options),
    done: (result) => { tell(`Removed ${counted(result.erased, "person", "people")}.`); again(); },
  });
}
