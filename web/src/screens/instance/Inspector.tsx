/** One step: what it was given, how its way was chosen and why, what it gave, and what it sent with each answer. */
import { useQuery } from "@tanstack/react-query";
import { ArrowLeft } from "lucide-react";
import { useEffect, useRef, type ReactNode } from "react";
import { Button } from "react-aria-components";
import { useTranslation } from "react-i18next";

import { Refusal } from "../../api/client";
import { stepQuery, type Effect, type Path, type StepDetails } from "../../api/operations";
import { Countdown } from "../../parts/Countdown";
import { plain } from "../../parts/format";
import { Time, useName, useReader } from "../../parts/reader";
import { Empty, Failed, Loading } from "../../parts/states";
import { kindName, nameOfNode, nameOfStep, outcomeName, statusName } from "./kinds";

interface InspectorProps {
  path: Path;
  instanceId: string;
  stepId: string;
  onClose: () => void;
}

export function Inspector({ path, instanceId, stepId, onClose }: InspectorProps) {
  const { t } = useTranslation();
  const { data: step, error } = useQuery(stepQuery(instanceId, stepId));
  const node = path.nodes.find((one) => one.id === step?.node_id);
  const place = useRef<HTMLElement>(null);
  useEffect(() => {
    // Where there is no room beside the list, it is below; the reader goes there.
    place.current?.focus({ preventScroll: true });
    place.current?.scrollIntoView({ block: "nearest" });
  }, [stepId]);
  return (
    <section className="inspector" aria-label={t("step.title")} tabIndex={-1} ref={place}>
      <Button className="as-link" onPress={onClose}>
        <ArrowLeft aria-hidden size={14} />
        {t("step.back")}
      </Button>
      {error instanceof Refusal && [404, 422].includes(error.problem.status) ? (
        <Empty title={t("notFound.title")} hint={t("notFound.hint")} />
      ) : error && !step ? (
        <Failed error={error} />
      ) : !step ? (
        <Loading />
      ) : (
        <>
          <div>
            <h2>{nameOfStep(t, step, node)}</h2>
            <p className="quiet">{kindName(t, step.kind)}</p>
          </div>
          <Facts step={step} />
          {step.error && (
            <div className="notice" data-tone="bad">
              <p className="text">{step.error}</p>
            </div>
          )}
          {step.reason && <Part title={t("decide.reason")}>{<p className="text">{step.reason}</p>}</Part>}
          <Ways step={step} path={path} />
          {step.effects.length > 0 && (
            <Part title={t("step.effects")}>
              <ul className="effects">
                {step.effects.map((effect) => (
                  <EffectItem key={effect.id} effect={effect} />
                ))}
              </ul>
            </Part>
          )}
          {step.shown ? (
            <>
              {step.input != null && (
                <Part title={t("step.input")}>
                  <Json value={step.input} />
                </Part>
              )}
              {Object.entries(step.expressions).length > 0 && (
                <Part title={t("step.expressions")}>
                  {Object.entries(step.expressions).map(([name, one]) => (
                    <Explained key={name} name={plain(name)} evaluation={one as Record<string, unknown>} />
                  ))}
                </Part>
              )}
              {Object.keys(step.output).length > 0 && (
                <Part title={t("step.output")}>
                  <Json value={step.output} />
                </Part>
              )}
            </>
          ) : (
            <p className="quiet">{t("step.hidden")}</p>
          )}
        </>
      )}
    </section>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section>
      <h3>{title}</h3>
      {children}
    </section>
  );
}

function Facts({ step }: { step: StepDetails }) {
  const { t } = useTranslation();
  const nameOf = useName();
  const reader = useReader();
  const facts: [string, ReactNode][] = [
    [t("step.status"), statusName(t, step.status)],
    ...(step.outcome ? [[t("step.outcome"), outcomeName(t, step.outcome)] as [string, ReactNode]] : []),
    [t("step.began"), <Time key="at" at={step.at} form="exact" />],
    ...(step.finished_at
      ? [[t("step.ended"), <Time key="end" at={step.finished_at} form="exact" />] as [string, ReactNode]]
      : []),
    ...(step.wakes_at && !step.finished_at
      ? [[t("step.wakes"), <Countdown key="wakes" at={step.wakes_at} />] as [string, ReactNode]]
      : []),
    ...(step.event_key ? [[t("step.event"), <code key="event">{step.event_key}</code>] as [string, ReactNode]] : []),
    ...(step.finished_by || step.actor
      ? [[t("column.who"), nameOf(step.finished_by ?? step.actor ?? "")] as [string, ReactNode]]
      : []),
    ...(step.generation > 0 ? [[t("step.round"), String(step.generation + 1)] as [string, ReactNode]] : []),
    ...(step.entity_version > 0
      ? [[t("step.version"), new Intl.NumberFormat(reader.language).format(step.entity_version)] as [string, ReactNode]]
      : []),
  ];
  return (
    <dl className="facts-list">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** The edges that the step left by, and what was asked on the way there. */
function Ways({ step, path }: { step: StepDetails; path: Path }) {
  const { t } = useTranslation();
  if (step.edges.length === 0 && step.evaluations.length === 0) return null;
  const names = new Map(path.nodes.map((node) => [node.id, nameOfNode(node)]));
  const target = (edgeId: unknown) => {
    const edge = path.edges.find((one) => one.id === edgeId);
    return edge ? (names.get(edge.target) ?? edge.target) : String(edgeId);
  };
  return (
    <Part title={t("step.ways")}>
      {step.evaluations.map((evaluation, number) => (
        <Explained
          key={number}
          name={`→ ${target(evaluation.edge)}`}
          evaluation={typeof evaluation.guard === "string" ? { ...evaluation, expression: evaluation.guard } : evaluation}
        />
      ))}
      {step.edges.map((edge) => (
        <p key={edge}>
          <strong>{t("step.took", { name: target(edge) })}</strong>
        </p>
      ))}
    </Part>
  );
}

/** An expression with the variables that it read and its result. */
function Explained({ name, evaluation }: { name: string; evaluation: Record<string, unknown> }) {
  const { t } = useTranslation();
  const variables = Object.entries((evaluation.variables as Record<string, unknown> | undefined) ?? {});
  const result = evaluation.result;
  return (
    <div className="explained">
      <p className="log-head">
        <span>{name}</span>
        <span className="tag" data-answer={result === true ? "approved" : undefined}>
          {result === true ? t("step.holds") : result === false ? t("step.fails") : JSON.stringify(result)}
        </span>
      </p>
      {typeof evaluation.expression === "string" && <code>{evaluation.expression}</code>}
      {variables.length > 0 && (
        <dl className="facts-list">
          {variables.map(([variable, value]) => (
            <div key={variable}>
              <dt>
                <code>{variable}</code>
              </dt>
              <dd>
                <code>{JSON.stringify(value)}</code>
              </dd>
            </div>
          ))}
        </dl>
      )}
    </div>
  );
}

function EffectItem({ effect }: { effect: Effect }) {
  const { t } = useTranslation();
  return (
    <li>
      <p className="log-head">
        <strong>{plain(effect.type)}</strong>
        <span className="breakable">{effect.destination}</span>
        <span className="tag" data-answer={effect.status === "dead" ? "rejected" : undefined}>
          {plain(effect.status)}
        </span>
        <span className="quiet">{t("step.attempts", { count: effect.attempts, max: effect.attempts_max })}</span>
      </p>
      {effect.next_at && (
        <p className="quiet">
          {t("step.next")} <Countdown at={effect.next_at} />
        </p>
      )}
      <ol>
        {effect.tried.map((one) => (
          <li key={one.attempt}>
            <p className={one.outcome === "done" ? "quiet" : "bad"}>
              {one.attempt}. <Time at={one.ended_at} /> {one.error ?? plain(one.outcome)}{" "}
              {one.code && <span className="code">{t("problem.code", { code: one.code })}</span>}
            </p>
            {one.ambiguous && <p className="quiet">{t("step.ambiguous")}</p>}
            {one.answer != null && <Json value={one.answer} />}
          </li>
        ))}
      </ol>
    </li>
  );
}

export function Json({ value }: { value: unknown }) {
  return <pre className="json">{typeof value === "string" ? value : JSON.stringify(value, null, 2)}</pre>;
}
