// Splits of a person, and taking calls back: what is so now beside what would be so then.

import { Failure, get, may, path, post } from "../api.js";
import { counted, h, id, moment, plain, shown, tell } from "../h.js";
import { change } from "../dialog.js";
import { empty, facts, filled, long } from "../list.js";
import { personLink } from "./changes.js";

/** The text of an identity: its type and its value. */
function identity(text) {
  const colon = text.indexOf(":");
  if (colon < 1) throw new Failure(0, "not_an_identity", "Write an identity as its type and its value, such as ios_idfv:TABLET.");
  return { type: text.slice(0, colon).trim(), value: text.slice(colon + 1).trim() };
}

const identities = (text) => text.split(",").map((one) => one.trim()).filter(Boolean).map(identity);

/** The people on one side of an answer. */
export const sides = (people) => h("div", {}, people.map(side));

function side(one) {
  const properties = Object.entries(one.properties ?? {}).flatMap(([dialect, all]) =>
    Object.entries(all).map(([name, entry]) => [`${dialect} ${plain(name)}`, shown(entry.value)]));
  return h("div", {}, h("h4", {}, one.person ? id(one.person) : "A new person"), facts([
    ["Identities", one.identities.length ? one.identities.slice(0, 50).map((held) => [shown(`${held.type}:${held.value}`), h("br")]) : "none"],
    ...Object.entries(one.counts ?? {}).map(([kind, count]) => [kind, String(count)]),
    ["Purchases", String(one.purchases?.length ?? 0)], ["Installs", String(one.installs?.length ?? 0)], ...properties.slice(0, 50),
  ]));
}

function columns(result) {
  const rows = (amounts) => Object.entries(amounts?.rows ?? {}).map(([kind, count]) => [kind, String(count)]);
  return {
    now: sides(result.now), then: sides(result.then),
    more: [h("h3", {}, "What goes"), facts([["Identities", String(result.moved.identities)], ...rows(result.moved)]),
      h("h3", {}, "What stays"), facts([["Identities", String(result.stays.identities)], ...rows(result.stays)]),
      result.warnings.map((warning) => h("p", { class: "look" }, shown(warning)))],
  };
}

export function split(profile, again) {
  const body = (values) => {
    const wanted = {};
    if (values.identities.trim()) wanted.identities = identities(values.identities);
    if (values.lanes.trim()) wanted.lanes = identities(values.lanes);
    for (const name of ["since", "until", "into"]) if (values[name].trim()) wanted[name] = values[name].trim();
    if (values.call.trim()) wanted.at_call = Number(values.call);
    if (!Object.keys(wanted).some((name) => name !== "into")) throw new Failure(0, "nothing_named", "Name what belongs to the other person.");
    return wanted;
  };
  change({
    title: "Split this person", verb: "Split",
    note: "What you name is another person's from then on. No row is rewritten, and an undo gives it back.",
    fields: [
      { name: "identities", label: "Identities to give away", help: "Such as ios_idfv:TABLET; several with commas.", optional: true },
      { name: "lanes", label: "Rows and properties that came by", help: "Identities that calls named, such as the device of an upload.", optional: true },
      { name: "since", label: "Rows and properties since", help: "A time such as 2026-11-21T09:00:00Z, or seq: and the number of a call.", optional: true },
      { name: "until", label: "Rows and properties until", help: "A time, or seq: and the number of a call.", optional: true },
      { name: "call", label: "Or all since a call that should have found somebody new", help: "The number of a call in the journal. It stands alone.", optional: true },
      { name: "into", label: "The other person", help: "An id or an identity. Without it the split makes a new person.", optional: true },
    ],
    dry: (values, signal) => post(path`/people/${profile.id}/split`, body(values), { query: { dry_run: true }, signal }),
    columns,
    run: (values, reason, options) => post(path`/people/${profile.id}/split`, { ...body(values), reason }, options),
    done: () => { tell("The person is split. “Undo…” stands beside the split."); again(); },
  });
}

function undoSplit(made, again) {
  change({
    title: `Undo the split ${made.id}`, verb: "Undo the split",
    dry: (_, signal) => post(path`/splits/${made.id}/undo`, {}, { query: { dry_run: true }, signal }),
    columns,
    run: (_, reason, options) => post(path`/splits/${made.id}/undo`, { reason }, options),
    done: () => { tell("The split is undone."); again(); },
  });
}

/** The splits of a person; nothing for a person without splits. */
export const splits = (profile, again) => filled(1, async (signal) => {
  const { splits: all } = await get(path`/people/${profile.root}/splits`, { limit: 100 }, { signal });
  return all.length ? [h("h2", {}, "Splits"), long("Splits", [
    ["Split", (made) => shown(made.id, "id")], ["From", (made) => personLink(made.person)], ["To", (made) => personLink(made.into)],
    ["What", (made) => `${counted(made.selectors.identities.length, "identity", "identities")}, ${counted(Object.values(made.rows).reduce((sum, count) => sum + count, 0), "row")}`],
    ["Since", (made) => moment(made.at)], ["Reason", (made) => shown(made.reason)],
    ["State", (made) => made.undone_at ? ["undone ", moment(made.undone_at)] : "in force"],
    ["Do", (made) => may.act && !made.undone_at ? h("button", { type: "button", onclick: () => undoSplit(made, again) }, "Undo…") : null],
  ], all, null, { hidden: true, step: 20 })] : null;
});

const fact = (one) => h("p", {}, plain(one.fact.replaceAll("_", " ")), " · ", shown(one.person, "id"), one.type ? [" ", shown(`${one.type}:${one.value}`)] : null,
  one.into ? [" into ", shown(one.into, "id")] : null, one.document ? [" ", shown(one.document)] : null);

const changed = (title, all, none) => [h("h4", {}, title), all.length ? all.map(fact) : empty(none)];

/** Takes a call back; the calls that built on it go first. */
export function takeBack(call, again) {
  change({
    title: `Take call ${call.seq} back`, verb: "Take back",
    note: "The undo ends what the call began, and brings back what it ended. Its rows stay. The undo can be taken back, too.",
    dry: (_, signal) => post(path`/calls/${call.seq}/undo`, {}, { query: { dry_run: true, cascade: true }, signal }),
    columns: (result) => ({
      now: h("div", {}, result.now.map(side), changed("What ends", result.facts_ended, "The undo ends no fact.")),
      then: h("div", {}, result.then.map(side), changed("What comes back", result.facts_back, "The undo brings no fact back.")),
      more: [result.built_upon?.length ? h("p", { class: "look" }, `These later calls built on it and are taken back first: ${result.built_upon.join(", ")}.`) : null,
        result.depended_count ? h("p", {}, `${counted(result.depended_count, "later call")} depended on it. Their answers stay.`) : null,
        (result.warnings ?? []).map((warning) => h("p", { class: "look" }, shown(warning)))],
    }),
    run: (_, reason, { query, ...options }) => post(path`/calls/${call.seq}/undo`, { reason }, { query: { cascade: true, ...query }, ...options }),
    done: () => { tell("The call is taken back."); again(); },
  });
}
