import assert from "node:assert/strict";
import { test } from "node:test";

const files = process.env.CONSOLE_FILES;
const { places } = await import(`${files}/layout.js`);

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

