// Tracks of a time line: one for each member, joined by merges.

/** The greatest number of tracks; the members after the last share one. */
export const tracksAtMost = 12;
const near = 6;

/** Computes tracks, marks and joins for a width. `rows` are {at, origin, count?}, `merges` are {from, into, at, undone_at}. */
export function tracks(members, rows, merges, width, rowHeight = 30) {
  const shown = members.length > tracksAtMost ? members.slice(0, tracksAtMost - 1) : members;
  const line = (member) => { const place = shown.indexOf(member); return place < 0 ? shown.length : place; };
  const height = (shown.length + (members.length > shown.length ? 1 : 0)) * rowHeight;
  const moments = [...rows.map((row) => Date.parse(row.at)), ...merges.map((merge) => Date.parse(merge.at))].filter(Number.isFinite);
  const from = moments.length ? moments.reduce((a, b) => Math.min(a, b)) : 0;
  const until = moments.length ? moments.reduce((a, b) => Math.max(a, b)) : 1;
  const span = Math.max(until - from, 1);
  const x = (at) => Math.round(10 + (Date.parse(at) - from) / span * (width - 20));
  const middle = (place) => place * rowHeight + rowHeight / 2;
  const marks = [];
  for (const row of rows.toSorted((a, b) => Date.parse(a.at) - Date.parse(b.at))) {
    if (!Number.isFinite(Date.parse(row.at))) continue;
    const place = line(row.origin), spot = x(row.at);
    const last = marks.findLast((mark) => mark.line === place);
    if (last && spot - last.x < near) { last.count += row.count ?? 1; last.until = row.at; } else {
      marks.push({ line: place, x: spot, y: middle(place), count: row.count ?? 1, from: row.at, until: row.at });
    }
  }
  return {
    width, height: Math.max(height, rowHeight), from, until, marks,
    lines: [...shown.map((member, place) => ({ member, y: middle(place) })),
      ...(members.length > shown.length ? [{ member: null, count: members.length - shown.length, y: middle(shown.length) }] : [])],
    joins: merges.filter((merge) => Number.isFinite(Date.parse(merge.at)) && line(merge.from) !== line(merge.into)).map((merge) => ({
      x: x(merge.at), from: middle(line(merge.from)), into: middle(line(merge.into)), isUndone: Boolean(merge.undone_at), merge,
    })),
  };
}
