// SPDX-License-Identifier: Apache-2.0
// The topology as a graph to draw: nodes, links, and hubs for links with more than two ends.

/**
 * @typedef {{id: string, name: string, kind: 'node'|'hub'|'outside', class: string, ports: object[],
 *   spec: string, load?: object, x: number, y: number, degree: number}} Vertex
 * @typedef {{id: string, a: Vertex, b: Vertex, from: string, to: string, kind: string, bend: number}} Edge
 *   from and to are the names of its two ends as loads have them, such as r2/eth1.
 * @typedef {{vertices: Map<string, Vertex>, edges: Edge[], byEnds: Map<string, {edge: Edge, forward: boolean}>,
 *   byPort: Map<string, {edge: Edge, forward: boolean}>, byPair: Map<string, {edge: Edge, forward: boolean}>}} Graph
 */

/** Makes the graph of an answer of GET topology. @returns {Graph} */
export function graphOf(topology) {
  const graph = { vertices: new Map(), edges: [], byEnds: new Map(), byPort: new Map(), byPair: new Map() };
  for (const node of topology?.nodes ?? []) {
    addVertex(graph, node.name, { kind: 'node', class: classOf(node), ports: node.ports ?? [], spec: node.spec ?? '', load: node.load });
  }
  (topology?.links ?? []).forEach((link, i) => addLink(graph, link, i));
  bendParallels(graph);
  return graph;
}

function classOf(node) {
  return node.class || (/^(docker|kathara):/.test(node.spec ?? '') ? 'container' : 'namespace');
}

function addVertex(graph, name, rest) {
  let vertex = graph.vertices.get(name);
  if (!vertex) {
    vertex = { id: name, name, kind: 'node', class: 'namespace', ports: [], spec: '', x: 0, y: 0, degree: 0, ...rest };
    graph.vertices.set(name, vertex);
  }
  return vertex;
}

function addLink(graph, link, number) {
  const ends = link.ends ?? [];
  for (const end of ends) addVertex(graph, end.node, {});
  if (link.kind === 'edge' || ends.length === 1) {
    const end = ends[0];
    if (!end) return;
    // A macvlan, ipvlan or VLAN stands on another node's interface: its packets go in and out there.
    const below = graph.vertices.get((link.lower ?? '').split('/')[0]);
    const out = below ?? addVertex(graph, `outside ${end.node}/${end.port}`, { kind: 'outside', class: 'outside', name: 'outside' });
    addEdge(graph, link, graph.vertices.get(end.node), out, `${end.node}/${end.port}`, 'outside');
  } else if (ends.length === 2) {
    const [a, b] = ends;
    addEdge(graph, link, graph.vertices.get(a.node), graph.vertices.get(b.node), `${a.node}/${a.port}`, `${b.node}/${b.port}`);
  } else {
    const name = hubName(link, number);
    const hub = addVertex(graph, name, { kind: 'hub', class: link.kind, name: link.network || link.name || link.kind });
    for (const end of ends) addEdge(graph, link, graph.vertices.get(end.node), hub, `${end.node}/${end.port}`, name);
  }
}

/** How loads name the middle of a link with many ends: "bridge CLOSINGNODE/BRIDGE". */
function hubName(link, number) {
  const named = (link.load ?? []).find((l) => l.to?.includes(' '));
  return named ? named.to : `${link.kind} ${link.name ?? number}`;
}

function addEdge(graph, link, a, b, from, to) {
  const edge = { id: `${from} > ${to}`, a, b, from, to, kind: link.kind, bend: 0 };
  graph.edges.push(edge);
  a.degree++;
  b.degree++;
  graph.byEnds.set(`${from} > ${to}`, { edge, forward: true });
  graph.byEnds.set(`${to} > ${from}`, { edge, forward: false });
  graph.byPort.set(from, { edge, forward: true });
  if (b.kind === 'node' && to !== 'outside') graph.byPort.set(to, { edge, forward: false });
  const pair = (x, y) => `${x.id}\u0000${y.id}`;
  if (!graph.byPair.has(pair(a, b))) {
    graph.byPair.set(pair(a, b), { edge, forward: true });
    graph.byPair.set(pair(b, a), { edge, forward: false });
  }
}

/** Links between the same two nodes are drawn beside each other. */
function bendParallels(graph) {
  const groups = new Map();
  for (const edge of graph.edges) {
    const key = [edge.a.id, edge.b.id].sort().join('\u0000');
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(edge);
  }
  for (const group of groups.values()) {
    group.forEach((edge, i) => {
      edge.bend = (i - (group.length - 1) / 2) * (edge.a.id < edge.b.id ? 1 : -1);
    });
  }
}

const keyOf = ({ ends }) => ends.map((e) => `${e.node}/${e.port}`).sort().join(' ');

/**
 * The nodes and links that packets passed, with those that are known, as an answer of GET topology has them: what is known
 * of a network that is gone.
 */
export function passedBy(records, known = { nodes: [], links: [] }) {
  const nodes = new Map(known.nodes.map((n) => [n.name, n]));
  const links = new Map(known.links.map((l) => [keyOf(l), l]));
  for (const { hops = [] } of records) {
    hops.forEach((hop, i) => {
      nodes.set(hop.node, { name: hop.node });
      const before = hops[hop.prev ?? i - 1];
      if (!before || hop.gap) return;
      const link = { kind: 'pair', ends: [{ node: before.node, port: before.port }, { node: hop.node, port: hop.in_port }] };
      if (!links.has(keyOf(link))) links.set(keyOf(link), link);
    });
  }
  return { nodes: [...nodes.values()], links: [...links.values()] };
}

/**
 * The edges that a packet takes from one port to another: one, two over a hub, or none that is known.
 * @param {Graph} graph @returns {{edge: Edge, forward: boolean}[]}
 */
export function way(graph, fromNode, fromPort, toNode, toPort) {
  const out = fromPort !== undefined ? graph.byPort.get(`${fromNode}/${fromPort}`) : undefined;
  const into = toPort !== undefined ? graph.byPort.get(`${toNode}/${toPort}`) : undefined;
  if (out && into) {
    if (out.edge === into.edge) return [out];
    const hub = out.forward ? out.edge.b : out.edge.a;
    const other = into.forward ? into.edge.b : into.edge.a;
    if (hub === other) return [out, { edge: into.edge, forward: !into.forward }];
  }
  const pair = graph.byPair.get(`${fromNode}\u0000${toNode}`);
  if (pair) return [pair];
  return [];
}

/** All links as rows: a direction each, with the load since attach. The losses that tc counts at r2/eth1 are in its row. */
export function directions(topology) {
  const rows = [];
  for (const link of topology?.links ?? []) {
    for (const load of link.load ?? []) rows.push({ ...load, kind: link.kind, id: `${load.from} > ${load.to}` });
    if (link.load?.length) continue;
    const [a, b] = link.ends ?? [];
    if (a && b) rows.push({ from: `${a.node}/${a.port}`, to: `${b.node}/${b.port}`, kind: link.kind, id: `${a.node}/${a.port} > ${b.node}/${b.port}` });
  }
  return rows;
}
