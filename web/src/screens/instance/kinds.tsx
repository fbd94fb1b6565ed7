/** Kinds of nodes with their icon and their word, and the state of a node in an instance. */
import {
  Bell,
  CircleCheck,
  CircleDot,
  Clock,
  Cog,
  FileInput,
  FileSearch,
  Flag,
  GitBranch,
  GitFork,
  GitMerge,
  ListChecks,
  Play,
  Puzzle,
  Radio,
  Scale,
  Send,
  Shield,
  SquareFunction,
  UserCheck,
  type LucideIcon,
} from "lucide-react";
import type { TFunction } from "i18next";

import type { Path, PathNode, Token } from "../../api/operations";
import { plain } from "../../parts/format";

const ICONS = {
  start: Play,
  end: Flag,
  state: CircleDot,
  lifecycle_gate: Shield,
  policy_gate: Scale,
  action: CircleCheck,
  approval: UserCheck,
  form: FileInput,
  system: Cog,
  condition: GitBranch,
  parallel_split: GitFork,
  parallel_join: GitMerge,
  wait_timer: Clock,
  wait_event: Radio,
  webhook_out: Send,
  notification: Bell,
  emit: Radio,
  script: SquareFunction,
  rule: ListChecks,
  requirements: FileSearch,
  task: Cog,
  slot: Puzzle,
} as const satisfies Record<string, LucideIcon>;

type Kind = keyof typeof ICONS;
const isKind = (kind: string): kind is Kind => kind in ICONS;

export const iconOf = (kind: string): LucideIcon => (isKind(kind) ? ICONS[kind] : Cog);
export const kindName = (t: TFunction<"words">, kind: string): string =>
  isKind(kind) ? t(`instance.kind.${kind}`) : plain(kind);

/** Nodes that only connect others are small. */
export const isSmallNode = (kind: string) => ["start", "slot", "parallel_split", "parallel_join"].includes(kind);

export const nameOfNode = (node: Pick<PathNode, "label" | "name">): string => node.label ?? plain(node.name);

const CONTROLS = ["start", "pause", "resume", "retry", "drift", "edit", "timeout"] as const;

/** The name of a step: that of its node, or of the command that it was. */
export function nameOfStep(t: TFunction<"words">, step: { node_id: string; step: string }, node?: PathNode): string {
  if (node) return nameOfNode(node);
  const name = step.step.replace(/^ctl:/, "");
  const known = CONTROLS.find((each) => each === name);
  return known ? t(`instance.control.${known}`) : plain(name);
}

/** "slot:submitted_to_approved" is "Submitted to approved". */
export const slotName = (slot: string): string => plain(slot.replace(/^slot:/, ""));

export type Standing = "here" | "failed" | "passed" | "ahead";

export function standingOf(node: PathNode, tokens: readonly Token[]): Standing {
  const own = tokens.filter((token) => token.node_id === node.id && token.state !== "split");
  if (own.some((token) => token.state === "failed")) return "failed";
  if (own.length > 0) return "here";
  return node.visits > 0 ? "passed" : "ahead";
}

const OUTCOMES = ["completed", "approved", "rejected", "denied", "error", "timeout", "partial", "none", "drift"] as const;

export function outcomeName(t: TFunction<"words">, outcome: string): string {
  const known = OUTCOMES.find((each) => each === outcome);
  return known ? t(`instance.outcome.${known}`) : plain(outcome);
}

/** What stands beside each edge: its outcome where it is not the usual one, and its condition. */
export function labelsOf(t: TFunction<"words">, path: Path): Map<string, string> {
  const labels = new Map<string, string>();
  for (const edge of path.edges) {
    const isUsual = edge.label === "completed";
    const text = [isUsual ? "" : outcomeName(t, edge.label), edge.condition ?? ""].filter(Boolean).join(": ");
    if (text) labels.set(edge.id, text.length > 34 ? `${text.slice(0, 33)}…` : text);
  }
  return labels;
}

const STATES = ["pending", "running", "completed", "failed", "skipped", "cancelled", "paused"] as const;

/** The word of a status of an instance or a step. */
export function statusName(t: TFunction<"words">, status: string): string {
  const known = STATES.find((each) => each === status);
  return known ? t(`instance.status.${known}`) : plain(status);
}
