// Bars: numbers for each day, as places on a picture.

/** The number of a day: the number itself, or the sum of its parts. */
export const sum = (value) => typeof value === "number" ? value : Object.values(value ?? {}).reduce((all, number) => all + number, 0);

/** Computes bars; each has a width of one at least, and a day without anything has no height. */
export function bars(counts, width, height) {
  const most = counts.reduce((most, [, number]) => Math.max(most, number), 1);
  const step = width / Math.max(counts.length, 1);
  return counts.map(([day, number], place) => {
    const tall = number === 0 ? 0 : Math.max(2, Math.round(number / most * height));
    return { day, number, x: Math.round(place * step), y: height - tall, width: Math.max(1, Math.floor(step) - 1), height: tall };
  });
}
