// Tracks of a time line: one for each member, joined by merges.

/** The greatest number of tracks; the members after the last share one. */
export const tracksAtMost = 12;
const near = 6;
const isMoment = (at) => Number.isFinite(Date.parse(at));

/**
 * Computes tracks, marks and joins for a width. `rows` are {at, origin, count?}, `merges` are {from, into, at, undone_at}. A person of an
 * undone merge that is no member has a track for the time of the merge.
 */
export function tracks(members, rows, merges, width, rowHeight = 30) {
  const shown = members.length > tracksAtMost ? members.slice(0, tracksAtMost - 1) : members;
  const others = members.length > shown.length ? 1 : 0;
  const former = merges.filter((merge) => isMoment(merge.at) && isMoment(merge.undone_at)).flatMap((merge) => [merge.from, merge.into].filter((person) => !members.includes(person))
    .map((member) => ({ member, from: merge.at, until: merge.undone_at }))).slice(0, tracksAtMost - shown.length - others);
  const line = (member, at) => {
    const place = shown.indexOf(member), left = former.findIndex((one) => one.member === member && one.from === at);
    return place >= 0 ? place : left >= 0 ? shown.length + others + left : shown.length;
  };
  const height = (shown.length + others + former.length) * rowHeight;
  const moments = [...rows.map((row) => row.at), ...merges.flatMap((merge) => [merge.at, merge.undone_at ?? merge.at])].map(Date.parse).filter(Number.isFinite);
  const from = moments.length ? moments.reduce((a, b) => Math.min(a, b)) : 0;
  const until = moments.length ? moments.reduce((a, b) => Math.max(a, b)) : 1;
  const span = Math.max(until - from, 1);
  const x = (at) => Math.round(10 + (Date.parse(at) - from) / span * (width - 20));
  const middle = (place) => place * rowHeight + rowHeight / 2;
  const marks = [];
  for (const row of rows.toSorted((a, b) => Date.parse(a.at) - Date.parse(b.at))) {
    if (!isMoment(row.at)) continue;
    const place = line(row.origin), spot = x(row.at);
    const last = marks.findLast((mark) => mark.line === place);
    if (last && spot - last.x < near) { last.count += row.count ?? 1; last.until = row.at; } else {
      marks.push({ line: place, x: spot, y: middle(place), count: row.count ?? 1, from: row.at, until: row.at });
    }
  }
  return {
    width, height: Math.max(height, rowHeight), from, until, marks,
    lines: [...shown.map((member, place) => ({ member, x: 0, end: width, y: middle(place) })),
      ...(others ? [{ member: null, count: members.length - shown.length, x: 0, end: width, y: middle(shown.length) }] : []),
      ...former.map((one, place) => ({ member: one.member, x: x(one.from), end: x(one.until), y: middle(shown.length + others + place), isUndone: true }))],
    joins: merges.filter((merge) => isMoment(merge.at) && line(merge.from, merge.at) !== line(merge.into, merge.at)).flatMap((merge) => {
      const join = { from: middle(line(merge.from, merge.at)), into: middle(line(merge.into, merge.at)), isUndone: Boolean(merge.undone_at), merge };
      return [merge.at, merge.undone_at].filter(isMoment).map((at) => ({ ...join, x: x(at) }));
    }),
  };
}
