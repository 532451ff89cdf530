// Bars: numbers for each day, as places on a picture.

/** The names of the last days in UTC, the oldest first. */
export function days(count, now) {
  return Array.from({ length: count }, (_, place) =>
    new Date(now - (count - 1 - place) * 86_400_000).toISOString().slice(0, 10));
}

/** Counts moments per day. */
export function perDay(names, moments) {
  const counts = new Map(names.map((name) => [name, 0]));
  for (const at of moments) {
    const day = String(at).slice(0, 10);
    if (counts.has(day)) counts.set(day, counts.get(day) + 1);
  }
  return [...counts];
}

/** Computes bars; each has a width of one at least, and a day without anything has no height. */
export function bars(counts, width, height) {
  const most = counts.reduce((most, [, number]) => Math.max(most, number), 1);
  const step = width / Math.max(counts.length, 1);
  return counts.map(([day, number], place) => {
    const tall = number === 0 ? 0 : Math.max(2, Math.round(number / most * height));
    return { day, number, x: Math.round(place * step), y: height - tall, width: Math.max(1, Math.floor(step) - 1), height: tall };
  });
}
