/** The commands by which an operator helps an instance: each says what it will do, and asks before it does. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Button, Label, TextArea, TextField } from "react-aria-components";
import { useTranslation } from "react-i18next";

import { api, taken } from "../../api/client";
import type { Instance, Path } from "../../api/operations";
import { sessionQuery } from "../../api/queries";
import { useSay } from "../../app/Shell";
import { Asked, type Question } from "../../parts/Asked";
import { Choice } from "../../parts/Choice";
import { plain } from "../../parts/format";
import { useMay } from "../../parts/rights";
import { nameOfNode, outcomeName } from "./kinds";

const NAMES = [
  "retry",
  "skip",
  "edit_variables",
  "resume",
  "pause",
  "reenqueue",
  "cancel_token",
  "cancel",
  "force_fail",
] as const;
export type RepairName = (typeof NAMES)[number];

/** Those that are there now: of an incident what the server says, and else what fits the status. */
export function useRepairs(instance: Instance, path: Path): RepairName[] {
  const may = useMay();
  const client = useQueryClient();
  const session = client.getQueryData(sessionQuery.queryKey);
  const has = (capability: string) => may({ scope: "operations:write", capability: `workflows:${capability}` });
  if (instance.completed_at) return [];
  const found = new Set<string>(path.ways_out.map((way) => way.name));
  if (has("repair")) {
    found.add("force_fail");
    if (instance.status === "paused") found.add("edit_variables");
    else found.add("reenqueue");
    if (path.tokens.length > 1) found.add("cancel_token");
  }
  if (has("resume") && instance.status === "paused" && path.ways_out.length === 0) found.add("resume");
  if (has("pause") && instance.status === "running") found.add("pause");
  if (has("cancel") || session?.user_id === instance.subject_id) found.add("cancel");
  if (!path.tokens.some((token) => token.state === "failed")) found.delete("skip");
  return NAMES.filter((name) => found.has(name));
}

export function Repairs({ instance, path, names }: { instance: Instance; path: Path; names: readonly RepairName[] }) {
  const { t } = useTranslation();
  const say = useSay();
  const client = useQueryClient();
  const [asked, setAsked] = useState<RepairName | null>(null);
  const close = async (isDone: boolean) => {
    if (isDone && asked) say(t("repair.done", { name: t(`repair.${asked}`) }));
    setAsked(null);
    if (isDone) {
      await Promise.all(
        [["instance", instance.id], ["instances"], ["incidents"], ["health"], ["entity"]].map((queryKey) =>
          client.invalidateQueries({ queryKey }),
        ),
      );
    }
  };
  return (
    <div className="actions">
      {names.map((name) => (
        <Button key={name} className="button" onPress={() => setAsked(name)}>
          {t(`repair.${name}`)}
        </Button>
      ))}
      {asked && <Repair name={asked} instance={instance} path={path} onClose={(isDone) => void close(isDone)} />}
    </div>
  );
}

interface RepairProps {
  name: RepairName;
  instance: Instance;
  path: Path;
  onClose: (isDone: boolean) => void;
}

function Repair({ name, instance, path, onClose }: RepairProps) {
  const { t } = useTranslation();
  const params = { path: { instance_id: instance.id } };
  const nodes = new Map(path.nodes.map((node) => [node.id, node]));
  const failed = path.tokens.filter((token) => token.state === "failed");
  const ways = path.edges.filter((edge) => failed.some((token) => token.node_id === edge.source));
  const variables = Object.keys(instance.context);
  const [edge, setEdge] = useState(ways[0]?.id ?? "");
  const [token, setToken] = useState(path.tokens[0]?.id ?? "");
  const [variable, setVariable] = useState(variables[0] ?? "");
  const [value, setValue] = useState(() => asText(instance.context[variables[0] ?? ""]));
  const parsed = parse(value);
  const labelOf = (id: string) => {
    const node = nodes.get(id);
    return node ? nameOfNode(node) : id;
  };
  const common = { title: t(`repair.${name}`), says: t(`repair.says.${name}`), act: t(`repair.${name}`) };
  const questions: Record<RepairName, () => Question> = {
    retry: () => ({ ...common, run: () => taken(api.POST("/api/instances/{instance_id}/retry", { params, body: {} })) }),
    resume: () => ({ ...common, run: () => taken(api.POST("/api/instances/{instance_id}/resume", { params })) }),
    reenqueue: () => ({
      ...common,
      run: () => taken(api.POST("/api/operations/instances/{instance_id}/reenqueue", { params })),
    }),
    pause: () => ({
      ...common,
      reason: "optional",
      run: (reason) => taken(api.POST("/api/instances/{instance_id}/pause", { params, body: { reason } })),
    }),
    cancel: () => ({
      ...common,
      tone: "bad",
      reason: "needed",
      run: (reason) => taken(api.POST("/api/instances/{instance_id}/cancel", { params, body: { reason } })),
    }),
    force_fail: () => ({
      ...common,
      tone: "bad",
      reason: "needed",
      run: (reason) =>
        taken(api.POST("/api/operations/instances/{instance_id}/force-fail", { params, body: { reason } })),
    }),
    skip: () => ({
      ...common,
      reason: "needed",
      isReady: edge !== "",
      fields: (
        <Choice
          label={t("repair.way")}
          chosen={edge}
          onChoose={setEdge}
          options={ways.map((way) => ({
            id: way.id,
            name: `${labelOf(way.source)}: ${outcomeName(t, way.label)} → ${labelOf(way.target)}`,
          }))}
        />
      ),
      run: (reason) => {
        const source = ways.find((way) => way.id === edge)?.source ?? "";
        const body = { step: nodes.get(source)?.name ?? source, edge, reason };
        return taken(api.POST("/api/operations/instances/{instance_id}/skip", { params, body }));
      },
    }),
    cancel_token: () => ({
      ...common,
      tone: "bad",
      reason: "needed",
      isReady: token !== "",
      fields: (
        <Choice
          label={t("repair.branch")}
          chosen={token}
          onChoose={setToken}
          options={path.tokens.map((one) => ({ id: one.id, name: `${labelOf(one.node_id)} (${one.id})` }))}
        />
      ),
      run: (reason) =>
        taken(
          api.POST("/api/operations/instances/{instance_id}/cancel-token", { params, body: { token, reason } }),
        ),
    }),
    edit_variables: () => ({
      ...common,
      reason: "needed",
      isReady: variable !== "" && parsed !== undefined,
      fields:
        variables.length === 0 ? (
          <p className="quiet">{t("repair.noVariables")}</p>
        ) : (
          <>
            <Choice
              label={t("repair.variable")}
              chosen={variable}
              onChoose={(chosen) => {
                setVariable(chosen);
                setValue(asText(instance.context[chosen]));
              }}
              options={variables.map((one) => ({ id: one, name: plain(one) }))}
            />
            <TextField value={value} onChange={setValue} isInvalid={parsed === undefined}>
              <Label>{t("repair.value")}</Label>
              <TextArea className="input mono" rows={3} spellCheck="false" />
              {parsed === undefined && <p className="small bad">{t("repair.notJson")}</p>}
            </TextField>
          </>
        ),
      run: (reason) =>
        taken(
          api.POST("/api/operations/instances/{instance_id}/variables", {
            params,
            body: { variables: { [variable]: parsed?.value }, reason },
          }),
        ),
    }),
  };
  return <Asked question={questions[name]()} onClose={onClose} />;
}

const asText = (value: unknown) => JSON.stringify(value ?? null, null, 2);

function parse(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return undefined;
  }
}
