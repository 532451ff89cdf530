// Places of a graph's nodes. The same graph always has the same places.

const steps = 200;
const pull = 0.02;
const springs = { link: 60, merge: 120, alias: 120, refused: 120 };

/** Whether a node is a person, or stands for several members. */
const isOfPeople = (node) => node.kind === "person" || node.type === "person";

/** Computes places. A generator, so that a page can draw between slices of time. Answers a map from ids to [x, y]. */
export function* places(nodes, edges) {
  const count = nodes.length;
  const at = new Map(nodes.map((node, place) => [node.id, place]));
  const x = new Float64Array(count), y = new Float64Array(count);
  const people = nodes.filter(isOfPeople);
  const radius = people.length < 2 ? 0 : Math.max(90, people.length * 22);
  people.forEach((node, place) => {
    const angle = 2 * Math.PI * place / people.length - Math.PI / 2;
    x[at.get(node.id)] = radius * Math.cos(angle);
    y[at.get(node.id)] = radius * Math.sin(angle);
  });
  const ties = edges.map((edge) => [at.get(edge.from), at.get(edge.to), springs[edge.fact] ?? springs.link]);
  const holders = nodes.map(() => []);
  const ring = new Map();
  for (const edge of edges) if (edge.fact === "link" || edge.fact === "refused") holders[at.get(edge.from)].push(at.get(edge.to));
  for (const node of nodes) {
    if (isOfPeople(node)) continue;
    const me = at.get(node.id);
    let holding = holders[me];
    if (node.kind === "group") {
      const edge = edges.find((edge) => edge.from === node.id || edge.to === node.id);
      holding = edge ? [at.get(edge.from === node.id ? edge.to : edge.from)] : [];
    }
    if (holding.length === 1) {
      const place = ring.get(holding[0]) ?? 0;
      ring.set(holding[0], place + 1);
      // The golden angle spreads any number of places over a ring.
      const angle = place * 2.399963229728653 + holding[0];
      x[me] = x[holding[0]] + 60 * Math.cos(angle);
      y[me] = y[holding[0]] + 60 * Math.sin(angle);
    } else if (holding.length) {
      x[me] = holding.reduce((sum, one) => sum + x[one], 0) / holding.length + me % 7;
      y[me] = holding.reduce((sum, one) => sum + y[one], 0) / holding.length + me % 5;
    }
  }
  const k = 60, kk = k * k;
  const dx = new Float64Array(count), dy = new Float64Array(count);
  for (let step = 0; step < steps; step += 1) {
    dx.fill(0);
    dy.fill(0);
    for (let a = 0; a < count; a += 1) {
      for (let b = a + 1; b < count; b += 1) {
        let ex = x[a] - x[b], ey = y[a] - y[b];
        let square = ex * ex + ey * ey;
        if (square > 250000) continue;
        if (square < 0.01) { ex = 0.1 * (a - b); ey = 0.1; square = ex * ex + ey * ey; }
        const force = kk / square;
        dx[a] += ex * force; dy[a] += ey * force;
        dx[b] -= ex * force; dy[b] -= ey * force;
      }
    }
    for (const [a, b, length] of ties) {
      const ex = x[b] - x[a], ey = y[b] - y[a];
      const distance = Math.hypot(ex, ey) || 0.1;
      const force = (distance - length) / distance * 0.5;
      dx[a] += ex * force; dy[a] += ey * force;
      dx[b] -= ex * force; dy[b] -= ey * force;
    }
    const longest = 12 * 0.985 ** step;
    for (let a = 0; a < count; a += 1) {
      const ex = dx[a] - x[a] * pull, ey = dy[a] - y[a] * pull;
      const distance = Math.hypot(ex, ey);
      if (distance === 0) continue;
      const size = Math.min(distance, longest) / distance;
      x[a] += ex * size;
      y[a] += ey * size;
    }
    yield;
  }
  return new Map(nodes.map((node, place) => [node.id, [Math.round(x[place]), Math.round(y[place])]]));
}

// A slice ends with the step in which its time ends, so it takes a little more than this: 8 ms are allowed.
const sliceMilliseconds = 6;

/** Computes places in slices, so that the page stays responsive. */
export async function laidOut(nodes, edges, signal) {
  const work = places(nodes, edges);
  for (;;) {
    const end = performance.now() + sliceMilliseconds;
    do {
      const { done, value } = work.next();
      if (done) return value;
    } while (performance.now() < end);
    await new Promise((resolve) => setTimeout(resolve));
    if (signal?.aborted) return new Map();
  }
}
