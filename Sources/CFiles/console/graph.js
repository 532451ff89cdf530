// The drawing of a graph: people are squares, identities are circles, and lines are facts.

import { counted, h, moment, plain, show, shown } from "./h.js";
import { laidOut } from "./layout.js";
import { empty, facts, long, paged, twin } from "./list.js";
import { get, path } from "./api.js";
import { open } from "./dialog.js";

const rootMargin = 60;
const labelCharacters = 22;
const personAddress = (id) => `#/person/${encodeURIComponent(id)}`;
const explainAddress = (a, b) => `#/explain?a=${encodeURIComponent(a.toWellFormed())}&b=${encodeURIComponent(b.toWellFormed())}`;
const short = (text) => { const all = plain(text); return all.length > labelCharacters ? `${all.slice(0, labelCharacters - 1)}…` : all; };
const name = (node) => node.kind === "group" ? `${node.type} ×${node.count}` : node.id;

/** The members or the identities that one node stands for. */
const behind = (node, root, at) => node.holder === null
  ? paged("Members", [["Person", (one) => h("a", { href: personAddress(one) }, shown(one, "id"))]], async (cursor, signal) => {
    const page = await get(path`/people/${root}`, { at, limit: 100, cursor }, { signal });
    return { rows: page.members, next: page.next_cursor };
  }, null)
  : paged(counted(node.count, "identity", "identities"), [["Value", (one) => shown(one.value)], ["Since", (one) => moment(one.since)]], async (cursor, signal) => {
    const page = await get(path`/people/${root}/identities`, { type: node.type, holder: node.holder, limit: 100, cursor }, { signal });
    return { rows: page.identities, next: page.next_cursor };
  }, null);

/** Draws a graph; answers the picture with its table, and a place for what two chosen nodes have in common. */
export async function drawGraph({ nodes, edges, hidden }, { signal, undo, at: then }) {
  if (!nodes.length) return empty("There is nothing to draw.");
  const at = await laidOut(nodes, edges, signal);
  if (at.size === 0) return null;
  const chosen = [];
  const note = h("p", { role: "status" }, "Choose two nodes (Shift and a click, or Shift and Enter) to ask why they are one person, or why not.");
  const choose = (id) => {
    const place = chosen.indexOf(id);
    if (place >= 0) chosen.splice(place, 1); else chosen.push(id);
    if (chosen.length > 2) chosen.shift();
    for (const element of svg.querySelectorAll("g[data-node]")) element.toggleAttribute("data-chosen", chosen.includes(element.dataset.node));
    show(note, chosen.length === 2 ? h("a", { href: explainAddress(...chosen) }, "Why, or why not?") : chosen.length === 1 ? ["Chosen: ", shown(chosen[0])] : "Choose two nodes.");
  };
  const openNode = (node) => {
    if (node.kind === "person") location.hash = personAddress(node.id);
    else if (node.kind === "group") open(name(node), behind(node, nodes.find((one) => one.root).id, then));
    else panel(edges.find((edge) => edge.from === node.id || edge.to === node.id));
  };
  const panel = (edge) => {
    if (!edge) return;
    const several = nodes.find((node) => node.kind === "group" && node.id === edge.from);
    if (several) { openNode(several); return; }
    const end = undo(edge);
    open(`${edge.fact[0].toUpperCase()}${edge.fact.slice(1)}`, facts([["From", shown(edge.from)], ["To", shown(edge.to)], ["Since", moment(edge.at)], edge.undone_at ? ["Undone", moment(edge.undone_at), ` by call ${edge.undone_by}`] : null,
      ["Call", shown(edge.call === null || edge.call === undefined ? null : String(edge.call))], ["Key", shown(edge.key)], ["Rule", shown(edge.rule)], ["Request", h("code", {}, shown(edge.request_id))],
      ["Chain", h("a", { href: explainAddress(edge.from, edge.to) }, "explain")]]), end ? [h("button", { type: "button", onclick: end }, "Undo…")] : []);
  };
  const all = [...at.values()];
  const low = [0, 1].map((axis) => all.reduce((least, spot) => Math.min(least, spot[axis]), Infinity) - rootMargin);
  const high = [0, 1].map((axis) => all.reduce((most, spot) => Math.max(most, spot[axis]), -Infinity) + rootMargin);
  const svg = h("svg", { viewBox: `${low[0] - 40} ${low[1]} ${high[0] - low[0] + 80} ${high[1] - low[1]}`, css: { height: `${Math.min(640, Math.max(280, high[1] - low[1]))}px`, width: "100%" },
    role: "group", "aria-label": `Graph of ${counted(nodes.length, "node")} and ${counted(edges.length, "line")}` });
  const active = (attributes, act, label, ...children) => h("g", { ...attributes, tabindex: 0, role: "button", "aria-label": label,
    onclick: act, onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(event); } } }, children);
  for (const edge of edges) {
    const [x1, y1] = at.get(edge.from), [x2, y2] = at.get(edge.to);
    const undone = edge.undone_at ? " undone" : "";
    const spot = { x1, y1, x2, y2 };
    svg.append(active({}, () => panel(edge), `${edge.fact} from ${plain(edge.from)} to ${plain(edge.to)}`,
      h("line", { class: `edge ${edge.fact}${undone}`, ...spot }), edge.fact === "merge" ? h("line", { class: `merge-inner${undone}`, ...spot }) : null,
      h("line", { ...spot, stroke: "transparent", "stroke-width": 14 }),
      edge.fact === "refused" ? h("text", { x: (x1 + x2) / 2 - 5, y: (y1 + y2) / 2 + 5 }, "✕") : null));
  }
  for (const node of nodes) {
    const [x, y] = at.get(node.id);
    const shape = node.kind === "person"
      ? h("rect", { class: node.member === false ? "person outside" : "person", x: x - 15, y: y - 15, width: 30, height: 30, rx: 4 })
      : h("circle", { class: node.kind === "group" ? "group" : "identity", cx: x, cy: y, r: node.kind === "group" ? 17 : 12 });
    svg.append(active({ "data-node": node.id }, (event) => { if (event.shiftKey && node.kind !== "group") choose(node.id); else openNode(node); },
      `${node.kind} ${plain(name(node))}`, shape, h("text", { x, y: y + 30, "text-anchor": "middle" }, short(name(node)))));
  }
  const makeTable = () => [long("Nodes", [
    ["Node", (node) => node.kind === "person" ? h("a", { href: personAddress(node.id) }, shown(node.id, "id")) : node.kind === "group"
      ? h("button", { class: "plain", type: "button", onclick: () => openNode(node) }, name(node)) : shown(node.id)],
    ["Kind", (node) => node.kind === "person" ? (node.root ? "person, root" : node.member === false ? "person outside the group" : "person") : node.kind === "group" ? "several" : "identity"],
    ["Choose", (node) => node.kind === "group" ? null : h("label", { class: "inline" }, h("input", { type: "checkbox", checked: chosen.includes(node.id),
      onchange: (event) => { choose(node.id); if (!chosen.includes(node.id)) event.target.checked = false; } }), "choose")],
  ], nodes, null, { step: 60 }), long("Lines", [
    ["Fact", (edge) => h("button", { class: "plain", type: "button", onclick: () => panel(edge) }, edge.fact)], ["From", (edge) => shown(labelOf(edge.from))], ["To", (edge) => shown(labelOf(edge.to))],
    ["Since", (edge) => moment(edge.at)], ["Undone", (edge) => moment(edge.undone_at)], ["Rule", (edge) => shown(edge.rule ?? null)],
  ], edges, null, { step: 60 })];
  const names = new Map(nodes.map((node) => [node.id, name(node)]));
  const labelOf = (id) => names.get(id) ?? id;
  return [hidden ? h("p", { class: "look" }, `The drawing leaves out ${counted(hidden, "node")}.`) : null, note,
    twin("graph", h("div", { class: "picture" }, svg), makeTable)];
}
