// Keys: apps, keys and signing keys. A secret is shown once.

import { get, may, newKey, path, post } from "../api.js";
import { h, moment, show, shown, tell } from "../h.js";
import { change, open, secret } from "../dialog.js";
import { empty, failure, paged } from "../list.js";

const kinds = ["admin", "idsync", "idsync_web", "claim_client", "claim_agent", "claim_import", "entitlements_project", "entitlements_secret", "linking"];
const dialects = ["idsync", "claim", "entitlements", "linking"];

const list = (caption, columns, name, none) => paged(caption, columns, async (cursor, signal) => {
  const page = await get(`/${name}`, { limit: 100, cursor }, { signal });
  return { rows: page[name.replace("-", "_")], next: page.next_cursor };
}, none);

const state = (one) => one.revoked_at ? ["revoked ", moment(one.revoked_at)]
  : one.expires_at && Date.parse(one.expires_at) < Date.now() ? ["expired ", moment(one.expires_at)] : one.expires_at ? ["until ", moment(one.expires_at)] : "in force";

export default async function keys(place, { heading, again }) {
  heading("Keys");
  const revoke = (name, one, verb) => may.administer && !one.revoked_at && !one.retired_at
    ? h("button", { class: "plain", type: "button", "aria-label": `${verb} ${one.name || one.id}`, onclick: () => change({
      title: `${verb}: ${one.name || one.id}`, verb, takesReason: false,
      note: name === "apps" ? "The keys of the app are revoked too. Stored facts stay." : "The server refuses it from its next call on. This has no undo.",
      dry: async (_, signal) => {
        const found = await (async () => {
          let cursor = null;
          do {
            const page = await get(`/${name}`, { limit: 200, cursor }, { signal });
            const match = page[name.replace("-", "_")].find((other) => other.id === one.id);
            if (match) return match;
            cursor = page.next_cursor;
          } while (cursor);
          return null;
        })();
        return found && { id: found.id, name: found.name, ended: found.revoked_at ?? found.retired_at ?? null };
      },
      columns: (found) => ({ now: found?.ended ? "It has ended already." : "It is in force.", then: "It is refused." }),
      run: (_, _reason, options) => post(`${path`/${name}/${one.id}`}/${verb === "Retire" ? "retire" : "revoke"}`, {}, options),
      done: () => { tell("Done."); again(); },
    }) }, `${verb.toLowerCase()}…`) : null;
  show(place, may.administer ? h("div", { class: "row actions" }, h("button", { type: "button", onclick: () => makeKey(again) }, "Make a key…"),
    h("button", { type: "button", onclick: () => makeApp(again) }, "Make an app…")) : null,
  list("Apps", [["App", (one) => shown(one.name)], ["Id", (one) => shown(one.id, "id")], ["Dialect", (one) => shown(one.dialect)], ["Platform", (one) => shown(one.platform)],
    ["Web origins", (one) => one.web_origins.length ? shown(one.web_origins.join(", ")) : "all"], ["Made", (one) => moment(one.made_at)], ["State", state], ["Do", (one) => revoke("apps", one, "Revoke")]], "apps",
  empty("There is no app. Make one to get a key for it.")),
  list("Keys", [["Key", (one) => shown(one.name || one.kind)], ["Id", (one) => shown(one.id, "id")], ["Kind", (one) => shown(one.kind)], ["App", (one) => shown(one.app, "id")],
    ["May", (one) => shown(one.scopes.join(", "))], ["Made", (one) => moment(one.made_at)], ["Last used", (one) => moment(one.last_used)], ["State", state], ["Do", (one) => revoke("keys", one, "Revoke")]], "keys",
  empty("There is no key.")),
  list("Signing keys", [["Signing key", (one) => shown(one.name || one.kid)], ["Kid", (one) => shown(one.kid, "id")], ["Algorithm", (one) => shown(one.algorithm)], ["Made", (one) => moment(one.made_at)],
    ["State", (one) => one.retired_at ? ["retired ", moment(one.retired_at)] : "in force"], ["Do", (one) => revoke("signing-keys", one, "Retire")]], "signing-keys",
  empty("There is no signing key. A back end signs tokens for known users with it.")));
}

function form(title, fields, make, done) {
  const key = newKey();
  const trouble = h("div");
  const close = open(title, h("form", { onsubmit: async (event) => {
    event.preventDefault();
    try {
      const made = await make(key);
      close();
      done(made);
    } catch (fault) { show(trouble, failure(fault)); }
  } }, fields.map(([label, control]) => h("div", { class: "field" }, h("label", { for: control.id }, label), control)), trouble,
  h("div", { class: "row end" }, h("button", { class: "act", type: "submit" }, "Make"))));
}

function makeKey(again) {
  const name = h("input", { id: "key-name" });
  const kind = h("select", { id: "key-kind" }, kinds.map((one) => h("option", { value: one }, one)));
  const app = h("input", { id: "key-app", spellcheck: "false", inputmode: "numeric" });
  form("Make a key", [["Name", name], ["Kind", kind], ["Id of its app; empty for admin and claim_agent", app]], (idempotencyKey) =>
    post("/keys", { kind: kind.value, ...(name.value && { name: name.value }), ...(app.value && { app: app.value.trim() }) }, { idempotencyKey }),
  (made) => { again(); secret("The key", [made.key, made.secret].filter(Boolean).join(" "), "The key is shown now and never again."); });
}

function makeApp(again) {
  const name = h("input", { id: "app-name", required: true });
  const dialect = h("select", { id: "app-dialect" }, dialects.map((one) => h("option", { value: one }, one)));
  form("Make an app", [["Name", name], ["Dialect", dialect]], (idempotencyKey) => post("/apps", { name: name.value, dialect: dialect.value }, { idempotencyKey }),
    (made) => { again(); if (made.app_secret) secret("Secret of the app", made.app_secret, "The secret is shown now and never again."); else tell("The app is made."); });
}
