// Rules: the strategy as a form beside its JSON, a dry run over the journal, and the versions.

import { get, may, path, post, put, remove } from "../api.js";
import { counted, h, json, moment, show, shown, tell } from "../h.js";
import { change, open } from "../dialog.js";
import { empty, facts, failure, long, paged, table } from "../list.js";
import { personLink } from "./changes.js";

const choices = {
  preset: ["default", "profile_conversion", "profile_link", "profile_isolation", "best_match", "segment", "amplitude", "mixpanel_simplified", "mixpanel_original",
    "posthog", "rudderstack", "snowplow", "revenuecat_transfer", "revenuecat_keep", "sentiance", "owlmetry", "qonversion", "firebase_link", "custom"],
  on_new_known: ["keep", "create"], on_logout: ["create", "return", "resolve"], on_limit: ["demote", "separate", "refuse", "leave"],
  decide_on: ["member", "group"], merge_on_match: ["never", "anonymous_into_known", "any"], merge_root: ["known", "oldest"],
  device_without_user: ["resolve", "last_known", "first_known", "always_new"], contested_device: ["resolve", "stable_anonymous"], on_existing_user: ["switch", "refuse"],
};
const help = {
  preset: "A preset sets all other rules. Choose custom to keep the other rules as they are here.",
  hierarchy: "Types of identities, the strongest first. A call is answered for the strongest identity that somebody holds.",
  login: "Types that a known user has.", unique: "Types of which one value belongs to one person.", immutable: "Types whose value a person keeps for ever.",
  on_new_known: "What happens to an anonymous person when an unknown user logs in.", on_logout: "Whether a logout makes a new person, or finds the person of the device.",
  lowercase_email: "Whether e-mail addresses are changed to small letters.", blocked_values: "Values that name nobody, such as zeros.",
  shared_device_people: "The number of people that may hold a device.", same_user_id: "Whether equal user ids in several dialects belong to one human.",
  on_limit: "What happens to a call that would exceed a limit.",
  protect_known: "Whether a known group is found only by one of its login identities.", decide_on: "Whether a call answers a person or the root of a group.",
  merge_on_match: "What a call does that names identities of several groups.", merge_root: "The person that stands for a group after a merge by a rule.",
  known_into_known: "Whether a rule may merge two known users.", device_without_user: "What a call finds that names only devices.",
  contested_device: "What a device of several known users finds.", on_existing_user: "What happens to a call whose identities belong to several groups.",
  strategy_dry_run_days: "The days for which the server keeps calls that changed nothing, for dry runs.",
};
const pollMilliseconds = 700;

/** The differences of two documents, as [name, now, then]. */
export function differences(now, then) {
  const names = [...new Set([...Object.keys(now), ...Object.keys(then)])];
  return names.filter((name) => !["version", "unmatched_types"].includes(name) && JSON.stringify(now[name]) !== JSON.stringify(then[name]))
    .map((name) => [name, now[name], then[name]]);
}

/** The changed members alone: a preset in the body would set all members. */
const changed = (now, then) => Object.fromEntries(differences(now, then).filter(([, , value]) => value !== undefined).map(([name, , value]) => [name, value]));

export default async function rules(place, { heading, leave, again }) {
  heading("Rules");
  const inForce = await get("/strategy");
  const { version, unmatched_types: unmatched, ...document } = inForce;
  let draft = structuredClone(document);
  let tried = null;
  const text = h("textarea", { id: "rules-json", rows: 24, spellcheck: "false", readonly: !may.administer, oninput: () => {
    try {
      draft = JSON.parse(text.value);
      show(fault);
      form();
    } catch { show(fault, h("p", { class: "bad" }, "This is no JSON.")); }
    look();
  } });
  const fault = h("div", { "aria-live": "polite" });
  const fields = h("div");
  const differing = h("div");
  const result = h("div");
  const trouble = h("div");
  const set = (name, value) => { draft[name] = value; text.value = JSON.stringify(draft, null, 2); form(name); look(); };

  function form(name) {
    show(fields, Object.entries(draft).map(([key, value]) => field(key, value)));
    if (name) fields.querySelector(`#rule-${CSS.escape(name)}`)?.focus();
  }
  function field(name, value) {
    const about = `rule-${name}`;
    const disabled = !may.administer;
    const frame = (control) => h("div", { class: "field" }, h("label", { for: about }, name), help[name] ? h("p", { class: "soft" }, help[name]) : null, control);
    if (choices[name]) {
      return frame(h("select", { id: about, disabled, onchange: (event) => set(name, event.target.value) },
        choices[name].map((choice) => h("option", { value: choice, selected: choice === value }, choice))));
    }
    if (typeof value === "boolean") return frame(h("input", { id: about, type: "checkbox", checked: value, disabled, onchange: (event) => set(name, event.target.checked) }));
    if (typeof value === "number") return frame(h("input", { id: about, type: "number", value: String(value), disabled, onchange: (event) => set(name, Number(event.target.value)) }));
    if (name === "hierarchy" && Array.isArray(value)) return order(name, value, disabled);
    if (Array.isArray(value) && value.every((one) => typeof one === "string")) {
      return frame(h("input", { id: about, value: value.join(", "), disabled, spellcheck: "false", onchange: (event) =>
        set(name, event.target.value.split(",").map((one) => one.trim()).filter(Boolean)) }));
    }
    return h("div", { class: "field" }, h("strong", {}, name), h("p", { class: "soft" }, "Change this part in the JSON."), json(value));
  }
  function order(name, value, disabled) {
    const move = (from, to, way) => {
      const next = [...value];
      next.splice(to, 0, ...next.splice(from, 1));
      set(name, next);
      fields.querySelector(`[data-move="${CSS.escape(value[from])} ${way}"]`)?.focus();
    };
    return h("fieldset", { id: `rule-${name}`, class: "box" }, h("legend", {}, name), h("p", { class: "soft" }, help[name]),
      h("ol", {}, value.map((type, at) => h("li", {}, shown(type), " ", disabled ? null : [
        h("button", { class: "plain", type: "button", disabled: at === 0, "data-move": `${type} up`, "aria-label": `${type} up`, onclick: () => move(at, at - 1, "up") }, "Up"),
        h("button", { class: "plain", type: "button", disabled: at === value.length - 1, "data-move": `${type} down`, "aria-label": `${type} down`, onclick: () => move(at, at + 1, "down") }, "Down")]))));
  }

  const without = h("input", { type: "checkbox", onchange: () => look() });
  const force = h("button", { type: "button", class: "act", disabled: true, onclick: () => change({
    title: "Put these rules in force", verb: "Put in force", takesReason: false, note: "The rules hold from the next call on. Answers that were given stay.",
    // Another person may have changed other rules since the page was loaded. Those stay, unless a preset sets all rules.
    dry: async () => {
      const [now, mine] = [await get("/strategy"), changed(document, draft)];
      return differences(now, mine.preset ? draft : { ...now, ...mine });
    }, columns: (found) => ({ now: null, then: null, more: comparison(found) }),
    run: (_, _reason, options) => put("/strategy", changed(document, draft), options), done: () => { tell("The rules are in force."); again(); },
  }) }, "Put in force…");
  const tryButton = h("button", { type: "button", disabled: true, onclick: () => dryRun() }, "Try on what happened");
  function look() {
    const found = differences(document, draft);
    show(differing, found.length ? comparison(found) : h("p", { class: "soft" }, "The form has the rules in force."));
    const hasTried = tried === JSON.stringify(draft);
    tryButton.disabled = !found.length;
    force.disabled = !found.length || !(hasTried || without.checked);
  }
  const comparison = (found) => found.length ? table("What changes", [["Rule", ([name]) => h("code", {}, name)], ["Now", ([, now]) => shown(now)], ["Then", ([, , then]) => shown(then)]], found) : h("p", {}, "Nothing changes.");

  const gone = new AbortController();
  leave(() => gone.abort());
  async function dryRun() {
    const body = JSON.stringify(draft);
    show(trouble);
    tryButton.disabled = true;
    try {
      let run = await post("/strategy/dry-run", { strategy: changed(document, JSON.parse(body)) }, { signal: gone.signal });
      const bar = h("progress", { max: 1, value: 0, "aria-label": "Dry run" });
      const count = h("p", { role: "status" });
      show(result, bar, count, h("button", { type: "button", onclick: () => remove(path`/strategy/dry-run/${run.id}`).catch((fault) => show(trouble, failure(fault))) }, "Stop"));
      while (run.state === "running") {
        bar.max = Math.max(run.journal.of, 1);
        bar.value = run.journal.read;
        show(count, `${run.journal.read.toLocaleString("en")} of ${counted(run.journal.of, "call")}`);
        await new Promise((resolve) => setTimeout(resolve, pollMilliseconds));
        if (gone.signal.aborted) return;
        run = await get(path`/strategy/dry-run/${run.id}`, {}, { signal: gone.signal, isUse: false });
      }
      if (run.state === "done") { tried = body; show(result, outcome(run.difference)); }
      else show(result, h("p", {}, run.state === "stopped" ? "The dry run is stopped. It shows nothing." : ["The dry run failed: ", shown(run.reason)]));
    } catch (problem) { if (!gone.signal.aborted) show(trouble, failure(problem)); }
    look();
  }

  const versions = paged("Versions, the newest first", [
    ["Version", (one) => String(one.version)], ["Since", (one) => moment(one.at)], ["Key", (one) => shown(one.key)],
    ["Rules", (one) => h("button", { class: "plain", type: "button", onclick: () => open(`Version ${one.version}`, [comparison(differences(one.document, document)), json(one.document)]) }, "compare")],
    ["Do", (one) => may.administer && one.version !== version ? h("button", { class: "plain", type: "button", "aria-label": `Roll back to version ${one.version}`, onclick: () => change({
      title: `Roll back to version ${one.version}`, verb: "Roll back", takesReason: false, note: "This makes a new version that equals the earlier version.",
      dry: async () => differences(await get("/strategy"), one.document), columns: (found) => ({ now: null, then: null, more: comparison(found) }),
      run: (_, _reason, options) => post("/strategy/rollback", { version: one.version }, options), done: () => { tell("The earlier rules are in force."); again(); },
    }) }, "roll back…") : null],
  ], async (cursor, signal) => {
    const page = await get("/strategy/versions", { cursor }, { signal });
    return { rows: page.versions, next: page.next_cursor };
  }, empty("No version yet."));

  show(place, h("p", {}, `Version ${version} is in force.`, unmatched && Object.keys(unmatched).length
    ? [" ", h("span", { class: "look" }, "Calls since the start named types that the hierarchy does not have: ", shown(Object.entries(unmatched).map(([type, calls]) => `${type} (${calls})`).join(", ")), ".")] : null),
  h("div", { class: "two" }, h("section", { "aria-label": "Form" }, fields), h("section", {}, h("label", { for: "rules-json" }, "The same as JSON"), text, fault,
    differing, may.administer ? [h("div", { class: "row" }, tryButton, force, h("label", { class: "inline" }, without, "without trying")), result, trouble] : null)),
  h("h2", {}, "Versions"), versions);
  text.value = JSON.stringify(draft, null, 2);
  form();
  look();
}

function outcome(difference) {
  const { calls, people, access, samples, exact, unknown, erased } = difference;
  const byRule = (counts) => Object.entries(counts ?? {}).map(([rule, count]) => `${rule} ${count.toLocaleString("en")}`).join(", ") || "none";
  const ruled = (title, rows) => rows?.length ? long(title, [["Rule", (sample) => shown(sample.rule)], ["Call", (sample) => shown(sample.call ?? "not in the journal")], ["What", (sample) => shown(sample.kind)],
    ["When", (sample) => moment(sample.at)], ["Found by", (sample) => shown(sample.explain?.ground)]], rows, null) : null;
  const names = { unordered: "calls of several servers without an order", repeats: "repeated calls", before_log: "calls from before the log", gap_seconds: "seconds before a server was killed", blocked_values: "calls with blocked values", hash_only: "calls with values that nobody held", unreadable: "unreadable calls" };
  const missing = Object.entries(unknown ?? {}).filter(([, count]) => count).map(([name, count]) => `${count.toLocaleString("en")} ${names[name] ?? name}`);
  return [h("h3", {}, "What would have been different"), facts([
    ["Calls made again", calls.made_again.toLocaleString("en")], ["Answered with another person", calls.elsewhere.toLocaleString("en")], ["Refused", calls.refused.toLocaleString("en")],
    ["People now", people.now.toLocaleString("en")], ["People then", people.then.toLocaleString("en")], ["Split", people.split.toLocaleString("en")], ["Joined", people.joined.toLocaleString("en")],
    ["Exact", exact ? "yes: all calls are known" : `no: ${missing.join(", ")}`],
    ["Merges by rules", byRule(difference.merged_by_rule)], ["Groups kept apart", byRule(difference.kept_apart)], ["Refused, by reason", byRule(difference.refused)],
    ["Stand-ins", (difference.stand_ins ?? 0).toLocaleString("en")], ["Neutral people of devices", (difference.neutral ?? 0).toLocaleString("en")],
    ["Erased people, left out", `${(erased?.people ?? 0).toLocaleString("en")} with ${counted(erased?.calls ?? 0, "call")}`],
    ["Access of people that changes", (people.access_moved ?? 0).toLocaleString("en")],
  ]), samples.split?.length ? long("People that would be several", [["Person", (sample) => personLink(sample.person)], ["Made by calls", (sample) => shown(sample.made_by.join(", "))]], samples.split, null) : null,
  samples.joined?.length ? long("People that would be one", [["People", (all) => all.map((one) => [personLink(one), " "])]], samples.joined, null) : null,
  samples.elsewhere?.length ? long("Calls with another answer", [["Call", (sample) => shown(String(sample.call))], ["What", (sample) => shown(sample.kind)], ["Person", (sample) => personLink(sample.person)],
    ["Instead", (sample) => shown(sample.instead, "id")]], samples.elsewhere, null) : null,
  ruled("Merges by rules", samples.merged_by_rule), ruled("Groups that rules keep apart", samples.kept_apart), ruled("Calls that would be refused", samples.refused),
  ruled("Stand-ins", samples.stand_ins), ruled("Neutral people", samples.neutral),
  access ? h("details", {}, h("summary", {}, "All numbers"), json(difference)) : null];
}

