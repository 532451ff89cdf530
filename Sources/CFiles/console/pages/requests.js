// Requests: what this server answered lately, and what came of one request.

import { get, may, path } from "../api.js";
import { h, id, moment, show, shown } from "../h.js";
import { empty, facts, fill, paged, table } from "../list.js";
import { setQuery } from "../main.js";
import { personLink } from "./changes.js";
import { replay } from "./webhooks.js";

const link = (one) => h("a", { href: `#/requests/${encodeURIComponent(one)}`, class: "id" }, shown(one, "id"));
const status = (one) => h("span", { class: one.status >= 500 ? "bad" : one.status >= 400 ? "look" : "good" }, String(one.status));
const callLink = (seq, person) => seq === null ? shown(null) : person ? h("a", { href: `#/person/${encodeURIComponent(person)}?tab=journal` }, `call ${seq}`) : `call ${seq}`;
const milliseconds = (one) => one.ms < 10 ? one.ms.toFixed(1) : Math.round(one.ms).toLocaleString("en");

export default async function requests(place, { heading, parts, query }) {
  const wanted = parts.join("/").trim();
  heading(wanted ? "Request" : "Requests");
  const box = h("input", { id: "request-id", required: true, value: wanted, spellcheck: "false", autocomplete: "off" });
  const find = h("form", { class: "filters", onsubmit: (event) => {
    event.preventDefault();
    if (box.value.trim()) location.hash = `#/requests/${encodeURIComponent(box.value.trim().toWellFormed())}`;
  } }, h("label", { for: "request-id" }, "Request id (the field X-Request-Id of an answer)", h("br"), box), h("button", { type: "submit" }, "Show"));
  const content = h("div");
  show(place, find, content);
  if (wanted) { await fill(content, 6, async (signal) => one(await get(path`/requests/${wanted}`, {}, { signal }))); return; }
  const list = h("div");
  const load = () => show(list, rows(query));
  const filter = (name, text, help) => h("label", {}, text, h("br"), h("input", { value: query.get(name) ?? "", placeholder: help, spellcheck: "false", onchange: (event) => {
    const value = event.target.value.trim();
    if (value) query.set(name, value); else query.delete(name);
    setQuery({ [name]: value });
    load();
  } }));
  show(content, h("div", { class: "filters" }, filter("status", "Status", "409 or 4xx"), filter("route", "Route", "POST /v1/identify"), filter("key", "Key", "the id of a key"),
    filter("since", "Since", "2026-11-21T09:00:00Z"), h("button", { type: "button", onclick: load }, "Look again")), list);
  load();
}

const rows = (query) => {
  const since = h("p", { class: "soft" });
  return [paged("Requests, the newest first", [
    ["Request", (row) => link(row.request_id)], ["Answered", (row) => moment(row.at)], ["Route", (row) => h("code", {}, shown(row.route))],
    ["Status", (row) => [status(row), row.code ? [" ", h("code", {}, shown(row.code))] : null]], ["Key", (row) => shown(row.key, "id")],
    ["Person", (row) => personLink(row.person)], ["Changed", (row) => callLink(row.seq, row.person)], ["Milliseconds", (row) => milliseconds(row)],
  ], async (cursor, signal) => {
    const page = await get("/requests", { limit: 100, cursor, key: query.get("key"), route: query.get("route"), status: query.get("status"), since: query.get("since") }, { signal });
    show(since, page.kept_since ? ["This server has its requests since ", moment(page.kept_since), ". Another server of the same store has a log of its own."] : "");
    return { rows: page.requests, next: page.next_cursor };
  }, empty("The log has no such request."), { lines: 10 }), since];
};

function one(request) {
  return [facts([
    ["Request", id(request.request_id)], ["Answered", moment(request.at)], ["Route", h("code", {}, shown(request.route))],
    ["Status", status(request), request.code ? [" ", h("code", {}, shown(request.code))] : null], ["Key", shown(request.key, "id")], ["Person", personLink(request.person)],
    ["Time", `${milliseconds(request)} ms`], ["Size", `${request.bytes_in.toLocaleString("en")} bytes in, ${request.bytes_out.toLocaleString("en")} bytes out`],
  ]), h("h2", {}, "What it changed"),
  request.calls.length ? table("Calls of the request", [["Call", (call) => callLink(call.seq, call.person)], ["Kind", (call) => h("code", {}, shown(call.kind))],
    ["Person", (call) => personLink(call.person)], ["Facts", (call) => call.refused ? ["refused: ", h("code", {}, shown(call.refused))] : shown(call.facts.map((fact) => fact.fact.replaceAll("_", " ")).join(", ") || null)]], request.calls)
    : empty("It changed nothing."),
  request.deliveries.length ? [h("h2", {}, "Deliveries"), table("Deliveries to webhooks", [["Webhook", (one) => shown(one.webhook, "id")], ["Call", (one) => String(one.seq)],
    ["State", (one) => h("span", { class: one.state === "parked" ? "look" : null }, one.state)], ["Tries", (one) => String(one.attempts)], ["Last answer", (one) => shown(one.fault)],
    ["Do", (one) => may.act && one.state === "parked" ? replay(one) : null]], request.deliveries)] : null];
}
