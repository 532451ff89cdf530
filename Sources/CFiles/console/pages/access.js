// What a person may use, and why; grants of access, and purchases that move to another user.

import { get, may, path, post, remove } from "../api.js";
import { h, moment, shown, tell } from "../h.js";
import { change, open } from "../dialog.js";
import { empty, filled, table } from "../list.js";

const endings = {
  expired: "it ended", refunded: "the store paid the money back", transferred: "it was moved to another user",
  replaced: "a later purchase took its place", other_identity: "it belongs to another identity of the app",
};

const until = (iso) => iso ? ["until ", moment(iso)] : "without an end";

/** The access of a person, for the first page of the person. */
export function access(profile, again) {
  const canAct = may.act && !profile.at;
  return filled(3, async (signal) => {
    const { access: active, ended } = await get(path`/people/${profile.root}/access`, { at: profile.at }, { signal });
    const why = (reason) => h("li", {}, reason.kind === "grant" ? "a grant" : [reason.kind === "shared" ? "a purchase with several owners: " : "purchase ", shown(reason.product), " ", shown(reason.store_account, "id")],
      " of ", shown(reason.principal, "id"), ", since ", moment(reason.since), ", ", until(reason.until),
      reason.moved_by ? [", moved here by ", h("code", {}, shown(reason.moved_by))] : null);
    const grantOf = (one) => one.because.find((reason) => reason.kind === "grant");
    return [
      active.length ? table("Active now", [
        ["Entitlement", (one) => h("strong", {}, shown(one.entitlement))], ["Until", (one) => one.until ? moment(one.until) : "no end"],
        ["Because of", (one) => h("ul", { class: "plain" }, one.because.map(why))],
        ["Do", (one) => canAct && grantOf(one) ? h("button", { class: "plain", type: "button", "aria-label": `End the grant of ${one.entitlement}`, onclick: () => endGrant(grantOf(one).member, one.entitlement, again) }, "end the grant…") : null],
      ], active, { hidden: true }) : empty("No entitlement is active. Purchases and grants give entitlements."),
      ended.length ? table("Not active", [
        ["Entitlement", (one) => shown(one.entitlement)], ["Why not", (one) => [endings[one.why] ?? shown(one.why), " ", h("code", { class: "soft" }, one.why)]],
        ["When", (one) => moment(one.at)], ["Purchase", (one) => one.transaction ? [shown(one.product), " ", shown(one.transaction, "id")] : "a grant"],
        ["Now with", (one) => one.to.length ? one.to.slice(0, 5).map((name) => [shown(name, "id"), " "]) : "–"],
      ], ended) : null,
    ];
  });
}

const entries = (all) => all.length ? h("ul", { class: "plain" }, all.map((one) => h("li", {}, shown(one.entitlement), " ", until(one.until)))) : "No entitlement.";

const accessColumns = (result) => ({
  now: h("div", {}, h("p", {}, "User ", shown(result.principal, "id")), entries(result.now)), then: entries(result.then),
});

/** The moment in a field, as the server reads it. The server says what is wrong with a text that is no time. */
function time(text) {
  const date = new Date(text.trim());
  return Number.isNaN(date.getTime()) ? text.trim() : date.toISOString();
}

export function grant(profile, again) {
  const body = ({ entitlement, until: end }, reason) =>
    ({ entitlement: entitlement.trim(), ...end.trim() && { until: time(end) }, ...reason && { reason } });
  change({
    title: "Grant access", verb: "Grant",
    note: "The person may use the entitlement without a purchase. A grant that is still active stays as it is.",
    fields: [
      { name: "entitlement", label: "Entitlement", help: "The id of the entitlement, such as pro." },
      { name: "until", label: "Until", help: "A time such as 2027-01-31T00:00:00Z. Without it, the grant has no end.", optional: true },
    ],
    dry: (values, signal) => post(path`/people/${profile.id}/grants`, body(values), { query: { dry_run: true }, signal }),
    columns: accessColumns,
    run: (values, reason, options) => post(path`/people/${profile.id}/grants`, body(values, reason), options),
    done: (result) => { tell(`${result.entitlement} is granted.`); again(); },
  });
}

function endGrant(member, entitlement, again) {
  change({
    title: "End a grant", verb: "End the grant", note: "Purchases stay. A person who has the entitlement by a purchase too keeps it.",
    dry: (_, signal) => remove(path`/people/${member}/grants/${entitlement}`, { query: { dry_run: true }, signal }), columns: accessColumns,
    run: (_, reason, options) => remove(path`/people/${member}/grants/${entitlement}`, { body: { reason }, ...options }),
    done: () => { tell("The grant has ended."); again(); },
  });
}

const names = (all) => all.length ? all.map((name) => [shown(name, "id"), h("br")]) : "Nobody owns it.";

/** The columns of a move of purchases: their owners before and after it. */
const moveColumns = (result) => {
  const side = (which) => h("div", {}, result.transactions.map((one) => h("p", {}, shown(one.product_id), " ", shown(one.transaction_id, "id"), h("br"), names(one[which]))));
  return { now: side("from"), then: side("to") };
};

/** The dialog that moves a purchase: from the list of purchases, or by a transaction that support has been told. */
export function move(transaction, to, again) {
  const body = (values, reason) => ({ transaction: values.transaction.trim(), to: values.to.trim(), ...reason && { reason } });
  change({
    title: "Move a purchase", verb: "Move the purchase",
    note: "The purchase then belongs to the new owner alone. A later restore of the store's account may move it again.",
    fields: [
      { name: "transaction", label: "Purchase", value: transaction, help: "The original transaction, or the store before it: playstore:TOKEN." },
      { name: "to", label: "New owner", value: to, help: "A person that is signed in with an identity of the app, in any form: access_identity:ada." },
    ],
    dry: (values, signal) => post("/transfers", body(values), { query: { dry_run: true }, signal }),
    columns: moveColumns,
    run: (values, reason, options) => post("/transfers", body(values, reason), options),
    done: (result) => {
      again();
      if (!result.id) { tell("The purchase belonged to this user already."); return; }
      const close = open("The purchase has moved", h("p", {}, "Transfer ", shown(result.id, "id"), ". The undo gives the purchase back to its former owners."),
        [h("button", { type: "button", onclick: () => { close(); undoMove(result.id, again); } }, "Undo…")]);
    },
  });
}

export function undoMove(transfer, again) {
  change({
    title: `Undo the transfer ${transfer}`, verb: "Undo the transfer", takesReason: false,
    dry: (_, signal) => post(path`/transfers/${transfer}/undo`, {}, { query: { dry_run: true }, signal }), columns: moveColumns,
    run: (_, _reason, options) => post(path`/transfers/${transfer}/undo`, {}, options),
    done: () => { tell("The purchase is back with its former owners."); again(); },
  });
}
