import assert from "node:assert/strict";
import { test } from "node:test";

const files = process.env.CONSOLE_FILES;
const { collapse, places, nodesAtMost } = await import(`${files}/layout.js`);

const run = (nodes, edges) => {
  const work = places(nodes, edges);
  for (;;) { const { done, value } = work.next(); if (done) return value; }
};
const person = (id) => ({ id, kind: "person" });
const identity = (id) => ({ id, kind: "identity" });
const link = (from, to) => ({ fact: "link", from, to, call: 1 });

test("The same graph has the same places", () => {
  const nodes = [person("1"), person("2"), identity("email:a"), identity("customerid:b")];
  const edges = [link("email:a", "1"), link("customerid:b", "2"), { fact: "merge", from: "1", to: "2", call: 2 }];
  assert.deepEqual([...run(nodes, edges)], [...run(nodes, edges)]);
});

test("No two nodes have one place, and linked nodes are near", () => {
  const nodes = [person("1"), ...Array.from({ length: 30 }, (_, place) => identity(`t${place}:x`))];
  const at = run(nodes, nodes.slice(1).map((node) => link(node.id, "1")));
  assert.equal(new Set([...at.values()].map(String)).size, nodes.length);
  for (const [x, y] of at.values()) assert.ok(Number.isInteger(x) && Number.isInteger(y) && Math.hypot(x, y) < 1000);
});

test("More than three identities of a type become one node, with all of them behind it", () => {
  const identities = Array.from({ length: 412 }, (_, place) => identity(`ios_idfv:${place}`));
  const { nodes, edges } = collapse([person("1"), ...identities], identities.map((node) => link(node.id, "1")));
  const group = nodes.find((node) => node.kind === "group");
  assert.equal(nodes.length, 2);
  assert.equal(group.count, 412);
  assert.equal(group.items.length, 412);
  assert.equal(edges.length, 1);
});

test("Three identities of a type stay as they are", () => {
  const identities = ["a", "b", "c"].map((value) => identity(`email:${value}`));
  assert.equal(collapse([person("1"), ...identities], identities.map((node) => link(node.id, "1"))).nodes.length, 4);
});

test("An identity of two people is a node of its own", () => {
  const shared = identity("ios_idfv:tablet");
  const { nodes } = collapse([person("1"), person("2"), shared], [link(shared.id, "1"), link(shared.id, "2")]);
  assert.ok(nodes.includes(shared));
});

test("Members beyond the fortieth become one node", () => {
  const people = Array.from({ length: 400 }, (_, place) => person(String(place)));
  const { nodes } = collapse(people, people.slice(1).map((one) => ({ fact: "merge", from: one.id, to: "0", call: Number(one.id) })));
  assert.equal(nodes.length, 41);
  assert.equal(nodes.at(-1).count, 360);
});

test("The drawing has a limit, and says what it leaves out", () => {
  const nodes = [person("1"), ...Array.from({ length: 500 }, (_, place) => identity(`t${place}:x`))];
  const { nodes: kept, hidden } = collapse(nodes, nodes.slice(1).map((node) => link(node.id, "1")));
  assert.equal(kept.length, nodesAtMost);
  assert.equal(hidden, 501 - nodesAtMost);
});
