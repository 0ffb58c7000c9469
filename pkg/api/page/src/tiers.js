// SPDX-License-Identifier: Apache-2.0
// Places vertices in tiers: in the order of their names where that crosses no more links than another order, each above
// the middle of what hangs on it.

const natural = new Intl.Collator('en', { numeric: true });

/** The order of names as people count: h2 before h10. */
export const byName = (a, b) => natural.compare(a.name, b.name) || natural.compare(a.id, b.id);

const sweeps = 6;
const mostEdges = 2500; // of which crossings are counted

/**
 * The vertices of each tier, from the top, in order. @param {object[]} vertices @param {[object, object][]} edges between them
 * @param {Map<object, number>} rank @returns {object[][]}
 */
export function ordered(vertices, edges, rank) {
  const ranks = [...new Set(vertices.map((v) => rank.get(v)))].sort((a, b) => a - b);
  let tiers = ranks.map((r) => vertices.filter((v) => rank.get(v) === r).sort(byName));
  if (edges.length > mostEdges) return tiers;
  const next = new Map(vertices.map((v) => [v, []]));
  for (const [a, b] of edges) {
    next.get(a).push(b);
    next.get(b).push(a);
  }
  let best = tiers;
  let least = crossings(tiers, edges, rank);
  for (let i = 0; i < sweeps && least > 0; i++) {
    tiers = swept(tiers, next, i % 2 === 0);
    const n = crossings(tiers, edges, rank);
    if (n < least) {
      best = tiers;
      least = n;
    }
  }
  return best;
}

const indexOf = (tier) => new Map(tier.map((v, i) => [v, tier.length > 1 ? i / (tier.length - 1) : 0.5]));

/** Orders each tier by the middle of its neighbours in the tier before, downwards or upwards. Equals stay in order. */
function swept(tiers, next, down) {
  const result = [...tiers];
  const order = tiers.map((_, i) => i);
  if (!down) order.reverse();
  for (let k = 1; k < order.length; k++) {
    const at = indexOf(result[order[k - 1]]);
    const middle = (v) => {
      const known = next.get(v).filter((n) => at.has(n)).map((n) => at.get(n));
      return known.length ? known.reduce((a, b) => a + b) / known.length : undefined;
    };
    const own = indexOf(result[order[k]]);
    const want = new Map(result[order[k]].map((v) => [v, middle(v) ?? own.get(v)]));
    result[order[k]] = [...result[order[k]]].sort((a, b) => (Math.abs(want.get(a) - want.get(b)) > 1e-9 ? want.get(a) - want.get(b) : byName(a, b)));
  }
  return result;
}

/** How often links between neighbouring tiers cross. */
export function crossings(tiers, edges, rank) {
  const place = new Map(tiers.flatMap((tier) => tier.map((v, i) => [v, i])));
  const layers = new Map();
  for (const [a, b] of edges) {
    const [high, low] = rank.get(a) < rank.get(b) ? [a, b] : [b, a];
    if (rank.get(high) === rank.get(low)) continue;
    const key = `${rank.get(high)} ${rank.get(low)}`;
    if (!layers.has(key)) layers.set(key, []);
    layers.get(key).push([place.get(high), place.get(low)]);
  }
  let n = 0;
  for (const layer of layers.values()) n += inversions(layer.sort((a, b) => a[0] - b[0] || a[1] - b[1]).map((e) => e[1]));
  return n;
}

function inversions(list) {
  let n = 0;
  for (let i = 1; i < list.length; i++) {
    for (let j = 0; j < i; j++) n += list[j] > list[i] ? 1 : 0;
  }
  return n;
}

/**
 * Sets x of all vertices, the lowest tier first: neighbours of the same parent beside each other, each of the others above
 * the middle of what is below it. @param {object[][]} tiers @param {Map<object, object[]>} next @param {(v: object) => number} wide
 */
export function across(tiers, next, wide) {
  const rankOf = new Map(tiers.flatMap((tier, i) => tier.map((v) => [v, i])));
  for (let i = tiers.length - 1; i >= 0; i--) {
    const tier = tiers[i];
    const offsets = spaced(tier, next, rankOf, wide);
    const below = (v) => next.get(v).filter((n) => rankOf.get(n) > i).map((n) => n.x);
    const want = tier.map((v, k) => {
      const xs = below(v);
      return xs.length ? xs.reduce((a, b) => a + b) / xs.length - offsets[k] : undefined;
    });
    const begins = fitted(want);
    tier.forEach((v, k) => { v.x = (begins[k] ?? 0) + offsets[k]; });
    if (i < tiers.length - 1) widen(tier, tiers[i + 1]);
  }
}

/** Where each of a tier would stand if they stood as closely as they may. Strangers are further apart than siblings. */
function spaced(tier, next, rankOf, wide) {
  const parent = (v) => next.get(v).find((n) => rankOf.get(n) < rankOf.get(v));
  const offsets = [];
  tier.forEach((v, k) => {
    const before = tier[k - 1];
    const gap = before && parent(before) !== parent(v) ? 1.25 : 1;
    offsets.push(before ? offsets[k - 1] + gap * (wide(before) + wide(v)) / 2 : 0);
  });
  return offsets;
}

/** The closest list to the one that is wanted that never falls (pool adjacent violators). Who wants nothing is between his neighbours. */
function fitted(want) {
  const pools = [];
  want.forEach((value, k) => {
    if (value === undefined) return;
    pools.push({ sum: value, n: 1, from: k });
    while (pools.length > 1 && pools.at(-2).sum / pools.at(-2).n > pools.at(-1).sum / pools.at(-1).n) {
      const last = pools.pop();
      pools.at(-1).sum += last.sum;
      pools.at(-1).n += last.n;
    }
  });
  const mean = (pool) => pool && pool.sum / pool.n;
  return want.map((_, k) => mean(pools.findLast((pool) => pool.from <= k) ?? pools[0]));
}

/** A tier that is far narrower than the one below is spread out: links to all of that would lie on each other. */
function widen(tier, below) {
  if (tier.length < 2) return;
  const [first, last] = [tier[0].x, tier.at(-1).x];
  const [left, right] = [Math.min(...below.map((v) => v.x)), Math.max(...below.map((v) => v.x))];
  const wanted = 0.75 * (right - left);
  if (last - first >= 0.6 * (right - left) || last <= first) return;
  const middle = (first + last) / 2;
  for (const v of tier) v.x = middle + (v.x - middle) * wanted / (last - first);
}
