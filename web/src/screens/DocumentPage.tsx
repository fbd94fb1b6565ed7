/** A document: where it stands, what the reader can do, its versions, who approved what exactly, and who did what. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { ShieldAlert, ShieldCheck, Workflow } from "lucide-react";
import { useEffect, useState, type ReactNode } from "react";
import { Button, Tab, TabList, TabPanel, Tabs } from "react-aria-components";
import { useTranslation } from "react-i18next";

import { api, Refusal, taken } from "../api/client";
import {
  auditQuery,
  contractQuery,
  decisionsQuery,
  entityQuery,
  instanceQuery,
  versionsQuery,
  type Contract,
  type Entity,
} from "../api/queries";
import { useLiveInstance } from "../api/live";
import { useSay } from "../app/Shell";
import { Fields, labelOf } from "../parts/Fields";
import { plain, shown } from "../parts/format";
import { Due, Time, useName, useNow, useReader } from "../parts/reader";
import { Empty, Failed, Loading } from "../parts/states";
import { NotFound } from "./NotFound";
import { answerIn } from "./RequestPage";

export function DocumentPage() {
  const { entityType, entityId } = useParams({ from: "/member/documents/$entityType/$entityId" });
  const { data: entity, error, refetch } = useQuery(entityQuery(entityType, entityId));
  const { data: contract } = useQuery(contractQuery(entityType));
  useLiveInstance(entity?.instance_id, [
    ["entity", entityId],
    ["instance", entity?.instance_id],
  ]);
  if (error instanceof Refusal && [404, 422].includes(error.problem.status)) return <NotFound />;
  if (error && !entity) return <Failed error={error} retry={() => void refetch()} />;
  if (!entity || !contract) return <Loading />;
  return <Document entity={entity} contract={contract} />;
}

const TABS = ["fields", "versions", "approvals", "audit"] as const;

export function titleOf(entity: Entity, contract: Contract): string {
  const found = contract.title ? entity.data[contract.title] : undefined;
  return typeof found === "string" || typeof found === "number" ? String(found) : entity.id.slice(-8);
}

function Document({ entity, contract }: { entity: Entity; contract: Contract }) {
  const { t } = useTranslation();
  const reader = useReader();
  const title = titleOf(entity, contract);
  useEffect(() => {
    document.title = `${title} · Assent`;
    return () => {
      document.title = "Assent";
    };
  }, [title]);
  const figure = contract.fields.find((field) => field.name === contract.figure);
  const panels: Record<(typeof TABS)[number], ReactNode> = {
    fields: <Fields data={entity.data} contract={contract} />,
    versions: <Versions entity={entity} contract={contract} />,
    approvals: <Approvals entity={entity} />,
    audit: <Audit entity={entity} contract={contract} />,
  };
  return (
    <article className="document">
      <header className="head">
        <p className="kind">{contract.label ?? plain(entity.type)}</p>
        <div className="head-line">
          <h1>{title}</h1>
          {figure && <p className="figure">{shown(entity.data[figure.name], figure, entity.data, reader)}</p>}
        </div>
      </header>
      <LifecycleBar entity={entity} contract={contract} />
      <div className="columns">
        <Tabs className="tabs">
          <TabList className="tab-list" aria-label={title}>
            {TABS.map((tab) => (
              <Tab key={tab} id={tab} className="tab">
                {t(`document.tab.${tab}`)}
              </Tab>
            ))}
          </TabList>
          {TABS.map((tab) => (
            <TabPanel key={tab} id={tab} className="panel">
              {panels[tab]}
            </TabPanel>
          ))}
        </Tabs>
        <Standing entity={entity} contract={contract} />
      </div>
    </article>
  );
}

function stateLabel(name: string, contract: Contract): string {
  return contract.states.find((state) => state.name === name)?.label ?? plain(name);
}

/** The states on the way from the first one, in order; those beside the way after them. */
function wayOf(contract: Contract): string[] {
  const way = [contract.initial];
  for (let here: string | undefined = contract.initial; here !== undefined; ) {
    const step: Contract["transitions"][number] | undefined = contract.transitions.find(
      (each) => each.from_states[0] === here && !way.includes(each.to),
    );
    if (step) way.push(step.to);
    here = step?.to;
  }
  return way;
}

function LifecycleBar({ entity, contract }: { entity: Entity; contract: Contract }) {
  const { t } = useTranslation();
  const way = wayOf(contract);
  const shownStates = way.includes(entity.state) ? way : [...way, entity.state];
  const here = shownStates.indexOf(entity.state);
  return (
    <section className="lifecycle" aria-label={t("document.lifecycle")}>
      <ol>
        {shownStates.map((state, place) => (
          <li
            key={state}
            aria-current={state === entity.state ? "step" : undefined}
            data-passed={way.includes(entity.state) && place < here}
          >
            {stateLabel(state, contract)}
          </li>
        ))}
      </ol>
      <p className="quiet">{t(`document.edit.${entity.edit_window}`)}</p>
    </section>
  );
}

/** What it waits for, and what the reader can do now. */
function Standing({ entity, contract }: { entity: Entity; contract: Contract }) {
  const { t } = useTranslation();
  const say = useSay();
  const now = useNow();
  const nameOf = useName();
  const client = useQueryClient();
  const instanceId = entity.instance_id ?? "";
  const { data: instance } = useQuery({ ...instanceQuery(instanceId), enabled: instanceId !== "" });
  const moving = useMutation({
    mutationFn: (name: string) =>
      taken(
        api.POST("/api/entities/{entity_type}/{entity_id}/transitions/{name}", {
          params: {
            path: { entity_type: entity.type, entity_id: entity.id, name },
            header: { "If-Match": `"${entity.version}"` },
          },
          body: { data: {} },
        }),
      ),
    onSuccess: async (_, name) => {
      setAsked(null);
      say(t("document.moved", { name: labelOfTransition(name, contract) }));
      await Promise.all([
        client.invalidateQueries({ queryKey: ["entity", entity.id] }),
        client.invalidateQueries({ queryKey: ["instance", instanceId] }),
        client.invalidateQueries({ queryKey: ["inbox"] }),
      ]);
    },
  });
  const [asked, setAsked] = useState<string | null>(null);
  const move = contract.transitions.find((each) => each.name === asked);
  const waiting = instance?.steps.filter((step) => step.asked.length > 0 || step.request_id) ?? [];
  return (
    <aside className="standing">
      {waiting.length > 0 && (
        <section>
          <h2>{t("document.waits")}</h2>
          <ul className="waits">
            {waiting.map((step) => (
              <li key={step.step_id ?? step.node_id}>
                <p>
                  <strong>{step.label ?? plain(step.name)}</strong>
                </p>
                <p>{step.asked.map(nameOf).join(", ")}</p>
                {step.due_at && <Due at={step.due_at} overdue={Date.parse(step.due_at) < now} />}
                {step.request_id && (
                  <Link to="/inbox/$requestId" params={{ requestId: step.request_id }} className="link">
                    {t("document.openRequest")}
                  </Link>
                )}
              </li>
            ))}
          </ul>
        </section>
      )}
      {instanceId !== "" && (
        <Link to="/instances/$instanceId" params={{ instanceId }} className="button">
          <Workflow aria-hidden size={16} />
          {t("document.workflow")}
        </Link>
      )}
      <section>
        <h2>{t("document.now")}</h2>
        {moving.error && <Failed error={moving.error} />}
        {move && instance?.transitions.includes(move.name) ? (
          <>
            <p>
              {t("document.sure", { from: stateLabel(entity.state, contract), to: stateLabel(move.to, contract) })}
            </p>
            <div className="actions">
              <Button
                autoFocus
                className="button"
                data-tone="main"
                isPending={moving.isPending}
                onPress={() => moving.mutate(move.name)}
              >
                {labelOfTransition(move.name, contract)}
              </Button>
              <Button className="button" onPress={() => setAsked(null)}>
                {t("document.back")}
              </Button>
            </div>
          </>
        ) : instance?.transitions.length ? (
          <div className="actions">
            {instance.transitions.map((name) => (
              <Button key={name} className="button" onPress={() => setAsked(name)}>
                {labelOfTransition(name, contract)}
              </Button>
            ))}
          </div>
        ) : (
          <p className="quiet">{t("document.nothing")}</p>
        )}
      </section>
    </aside>
  );
}

function labelOfTransition(name: string, contract: Contract): string {
  return contract.transitions.find((each) => each.name === name)?.label ?? plain(name);
}

function Versions({ entity, contract }: { entity: Entity; contract: Contract }) {
  const { t } = useTranslation();
  const reader = useReader();
  const nameOf = useName();
  const { data, error } = useQuery(versionsQuery(entity.type, entity.id));
  if (error) return <Failed error={error} />;
  if (!data) return <Loading />;
  return (
    <ol className="log">
      {data.items.map((version, place) => {
        const before = data.items[place + 1];
        const names = [...new Set([...Object.keys(version.data), ...Object.keys(before?.data ?? {})])];
        const changed = before
          ? names.filter((name) => JSON.stringify(version.data[name]) !== JSON.stringify(before.data[name]))
          : [];
        return (
          <li key={version.id}>
            <p className="log-head">
              <strong>{t("request.version", { version: version.version })}</strong>
              <span className="tag">{stateLabel(version.state, contract)}</span>
              <span className="quiet">
                {nameOf(version.created_by)}, <Time at={version.created_at} form="exact" />
              </span>
            </p>
            {version.version === 1 && <p className="quiet">{t("versions.first")}</p>}
            {before && changed.length === 0 && <p className="quiet">{t("versions.same")}</p>}
            {before && changed.length > 0 && (
              <dl className="changes">
                {changed.map((name) => {
                  const field = contract.fields.find((each) => each.name === name);
                  return (
                    <div key={name}>
                      <dt>{labelOf(name, contract)}</dt>
                      <dd>
                        <del>{shown(before.data[name], field, before.data, reader)}</del>
                        <span aria-hidden> → </span>
                        <ins>{shown(version.data[name], field, version.data, reader)}</ins>
                      </dd>
                    </div>
                  );
                })}
              </dl>
            )}
          </li>
        );
      })}
    </ol>
  );
}

function Approvals({ entity }: { entity: Entity }) {
  const { t } = useTranslation();
  const nameOf = useName();
  const { data, error } = useQuery(decisionsQuery(entity.type, entity.id));
  if (error) return <Failed error={error} />;
  if (!data) return <Loading />;
  if (data.items.length === 0) return <Empty title={t("approvals.none")} hint={t("approvals.noneHint")} />;
  return (
    <ol className="log">
      {data.items.map((each) => {
        const name = nameOf(each.approver_id);
        const Shield = each.is_intact ? ShieldCheck : ShieldAlert;
        return (
          <li key={each.decision_id}>
            <p className="log-head">
              <strong>
                {each.on_behalf_of ? t("approvals.for", { name, other: nameOf(each.on_behalf_of) }) : name}
              </strong>
              <span className="tag" data-answer={each.answer}>
                {each.outcome ?? answerIn(t, each.answer)}
              </span>
              <span>{t("approvals.about", { version: each.entity_version })}</span>
              <span className="quiet">
                <Time at={each.decided_at} form="exact" />
              </span>
            </p>
            {each.reason && <p className="text">{each.reason}</p>}
            <p className="proof" data-intact={each.is_intact}>
              <Shield aria-hidden size={14} />
              {each.is_intact ? t("approvals.intact") : t("approvals.notIntact")}
              {each.content_hash && <code>{each.content_hash.slice(0, 12)}</code>}
            </p>
            <p className="quiet">
              {[
                plain(each.node_name),
                each.via && t("approvals.via", { via: each.via.replace(/^role:/, "") }),
                each.status_reason && each.status === "void" && t("approvals.status.void", { reason: each.status_reason }),
              ]
                .filter(Boolean)
                .join(" · ")}
            </p>
          </li>
        );
      })}
    </ol>
  );
}

function Audit({ entity, contract }: { entity: Entity; contract: Contract }) {
  const { t } = useTranslation();
  const reader = useReader();
  const nameOf = useName();
  const { data, error } = useQuery(auditQuery(entity.type, entity.id));
  if (error) return <Failed error={error} />;
  if (!data) return <Loading />;
  if (data.items.length === 0) return <Empty title={t("audit.none")} />;
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={t("document.tab.audit")}>
      <table>
        <thead>
          <tr>
            <th scope="col">{t("column.when")}</th>
            <th scope="col">{t("column.who")}</th>
            <th scope="col">{t("column.what")}</th>
            <th scope="col">{t("column.change")}</th>
          </tr>
        </thead>
        <tbody>
          {data.items.map((entry) => (
            <tr key={entry.id}>
              <td>
                <Time at={entry.at} form="exact" />
              </td>
              <td>
                {nameOf(entry.actor_id)}
                {entry.on_behalf_of && (
                  <span className="quiet"> {t("audit.for", { names: entry.on_behalf_of.map(nameOf).join(", ") })}</span>
                )}
              </td>
              <td>
                {entry.action}
                {entry.reason && <p className="text">{entry.reason}</p>}
              </td>
              <td>
                {entry.from_state !== entry.to_state && (
                  <p>
                    {entry.from_state && `${stateLabel(entry.from_state, contract)} → `}
                    {stateLabel(entry.to_state, contract)}
                  </p>
                )}
                {Object.entries(entry.changes).map(([name, change]) => {
                  const [before, after] = Array.isArray(change) ? (change as unknown[]) : [null, change];
                  const field = contract.fields.find((each) => each.name === name);
                  const text = (value: unknown) => shown(value, field, entity.data, reader);
                  return (
                    <p key={name}>
                      {labelOf(name, contract)}: {before != null && `${text(before)} → `}
                      {text(after)}
                    </p>
                  );
                })}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
