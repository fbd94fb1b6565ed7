/** Where nodes, slots and edges of a graph are, by ELK: in layers from the top, edges around what is in their way. */
import ELK, { type ElkExtendedEdge, type ElkNode } from "elkjs/lib/elk.bundled.js";

import type { Path, PathNode } from "../../api/operations";
import { isSmallNode } from "./kinds";

const elk = new ELK();

export interface Box {
  id: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Line {
  id: string;
  points: { x: number; y: number }[];
  label?: Box;
}

export interface Layout {
  nodes: Box[];
  slots: Box[];
  lines: Map<string, Line>;
}

const OPTIONS = {
  "elk.algorithm": "layered",
  "elk.direction": "DOWN",
  "elk.hierarchyHandling": "INCLUDE_CHILDREN",
  "elk.edgeRouting": "ORTHOGONAL",
  "elk.json.shapeCoords": "ROOT",
  "elk.json.edgeCoords": "ROOT",
  "elk.spacing.nodeNode": "36",
  "elk.spacing.edgeNode": "20",
  "elk.spacing.edgeEdge": "14",
  "elk.layered.spacing.nodeNodeBetweenLayers": "40",
  "elk.layered.spacing.edgeNodeBetweenLayers": "18",
  "elk.layered.nodePlacement.strategy": "NETWORK_SIMPLEX",
  "elk.layered.considerModelOrder.strategy": "NODES_AND_EDGES",
  "elk.edgeLabels.inline": "true",
};

const sizeOf = (node: PathNode) =>
  isSmallNode(node.kind) ? { width: 132, height: 28 } : { width: 200, height: 58 };

const LABEL_MAX = 190;
const labelSize = (text: string) => ({ width: Math.min(LABEL_MAX, Math.ceil(text.length * 6.6) + 14), height: 20 });

export async function layoutOf(path: Path, labels: ReadonlyMap<string, string>): Promise<Layout> {
  const slots = [...new Set(path.nodes.flatMap((node) => node.slot ?? []))];
  const boxOf = (node: PathNode): ElkNode => ({ id: node.id, ...sizeOf(node) });
  const boxes: ElkNode[] = slots.map((slot) => ({
    id: `slot ${slot}`,
    layoutOptions: { "elk.padding": "[top=34,left=16,bottom=16,right=16]" },
    children: path.nodes.filter((node) => node.slot === slot).map(boxOf),
  }));
  const edges: ElkExtendedEdge[] = path.edges.map((edge) => {
    const text = labels.get(edge.id);
    const label = text ? { labels: [{ id: `label ${edge.id}`, text, ...labelSize(text) }] } : {};
    return { id: edge.id, sources: [edge.source], targets: [edge.target], ...label };
  });
  const found = await elk.layout({
    id: "root",
    layoutOptions: OPTIONS,
    children: [...path.nodes.filter((node) => node.slot === null).map(boxOf), ...boxes],
    edges,
  });
  const lines = new Map<string, Line>();
  const nodes: Box[] = [];
  const frames: Box[] = [];
  const visit = (node: ElkNode) => {
    for (const edge of (node.edges ?? []) as ElkExtendedEdge[]) {
      const points = (edge.sections ?? []).flatMap((one) => [one.startPoint, ...(one.bendPoints ?? []), one.endPoint]);
      const label = edge.labels?.[0];
      lines.set(edge.id, { id: edge.id, points, ...(label && { label: asBox(label as ElkNode) }) });
    }
    for (const child of node.children ?? []) {
      (child.children ? frames : nodes).push(asBox(child));
      visit(child);
    }
  };
  visit(found);
  return { nodes, slots: frames, lines };
}

const asBox = (one: Pick<ElkNode, "id" | "x" | "y" | "width" | "height">): Box => ({
  id: one.id,
  x: one.x ?? 0,
  y: one.y ?? 0,
  width: one.width ?? 0,
  height: one.height ?? 0,
});
