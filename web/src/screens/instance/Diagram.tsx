/** The graph of an instance, to read: its way, its tokens, what failed. The list beside it says the same in words. */
import {
  BaseEdge,
  EdgeLabelRenderer,
  Handle,
  Position,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
  type Edge,
  type EdgeProps,
  type Node,
  type NodeProps,
} from "@xyflow/react";
import { useQuery } from "@tanstack/react-query";
import { Maximize, Minus, Plus } from "lucide-react";
import { useEffect, useMemo } from "react";
import { Button } from "react-aria-components";
import { useTranslation } from "react-i18next";

import "@xyflow/react/dist/style.css";

import type { Path, PathNode, Token } from "../../api/operations";
import { Countdown } from "../../parts/Countdown";
import { Failed, Loading } from "../../parts/states";
import { iconOf, isSmallNode, kindName, labelsOf, nameOfNode, slotName, standingOf, type Standing } from "./kinds";
import { layoutOf, type Layout, type Line } from "./layout";

interface Shown extends Record<string, unknown> {
  node: PathNode;
  tokens: Token[];
  standing: Standing;
  isChosen: boolean;
}

interface Drawn extends Record<string, unknown> {
  line: Line;
  label?: string;
  title?: string;
  taken: number;
  loop: boolean;
}

const NODES = { step: StepNode, slot: SlotNode };
const EDGES = { line: LineEdge };
const ANCHORS = (
  <>
    <Handle type="target" position={Position.Top} isConnectable={false} />
    <Handle type="source" position={Position.Bottom} isConnectable={false} />
  </>
);

interface DiagramProps {
  path: Path;
  chosen: string | null;
  onChoose: (node: PathNode) => void;
}

export default function Diagram(props: DiagramProps) {
  const { t, i18n } = useTranslation();
  const { path } = props;
  const labels = useMemo(() => labelsOf(t, path), [t, path]);
  const { data: layout, error } = useQuery({
    queryKey: ["layout", path.instance_id, path.definition_version, i18n.language, labels.size],
    queryFn: () => layoutOf(path, labels),
    staleTime: Infinity,
    networkMode: "always",
  });
  if (error) return <Failed error={error} />;
  if (!layout) return <Loading />;
  return (
    <ReactFlowProvider>
      <Canvas {...props} layout={layout} labels={labels} />
    </ReactFlowProvider>
  );
}

function Canvas({ path, chosen, onChoose, layout, labels }: DiagramProps & { layout: Layout; labels: Map<string, string> }) {
  const { t } = useTranslation();
  const flow = useReactFlow();
  const nodes = useMemo(() => nodesOf(path, layout, chosen), [path, layout, chosen]);
  const edges = useMemo(() => edgesOf(path, layout, labels), [path, layout, labels]);
  const here = path.tokens.map((token) => token.node_id).join(" ");
  useEffect(() => {
    // All of it where that can be read; else the places where it stands.
    void flow.fitView({ padding: 0.05, maxZoom: 1 }).then(() => {
      if (flow.getZoom() >= 0.6 || here === "") return;
      const places = layout.nodes.filter((box) => here.split(" ").includes(box.id));
      const [first] = places;
      if (first) void flow.setCenter(first.x + first.width / 2, first.y + first.height / 2, { zoom: 0.8 });
    });
  }, [flow, here, layout]);
  return (
    <div className="canvas">
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={NODES}
        edgeTypes={EDGES}
        minZoom={0.15}
        maxZoom={1.5}
        nodesDraggable={false}
        nodesConnectable={false}
        nodesFocusable={false}
        edgesFocusable={false}
        elementsSelectable={false}
        zoomOnScroll={false}
        zoomOnDoubleClick={false}
        preventScrolling={false}
        disableKeyboardA11y
        role="group"
        aria-label={t("instance.diagramLabel")}
        onNodeClick={(_, node) => {
          if (node.type === "step") onChoose((node.data as Shown).node);
        }}
      />
      <div className="zoom">
        <Button className="button" aria-label={t("instance.zoomIn")} onPress={() => void flow.zoomIn()}>
          <Plus aria-hidden size={14} />
        </Button>
        <Button className="button" aria-label={t("instance.zoomOut")} onPress={() => void flow.zoomOut()}>
          <Minus aria-hidden size={14} />
        </Button>
        <Button className="button" aria-label={t("instance.zoomFit")} onPress={() => void flow.fitView({ padding: 0.05, maxZoom: 1 })}>
          <Maximize aria-hidden size={14} />
        </Button>
      </div>
    </div>
  );
}

function nodesOf(path: Path, layout: Layout, chosen: string | null): Node[] {
  const known = new Map(path.nodes.map((node) => [node.id, node]));
  const slots = layout.slots.map((box) => ({
    id: box.id,
    type: "slot",
    position: { x: box.x, y: box.y },
    width: box.width,
    height: box.height,
    zIndex: 0,
    data: { name: box.id.replace(/^slot /, "") },
  }));
  const steps = layout.nodes.flatMap((box) => {
    const node = known.get(box.id);
    if (!node) return [];
    const tokens = path.tokens.filter((token) => token.node_id === node.id && token.state !== "split");
    const data: Shown = { node, tokens, standing: standingOf(node, path.tokens), isChosen: node.id === chosen };
    const { x, y, width, height } = box;
    return [{ id: box.id, type: "step", position: { x, y }, width, height, zIndex: 2, data }];
  });
  return [...slots, ...steps];
}

function edgesOf(path: Path, layout: Layout, labels: Map<string, string>): Edge[] {
  return path.edges.flatMap((edge) => {
    const line = layout.lines.get(edge.id);
    if (!line) return [];
    const label = labels.get(edge.id);
    const title = [edge.label, edge.condition, edge.guard].filter(Boolean).join(" · ");
    const data: Drawn = { line, label, title, taken: edge.taken, loop: edge.loop };
    return [{ id: edge.id, source: edge.source, target: edge.target, type: "line", zIndex: 1, ariaLabel: title, data }];
  });
}

function SlotNode({ data }: NodeProps) {
  const { t } = useTranslation();
  return (
    <div className="slot-frame">
      <span>{t("instance.slot", { name: slotName((data as { name: string }).name) })}</span>
    </div>
  );
}

function StepNode({ data }: NodeProps) {
  const { t } = useTranslation();
  const { node, tokens, standing, isChosen } = data as Shown;
  const Icon = iconOf(node.kind);
  const rounds = Math.max(0, ...tokens.map((token) => token.generation));
  const [timer] = tokens.flatMap((token) => token.wakes_at ?? []);
  return (
    <div
      className="step-node"
      data-standing={standing}
      data-small={isSmallNode(node.kind)}
      data-chosen={isChosen}
      title={`${nameOfNode(node)} · ${kindName(t, node.kind)}`}
    >
      {ANCHORS}
      <Icon aria-hidden size={16} strokeWidth={1.75} />
      <span className="step-text">
        <span className="step-name">{nameOfNode(node)}</span>
        {!isSmallNode(node.kind) && (
          <span className="step-kind">
            {timer ? <Countdown at={timer} /> : kindName(t, node.kind)}
            {rounds > 0 && ` · ${t("instance.round", { count: rounds + 1 })}`}
          </span>
        )}
      </span>
      {node.visits > 1 && <span className="visits">×{node.visits}</span>}
    </div>
  );
}

function LineEdge({ data }: EdgeProps) {
  const { line, label, title, taken, loop } = data as Drawn;
  const [first, ...rest] = line.points;
  if (!first) return null;
  const path = `M ${first.x} ${first.y} ${rest.map(({ x, y }) => `L ${x} ${y}`).join(" ")}`;
  const end = rest.at(-1) ?? first;
  const before = rest.at(-2) ?? first;
  const angle = (Math.atan2(end.y - before.y, end.x - before.x) * 180) / Math.PI;
  return (
    <g className="way" data-taken={taken > 0} data-loop={loop}>
      <BaseEdge path={path} interactionWidth={0} />
      <path className="tip" d="M -7 -4 L 0 0 L -7 4 Z" transform={`translate(${end.x} ${end.y}) rotate(${angle})`} />
      {label && line.label && (
        <EdgeLabelRenderer>
          <span
            className="way-label"
            data-taken={taken > 0}
            title={title}
            style={{
              width: line.label.width,
              height: line.label.height,
              transform: `translate(${line.label.x}px, ${line.label.y}px)`,
            }}
          >
            {label}
          </span>
        </EdgeLabelRenderer>
      )}
    </g>
  );
}
