import assert from "node:assert/strict";
import { test } from "node:test";

const files = process.env.CONSOLE_FILES;
const { bars, sum } = await import(`${files}/plot.js`);
const { tracks, tracksAtMost } = await import(`${files}/tracks.js`);

test("The number of a day is a number, or the sum of its parts", () => {
  assert.deepEqual([sum(3), sum({ claim: 1, administrator: 2 }), sum({}), sum(undefined)], [3, 3, 0, 0]);
});

test("The tallest bar fills the height, a small number is seen, and none has no bar", () => {
  const [most, few, none] = bars([["a", 1000], ["b", 1], ["c", 0]], 30, 50);
  assert.equal(most.height, 50);
  assert.equal(few.height, 2);
  assert.equal(none.height, 0);
  assert.ok(bars([], 30, 50).length === 0);
});

const row = (at, origin) => ({ at: new Date(at).toISOString(), origin });

test("Marks closer than six pixels become a count", () => {
  const drawing = tracks(["1"], [row(0, "1"), row(1, "1"), row(1000, "1")], [], 500);
  assert.deepEqual(drawing.marks.map((mark) => mark.count), [2, 1]);
});

test("A mark stands on the track of its member", () => {
  const drawing = tracks(["1", "2"], [row(0, "2"), row(1000, "1")], [], 500);
  const line = (member) => drawing.lines.find((line) => line.member === member).y;
  assert.deepEqual(drawing.marks.map((mark) => mark.y), [line("2"), line("1")]);
});

test("Members after the last track share one", () => {
  const members = Array.from({ length: 50 }, (_, place) => String(place));
  const drawing = tracks(members, members.map((member, place) => row(place * 1000, member)), [], 500);
  assert.equal(drawing.lines.length, tracksAtMost);
  assert.equal(drawing.lines.at(-1).count, 50 - tracksAtMost + 1);
});

test("A merge joins two tracks from its moment on, and an undone merge is marked at its begin and its undo", () => {
  const merges = [{ from: "2", into: "1", at: new Date(500).toISOString() },
    { from: "2", into: "1", at: new Date(700).toISOString(), undone_at: new Date(900).toISOString() }];
  const { joins } = tracks(["1", "2"], [row(0, "1"), row(1000, "2")], merges, 500);
  assert.deepEqual(joins.map((join) => [join.from > join.into, join.isUndone]), [[true, false], [true, true], [true, true]]);
  assert.ok(joins[0].x > 200 && joins[0].x < 300);
  assert.ok(joins[0].x < joins[1].x && joins[1].x < joins[2].x);
});

test("A person of an undone merge has a track from the merge to its undo", () => {
  const merge = (at, undone) => ({ from: "2", into: "1", at: new Date(at).toISOString(), undone_at: undone });
  const { lines, joins } = tracks(["1"], [row(0, "1"), row(1000, "1")], [merge(200, new Date(600).toISOString())], 500);
  assert.deepEqual(lines.map((line) => [line.member, Boolean(line.isUndone)]), [["1", false], ["2", true]]);
  assert.deepEqual(joins.map((join) => join.x), [lines[1].x, lines[1].end]);
  assert.equal(tracks(["1"], [row(0, "1")], [merge(200, "nonsense")], 500).lines.length, 1);
});

test("A span of time counts as many rows as it has", () => {
  const { marks } = tracks(["1"], [{ ...row(0, "1"), count: 40 }, { ...row(1, "1"), count: 2 }, row(10_000, "1")], [], 500);
  assert.deepEqual(marks.map((mark) => mark.count), [42, 1]);
});

test("No rows and damaged times make an empty drawing", () => {
  assert.equal(tracks([], [], [], 500).marks.length, 0);
  assert.equal(tracks(["1"], [{ at: "nonsense", origin: "1" }], [], 500).marks.length, 0);
});
