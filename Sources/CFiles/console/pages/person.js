// A person: who this is, what belongs to the person, and what happened.

import { get, may, path, post, remove } from "../api.js";
import { counted, h, id, json, moment, plain, show, shown, tell } from "../h.js";
import { change, open } from "../dialog.js";
import { empty, facts, filled, long, paged, table } from "../list.js";
import { receive } from "../feed.js";
import { exportLines } from "./exporting.js";
import { label } from "./find.js";
import { access, grant, move } from "./access.js";
import { personLink } from "./changes.js";
import { sides, split, splits, takeBack } from "./splitting.js";

const dialects = { idsync: "IDSync", claim: "Claim", entitlements: "Entitlements", onym: "Onym" };
const tabs = [["overview", "Overview"], ["timeline", "Time line"], ["graph", "Graph"], ["purchases", "Purchases"], ["properties", "Properties"], ["tokens", "Tokens"], ["journal", "Journal"]];

export default async function person(place, { parts, query, heading, leave, again }) {
  const [name] = parts;
  if (!name) { heading("People"); show(place, empty("The address names no person.")); return; }
  heading("Person ", shown(name, "id"));
  const at = query.get("at") || null;
  const profile = { ...await get(path`/people/${name}`, { at }), at };
  heading(shown(label(profile)));
  const tab = tabs.some(([key]) => key === query.get("tab")) ? query.get("tab") : "overview";
  const base = `#/person/${encodeURIComponent(name)}`;
  const address = (tab, at) => {
    const parts = [tab === "overview" ? null : `tab=${tab}`, at ? `at=${encodeURIComponent(at)}` : null].filter(Boolean);
    return parts.length ? `${base}?${parts.join("&")}` : base;
  };
  const stale = h("div");
  const body = h("div");
  show(place,
    h("p", {}, id(profile.root), profile.root === profile.id ? null : [" · asked as ", shown(profile.id, "id")],
      ` · ${counted(profile.members_count, "member")} · since `, moment(profile.first_seen), " · last seen ", moment(profile.last_seen)),
    at ? h("p", { class: "look", role: "status" }, "This was so as of ", shown(at), ". Nothing can be changed here. ", h("a", { href: address(tab) }, "Show it as it is now")) : actions(profile, again),
    moments(at, (wanted) => { location.hash = address(tab, wanted); }), stale,
    h("nav", { class: "tabs", "aria-label": "Parts of this page" }, tabs.map(([key, text]) =>
      h("a", { href: address(key, at), "aria-current": key === tab ? "page" : null }, text))),
    body);
  if (!at) leave(receive(async (changes) => {
    const people = new Set(profile.members);
    if (!changes.some((change) => people.has(change.person) || people.has(change.root))) return;
    // The feed may tell what the page shows already. Nobody asked for this call, so it does not keep the session alive.
    const fresh = await get(path`/people/${name}`, {}, { isUse: false }).catch(() => null);
    if (JSON.stringify({ ...fresh, at }) === JSON.stringify(profile)) return;
    show(stale, h("p", { class: "failure" }, "This person changed just now. ", h("button", { type: "button", onclick: again }, "Show the person anew")));
  }));
  const parts_ = { overview, timeline, graph, purchases, properties, tokens, journal };
  await parts_[tab](body, profile, { leave, again });
}

/** The field of the moment for which the page shows the person. */
function moments(at, go) {
  const field = h("input", { id: "as-of", value: at ?? "", placeholder: "2026-11-21T09:00:00Z or seq:4711", size: 32, spellcheck: "false" });
  return h("form", { class: "filters", onsubmit: (event) => {
    event.preventDefault();
    const text = field.value.trim();
    const time = text === "" || text.startsWith("seq:") ? null : new Date(text);
    if (time && Number.isNaN(time.getTime())) { tell("Write a time like 2026-11-21T09:00:00Z, or seq: and the number of a call."); return; }
    go(time ? time.toISOString() : text);
  } }, h("label", { for: "as-of" }, "As of", h("br"), field), h("button", { type: "submit" }, "Show"));
}

// MARK: - Overview

function overview(place, profile, { again }) {
  show(place,
    h("h2", {}, profile.at ? "Access then" : "Access now"), access(profile, again),
    profile.members_count > 1 ? [h("h2", {}, "Members"), h("p", {}, `${counted(profile.members_count, "person", "people")} are one, by merges:`),
      long("Merges", [
        ["Merge", (merge) => shown(merge.id, "id")], ["From", (merge) => shown(merge.from, "id")], ["Into", (merge) => shown(merge.into, "id")],
        ["Rule", (merge) => shown(merge.rule)], ["Since", (merge) => moment(merge.at)],
        ["Do", (merge) => may.act && !profile.at ? h("button", { type: "button", onclick: () => undoMerge(merge, again) }, "Undo…") : null],
      ], profile.merges, null, { hidden: true, step: 20 })] : null,
    h("h2", {}, `Identities (${profile.identities_count})`), identities(profile, again),
    profile.at ? null : splits(profile, again),
    profile.at ? null : filled(2, async (signal) => {
      const { shared: all } = await get(path`/people/${profile.root}/shared`, {}, { signal });
      return all.length ? [h("h2", {}, `Shared with others (${all.length})`), long("Identities that other people hold too", [
        ["Value", (one) => shown(one.value)], ["Type", (one) => shown(one.type)], ["People", (one) => String(one.count)],
        ["State", (one) => one.set_aside ? "set aside: it finds nobody" : "it may find any of them"],
        ["With", (one) => one.people.slice(0, 5).map((other) => [personLink(other.id, other.label ?? other.id), " "])],
      ], all, null, { hidden: true, step: 20 })] : null;
    }),
    h("h2", {}, `Installs (${profile.installs.length})`),
    long("Installs", [
      ["Install", (install) => shown(install.install_id, "id")], ["User id", (install) => shown(install.user_id)],
      ["State", (install) => [shown(install.state), install.disabled ? " · disabled" : null]], ["Device", (install) => shown(install.device_class)],
      ["Made", (install) => moment(install.made_at)], ["Last seen", (install) => moment(install.last_seen)],
    ], profile.installs, empty("No install belongs to this person. Apps of the Linking dialect make installs."), { hidden: true, step: 20 }),
    profile.aliases.length ? [h("h2", {}, "Aliases"), long("Aliases", [
      ["Alias", (alias) => shown(alias.id, "id")], ["From", (alias) => personLink(alias.source)], ["To", (alias) => personLink(alias.destination)],
      ["Rows since", (alias) => moment(alias.start)], ["Rows until", (alias) => moment(alias.end)],
      ["State", (alias) => alias.undone_at ? ["undone ", moment(alias.undone_at)] : "in force"],
    ], profile.aliases, null, { hidden: true, step: 20 })] : null,
    h("h2", {}, "Ids"), facts(Object.entries(profile.ids).filter(([, all]) => all.length).map(([kind, all]) =>
      [kind, all.slice(0, 20).map((one) => [id(one), h("br")]), all.length > 20 ? `and ${all.length - 20} more` : null])));
}

function identities(profile, again) {
  const place = h("div");
  const types = [...new Set(profile.identities.map((identity) => identity.type))].sort();
  const type = h("select", { id: "identity-type", onchange: draw }, h("option", { value: "" }, "all"), types.map((one) => h("option", { value: one }, one)));
  const part = h("input", { id: "identity-part", type: "search", spellcheck: "false", oninput: draw });
  function draw() {
    const wanted = profile.identities.filter((identity) => (!type.value || identity.type === type.value)
      && identity.value.toLowerCase().includes(part.value.toLowerCase()));
    show(place, long("Identities", [
      ["Value", (identity) => [shown(identity.value), " "]], ["Type", (identity) => shown(identity.type)],
      ["Member", (identity) => profile.members_count > 1 ? shown(identity.holder, "id") : "this person"], ["Since", (identity) => moment(identity.since)],
      ["Key", (identity) => shown(identity.key)], ["Request", (identity) => h("code", {}, shown(identity.request_id))],
      ["Do", (identity) => [
        h("a", { href: explainAddress(`${identity.type}:${identity.value}`, profile.root) }, "why"), " ",
        h("button", { class: "plain", type: "button", "aria-label": `Who else has ${identity.type} ${plain(identity.value)}`, onclick: () => shared(identity) }, "who else"), " ",
        may.act && !profile.at ? h("button", { class: "plain", type: "button", "aria-label": `Remove ${identity.type} ${plain(identity.value)}`, onclick: () => detach(profile, identity, again) }, "remove…") : null,
      ]],
    ], wanted, empty("No identity is like this."), { hidden: true, step: 50 }));
  }
  draw();
  const rest = profile.next_cursor ? h("p", { class: "soft" }, `The page shows the first ${counted(profile.members.length, "member")} of ${profile.members_count}.`) : null;
  return [h("div", { class: "filters" }, h("label", { for: "identity-type" }, "Type", h("br"), type), h("label", { for: "identity-part" }, "Value has", h("br"), part)), place, rest];
}

export const explainAddress = (a, b) => `#/explain?a=${encodeURIComponent(String(a).toWellFormed())}&b=${encodeURIComponent(String(b).toWellFormed())}`;

/** The people that have an identity. The value is in the body, so no log of a proxy has it. */
export async function holders(type, value, signal) {
  const { results } = await post("/search", { q: `${type}:${value}`.toWellFormed() }, { signal });
  return results.filter((result) => result.kind === "person" && result.match.type === type);
}

function shared({ type, value }) {
  open("Who has this identity", filled(3, async (signal) => {
    const people = await holders(type, value, signal);
    return [h("p", {}, shown(`${type}:${value}`)), table(counted(people.length, "person", "people"), [
      ["Person", (person) => personLink(person.root, person.label ?? person.root)], ["Id", (person) => shown(person.root, "id")], ["Last seen", (person) => moment(person.last_seen)],
    ], people)];
  }));
}

// MARK: - Time line

const rowColumns = (profile) => [
  ["When", (row) => moment(row.at)], ["Kind", (row) => h("button", { class: "plain", type: "button", onclick: () => open(`Row ${row.id}`, [
    facts([["Kind", shown(row.kind)], ["When", moment(row.at)], ["Written to", shown(row.origin, "id")], ["Came by", shown(row.identifier)], ["Received", moment(row.received_at)], ["Key", shown(row.key)]]), json(row.body ?? row)]) }, plain(row.kind))],
  ["Member", (row) => profile.members_count > 1 ? shown(row.origin, "id") : "this person"],
  ["What", (row) => shown(summary(row.body))],
];

function summary(body) {
  if (body === null || typeof body !== "object") return body;
  const data = body.data ?? body;
  return String(data.event_name ?? data.message ?? data.name ?? data.event_type ?? body.event_type ?? body.product ?? "…");
}

const bucketsAtMost = 200;

async function timeline(place, profile) {
  const { tracks } = await import("../tracks.js");
  const filters = { kinds: "", member: "", since: "", until: "" };
  const list = h("div");
  const field = (name, text, help) => h("label", {}, text, h("br"), h("input", { placeholder: help, spellcheck: "false", onchange: (event) => {
    const value = event.target.value.trim();
    const time = name === "kinds" || value === "" ? null : new Date(value);
    if (time && Number.isNaN(time.getTime())) { tell("Write a time like 2026-11-21T09:00:00Z."); return; }
    filters[name] = time ? time.toISOString() : value;
    load();
  } }));
  const load = () => {
    const rows = (drawn) => paged("Rows, the newest first", rowColumns(profile), async (cursor, signal) => {
      const page = await get(path`/people/${profile.root}/timeline`, { ...filters, at: profile.at, limit: 100, cursor }, { signal });
      drawn?.(page.rows);
      return { rows: page.rows, next: page.next_cursor };
    }, empty("No row matches. Events, purchases and answers of this person appear here."));
    const picture = h("div", { class: "picture" });
    // The past has no counts: the picture then grows with the pages.
    if (profile.at) {
      const all = [];
      show(list, picture, rows((more) => { all.push(...more); draw(picture, tracks(profile.members, all, profile.merges, 960)); }));
      return;
    }
    show(list, filled(4, async (signal) => {
      const [{ buckets, read, complete }, undone] = await Promise.all([
        get(path`/people/${profile.root}/timeline/buckets`, { ...filters, buckets: bucketsAtMost }, { signal }),
        get("/merges", { person: profile.root, state: "undone", limit: 20 }, { signal })]);
      const middle = (bucket) => new Date((Date.parse(bucket.from) + Date.parse(bucket.to)) / 2).toISOString();
      draw(picture, tracks(profile.members, buckets.map((bucket) => ({ at: middle(bucket), origin: bucket.member, count: Object.values(bucket.counts).reduce((sum, one) => sum + one, 0) })), [...profile.merges, ...undone.merges], 960));
      return [picture, h("p", { class: "soft" }, complete ? `The picture has all ${counted(read, "row")}.` : `The picture has the last ${counted(read, "row")}.`)];
    }), rows());
  };
  show(place, h("div", { class: "filters" }, field("kinds", "Kinds", "event"),
    profile.members.length > 1 ? h("label", {}, "Member", h("br"), h("select", { onchange: (event) => { filters.member = event.target.value; load(); } },
      h("option", { value: "" }, "all"), profile.members.map((member) => h("option", { value: member }, member)))) : null, field("since", "Since", "2026-11-01"), field("until", "Until", "2026-12-01")), list);
  load();
}

function draw(place, drawing) {
  const svg = h("svg", { viewBox: `0 0 ${drawing.width} ${drawing.height + 20}`, role: "img",
    "aria-label": `Tracks of ${counted(drawing.lines.filter((line) => !line.isUndone).length, "member")}; the table below has the rows` });
  svg.append(...drawing.lines.flatMap((line) => [
    h("line", { class: line.isUndone ? "track undone" : "track", x1: line.x, x2: line.end, y1: line.y, y2: line.y }),
    h("text", { x: line.x + 4, y: line.y - 4 }, line.member ?? counted(line.count, "other member"))]));
  svg.append(...drawing.joins.map((join) => h("line", { class: join.isUndone ? "track undone" : "track", x1: join.x, x2: join.x, y1: join.from, y2: join.into })));
  svg.append(...drawing.marks.flatMap((mark) => [
    h("circle", { class: "point", cx: mark.x, cy: mark.y, r: mark.count > 1 ? 7 : 4 }, h("title", {}, `${counted(mark.count, "row")}, ${mark.from}`)),
    mark.count > 1 ? h("text", { x: mark.x + 8, y: mark.y + 14 }, String(mark.count)) : ""]));
  if (drawing.marks.length) svg.append(h("text", { x: 4, y: drawing.height + 14 }, new Date(drawing.from).toISOString().slice(0, 16)),
    h("text", { x: drawing.width - 4, y: drawing.height + 14, "text-anchor": "end" }, new Date(drawing.until).toISOString().slice(0, 16)));
  show(place, svg);
}

// MARK: - Graph

/** More than three identities of a type are one node, and a drawing has at most 300 nodes. */
const drawn = { collapse: 3, limit: 300 };

async function graph(place, profile, { leave, again }) {
  const { drawGraph } = await import("../graph.js");
  const stop = new AbortController();
  leave(() => stop.abort());
  show(place, filled(12, async (signal) => {
    const answer = await get(path`/people/${profile.root}/graph`, { at: profile.at, ...drawn }, { signal });
    return drawGraph(answer, { signal: stop.signal, at: profile.at, undo: may.act && !profile.at ? (edge) => {
      const merge = profile.merges.find((merge) => merge.from === edge.from && merge.into === edge.to && merge.at === edge.at);
      return merge ? () => undoMerge(merge, again) : null;
    } : () => null });
  }));
}

// MARK: - Purchases, properties, journal

function purchases(place, profile, { again }) {
  show(place, long("Purchases", [
    ["Transaction", (purchase) => shown(purchase.transaction, "id")], ["Product", (purchase) => shown(purchase.product)], ["Store", (purchase) => shown(purchase.source)],
    ["World", (purchase) => shown(purchase.environment)], ["Bought", (purchase) => moment(purchase.purchased_at)],
    ["Revoked", (purchase) => moment(purchase.revoked_at)], ["Owners", (purchase) => (purchase.owners ?? []).slice(0, 5).map((owner) => [personLink(owner), " "])],
    ["Do", (purchase) => may.act && !profile.at ? h("button", { class: "plain", type: "button", "aria-label": `Move the purchase ${plain(purchase.transaction)}`,
      onclick: () => move(`${purchase.source}:${purchase.transaction}`, "", again) }, "move…") : null],
  ], profile.purchases, empty("No purchase belongs to this person. Apps report purchases in the Entitlements dialect.")));
}

function properties(place, profile) {
  show(place, Object.entries(profile.properties).map(([dialect, all]) => [h("h2", {}, dialects[dialect] ?? shown(dialect)),
    long(`Properties of ${dialect}`, [
      ["Name", ([name]) => shown(name)], ["Value", ([, entry]) => shown(entry.value)], ["Written", ([, entry]) => moment(entry.at)],
      ["By member", ([, entry]) => shown(entry.origin, "id")],
    ], Object.entries(all), empty("No property is set."), { hidden: true })]));
}

function journal(place, profile, { again }) {
  show(place, paged("Calls that changed this person, the last first", [
    ["Call", (call) => h("button", { class: "plain", type: "button", onclick: () => {
      const close = open(`Call ${call.seq}`, json(call), may.act && !profile.at && !call.refused
        ? [h("button", { type: "button", class: "act", onclick: () => { close(); takeBack(call, again); } }, "Take back…")] : []);
    } }, String(call.seq))],
    ["When", (call) => moment(call.at)], ["What", (call) => shown(call.kind)], ["Refused", (call) => call.refused ? h("code", {}, shown(call.refused)) : "no"],
    ["Reason", (call) => shown(call.reason)], ["Key", (call) => shown(call.key)], ["Request", (call) => h("code", {}, shown(call.request_id))],
  ], async (cursor, signal) => {
    const page = await get(path`/people/${profile.root}/journal`, { at: profile.at, limit: 100, cursor }, { signal });
    return { rows: page.calls, next: page.next_cursor };
  }, empty("No call changed this person.")));
}

// MARK: - Tokens and consent

const levels = { off: "off: no token is needed", log: "log: calls without a token are accepted and noted", require: "require: calls without a token are refused" };
const callsLookedAt = 200;
const consentOf = ({ body }) => body?.consent_state ?? body?.con ?? null;

function tokens(place, profile) {
  show(place, filled(4, async (signal) => {
    const { root, at } = profile;
    const [rules, { calls }, { rows }] = await Promise.all([get("/strategy", {}, { signal }), get(path`/people/${root}/journal`, { at, limit: callsLookedAt }, { signal }),
      get(path`/people/${root}/timeline`, { at, kinds: "context", limit: callsLookedAt }, { signal })]);
    const unproven = calls.find((call) => call.kind === "unproven" || call.refused?.startsWith("identity_token"));
    const consent = rows.find(consentOf);
    return [h("h2", {}, "Tokens of signed-in users"), facts(Object.entries(rules.signed_identities).map(([dialect, level]) => [dialects[dialect] ?? dialect, levels[level] ?? shown(level)])),
      h("p", {}, unproven ? ["The last call without proof: ", h("a", { href: `#/person/${encodeURIComponent(root)}?tab=journal` }, `call ${unproven.seq}`), " at ", moment(unproven.at), ", ", h("code", {}, shown(unproven.refused ?? unproven.kind)), "."]
        : `None of the last ${counted(calls.length, "call")} came without proof.`),
      h("h2", {}, "Consent"), consent ? [h("p", {}, "As an app of the IDSync dialect sent it at ", moment(consent.at), ", for ", shown(consent.origin, "id"), ". It blocks no call."), json(consentOf(consent))]
        : h("p", {}, "No app has sent a consent with its last uploads. Apps of the IDSync dialect send it.")];
  }));
}

// MARK: - Actions

function actions(profile, again) {
  if (!may.act) return null;
  const button = (text, act) => h("button", { type: "button", onclick: act }, text);
  return h("div", { class: "row actions" }, button("Merge…", () => merge(profile, again)), button("Split…", () => split(profile, again)), button("Grant…", () => grant(profile, again)), button("Move a purchase…", () => move("", profile.id, again)), button("Why one with…", () => ask(profile)),
    button("Export", () => exportLines("Export all data of this person", path`/people/${profile.root}/export`, `onym-${profile.root}.jsonl`,
      `The export has ${counted(profile.identities_count, "identity", "identities")} and all rows. Its size is known at its end.`)), may.administer ? button("Erase…", () => erase(profile)) : null);
}

function ask(profile) {
  const field = h("input", { id: "other", spellcheck: "false", autocomplete: "off" });
  const close = open("Why are they one, or not", h("div", { class: "field" }, h("label", { for: "other" }, "The other person or identity"), field),
    [h("button", { type: "button", class: "act", onclick: () => { close(); location.hash = explainAddress(profile.root, field.value.trim()); } }, "Explain")]);
}

/** The id of a person that a text names: an id, or an identity that one person holds. */
const named = async (text, signal) => (await get(path`/people/${text}`, {}, { signal })).id;

const ids = (people) => people.map((one) => [shown(one, "id"), h("br")]);

/** The columns of a merge or of its undo. */
export function mergeColumns(result, isUndo) {
  const rows = Object.entries(result.moved.rows ?? {}).map(([kind, count]) => [kind, String(count)]);
  return {
    now: sides(result.now), then: sides(result.then),
    more: [h("h3", {}, isUndo ? "What goes back" : "What comes along"),
      facts([["Identities", String(result.moved.identities)], ["Purchases", String(result.moved.purchases)], ["Installs", String(result.moved.installs)], ...rows]),
      result.still_one?.length ? h("p", { class: "look" }, "They stay one person for another reason: ", result.still_one.map((rule) => [shown(rule), " "])) : null,
      result.conflicts.length ? long(isUndo ? "Properties that differ" : "Properties of which one value hides the other", [
        ["Property", (conflict) => shown(conflict.property)], ["Dialect", (conflict) => shown(conflict.dialect)],
        ["Shown", (conflict) => shown(conflict.kept)], ["Hidden", (conflict) => shown(conflict.hidden)],
      ], result.conflicts, null) : h("p", {}, "No property is in conflict."),
      result.depended.length ? long("Calls whose results depended on the merge; their answers stay", [
        ["Call", (call) => String(call.seq)], ["When", (call) => moment(call.at)], ["What", (call) => shown(call.kind)], ["Person", (call) => shown(call.person, "id")],
      ], result.depended, null) : null],
  };
}

function merge(profile, again) {
  change({
    title: "Merge with another person", verb: "Merge",
    note: "Reads then show the two people as one. No fact is rewritten, and an undo gives each side back what it had.",
    fields: [{ name: "other", label: "The other person", help: "An id, or an identity like email:ada@example.com that one person holds." }],
    dry: async ({ other }, signal) => post("/merges", { from: profile.root, into: await named(other.trim(), signal) }, { query: { dry_run: true }, signal }),
    columns: (result) => mergeColumns(result, false),
    run: async ({ other }, reason, options) => post("/merges", { from: profile.root, into: await named(other.trim()), reason }, options),
    done: () => { tell("The two are one person now. “Undo…” stands beside the merge."); again(); },
  });
}

export function undoMerge(merge, again) {
  change({
    title: `Undo the merge ${merge.id}`, verb: "Undo the merge",
    dry: (_, signal) => post(path`/merges/${merge.id}/undo`, {}, { query: { dry_run: true }, signal }), columns: (result) => mergeColumns(result, true),
    run: (_, reason, options) => post(path`/merges/${merge.id}/undo`, { reason }, options),
    done: (result) => { tell(result.still_one?.length ? "The merge is undone. Another reason keeps the two one person." : "The two are two people again."); again(); },
  });
}

function detach(profile, { type, value, holder }, again) {
  const address = path`/people/${holder}/identities/${type}/${value}`;
  change({
    title: "Remove an identity", verb: "Remove", note: h("span", {}, "A call with ", shown(`${type}:${value}`), " then no longer finds this person. No other person gets the identity."),
    dry: (_, signal) => remove(address, { query: { dry_run: true }, signal }),
    columns: (result) => ({ now: ids(result.now), then: result.then.length ? ids(result.then) : "Nobody has the identity." }),
    run: (_, reason, options) => remove(address, { body: { reason }, ...options }),
    done: () => { tell("The identity is removed."); again(); },
  });
}

function erase(profile) {
  change({
    title: "Erase this person", verb: "Erase for ever", proof: profile.root, takesReason: false,
    note: "There is no undo. The person, all members of the group and all their data are removed from all files.",
    dry: (_, signal) => remove(path`/people/${profile.root}`, { query: { dry_run: true }, signal }),
    columns: (result) => ({
      now: facts([["People", ids(result.people)], ["Identities", String(result.identities ?? 0)], ...Object.entries(result.rows).map(([kind, count]) => [kind, String(count)])]),
      then: h("p", {}, "Nothing of it is there."),
      more: result.kept.length ? table("What stays, because another person holds it too", [
        ["Type", (kept) => shown(kept.type)], ["Held by", (kept) => kept.held_by.map((one) => [personLink(one), " "])]], result.kept) : null,
    }),
    run: (_, _reason, options) => remove(path`/people/${profile.root}`, options),
    done: (result) => open("Erased", [h("p", {}, `${counted(result.people.length, "person", "people")} are erased. Tombstones drop what arrives late:`),
      long("Tombstones", [["Tombstone", (one) => shown(one.id, "id")], ["Type", (one) => shown(one.type)]], result.tombstones, empty("None."))], [], () => { location.hash = "#/people"; }),
  });
}
