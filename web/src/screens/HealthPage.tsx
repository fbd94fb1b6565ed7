/** How it goes: what runs and what does not, the queues, what is stuck or dead, and the processes; each number leads to its list. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CircleAlert, CircleCheck } from "lucide-react";
import { useState } from "react";
import { Button } from "react-aria-components";
import { useTranslation } from "react-i18next";

import { api, taken } from "../api/client";
import { countQuery, healthQuery, nodesQuery, type Health } from "../api/operations";
import { useSay } from "../app/Shell";
import { Asked, type Question } from "../parts/Asked";
import { plain } from "../parts/format";
import { Time, useReader } from "../parts/reader";
import { useMay } from "../parts/rights";
import { Failed, Loading } from "../parts/states";
import { statusName } from "./instance/kinds";
import { shortOf } from "./InstancesPage";

import "../styles/operations.css";

export function HealthPage() {
  const { t } = useTranslation();
  const { data: health, error, refetch } = useQuery(healthQuery);
  if (error && !health) return <Failed error={error} retry={() => void refetch()} />;
  if (!health) return <Loading />;
  return (
    <div className="board health">
      <header className="board-head">
        <h1>{t("nav.health")}</h1>
        <p className="health-line" data-healthy={health.healthy}>
          {health.healthy ? <CircleCheck aria-hidden size={16} /> : <CircleAlert aria-hidden size={16} />}
          {t(health.healthy ? "health.ok" : "health.degraded")}
          <span className="quiet">
            <Time at={health.at} />
          </span>
        </p>
      </header>
      {health.problems.length > 0 && (
        <section className="notice" data-tone="warn" aria-label={t("health.problems")}>
          <CircleAlert aria-hidden size={18} />
          <ul>
            {health.problems.map((problem) => (
              <li key={problem}>{problem}</li>
            ))}
          </ul>
        </section>
      )}
      <Running health={health} />
      <Queues health={health} />
      <Stuck health={health} />
      <Processes />
    </div>
  );
}

function useNumber(): (value: number) => string {
  const reader = useReader();
  return (value) => new Intl.NumberFormat(reader.language, { maximumFractionDigits: 1 }).format(value);
}

/** What runs, beside what an error paused. */
function Running({ health }: { health: Health }) {
  const { t } = useTranslation();
  const number = useNumber();
  const { data: running } = useQuery(countQuery("running"));
  const { data: paused } = useQuery(countQuery("paused"));
  const incidents = health.incidents.reduce((sum, one) => sum + one.number, 0);
  const count = running?.count ?? 0;
  const still = Math.max(0, (paused?.count ?? 0) - incidents);
  const plus = (more: boolean | undefined) => (more ? "+" : "");
  return (
    <section className="panel-card" aria-labelledby="running">
      <h2 id="running">{t("nav.instances")}</h2>
      <svg className="ratio" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden>
        <Bars parts={[count, still, incidents]} />
      </svg>
      <ul className="legend">
        <li data-part="running">
          <Link to="/instances" search={{ status: "running" }} className="link">
            <strong>
              {number(count)}
              {plus(running?.more)}
            </strong>{" "}
            {statusName(t, "running")}
          </Link>
        </li>
        <li data-part="paused">
          <Link to="/instances" search={{ status: "paused" }} className="link">
            <strong>
              {number(still)}
              {plus(paused?.more)}
            </strong>{" "}
            {t("health.pausedByPeople")}
          </Link>
        </li>
        <li data-part="incidents">
          <Link to="/incidents" search={{ kind: "instance" }} className="link">
            <strong>{number(incidents)}</strong> {t("health.incidents")}
          </Link>
        </li>
      </ul>
      {health.incidents.length > 0 && (
        <ul className="legend">
          {health.incidents.map((one) => (
            <li key={`${one.code} ${one.definition}`}>
              <Link
                to="/incidents"
                search={{ kind: "instance", code: one.code, definition: one.definition }}
                className="link"
              >
                <strong>{number(one.number)}</strong> {one.code} · {plain(one.definition)}
              </Link>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

const PARTS = ["running", "paused", "incidents"] as const;

function Bars({ parts }: { parts: number[] }) {
  const sum = parts.reduce((all, one) => all + one, 0);
  let x = 0;
  return parts.map((part, place) => {
    const width = sum === 0 ? 0 : (part / sum) * 100;
    const found = <rect key={PARTS[place]} data-part={PARTS[place]} x={x} y={0} width={width} height={6} />;
    x += width;
    return found;
  });
}

const QUEUES = ["events", "effects", "results", "tasks", "timers", "people"] as const;
const LETTERS: Record<string, "event" | "effect" | "result" | "task"> = {
  events: "event",
  effects: "effect",
  results: "result",
  tasks: "task",
};

function Queues({ health }: { health: Health }) {
  const { t } = useTranslation();
  const reader = useReader();
  const number = useNumber();
  const since = (seconds: number) => {
    const [unit, size] = seconds < 60 ? (["second", 1] as const) : seconds < 3600 ? (["minute", 60] as const) : (["hour", 3600] as const);
    return new Intl.NumberFormat(reader.language, { style: "unit", unit, unitDisplay: "short", maximumFractionDigits: 0 }).format(
      Math.floor(seconds / size),
    );
  };
  return (
    <section className="panel-card" aria-labelledby="queues">
      <h2 id="queues">{t("health.queues")}</h2>
      <div className="scroll" tabIndex={0}>
        <table className="numbers">
          <thead>
            <tr>
              <th scope="col">{t("health.queue")}</th>
              <th scope="col">{t("health.pending")}</th>
              <th scope="col">{t("health.oldest")}</th>
              <th scope="col">{t("health.processing")}</th>
              <th scope="col">{t("health.delayed")}</th>
              <th scope="col">{t("health.dead")}</th>
            </tr>
          </thead>
          <tbody>
            {health.queues.map((queue) => {
              const known = QUEUES.find((each) => each === queue.name);
              const kind = LETTERS[queue.name];
              return (
                <tr key={queue.name}>
                  <th scope="row">{known ? t(`health.queue.${known}`) : plain(queue.name)}</th>
                  <td>{number(queue.pending)}</td>
                  <td>{queue.pending > 0 ? since(queue.oldest_s) : "–"}</td>
                  <td>{number(queue.processing)}</td>
                  <td>{number(queue.delayed)}</td>
                  <td>
                    {queue.dead > 0 && kind ? (
                      <Link to="/incidents" search={{ kind }} className="link bad">
                        {number(queue.dead)}
                      </Link>
                    ) : (
                      number(queue.dead)
                    )}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <p className="quiet">
        {health.latency.p95_s === null
          ? t("health.noLatency")
          : t("health.latency", {
              count: health.latency.events,
              half: number(health.latency.p50_s ?? 0),
              most: number(health.latency.p95_s),
            })}
      </p>
    </section>
  );
}

const REPAIRS = ["reenqueue", "rebuild", "force_fail"] as const;

/** Instances that nothing will continue, each with the three repairs. */
function Stuck({ health }: { health: Health }) {
  const { t } = useTranslation();
  const say = useSay();
  const may = useMay();
  const client = useQueryClient();
  const [asked, setAsked] = useState<{ name: (typeof REPAIRS)[number]; id: string } | null>(null);
  const canRepair = may({ scope: "operations:write", capability: "workflows:repair" });
  const params = { path: { instance_id: asked?.id ?? "" } };
  const run: Record<(typeof REPAIRS)[number], Question["run"]> = {
    reenqueue: () => taken(api.POST("/api/operations/instances/{instance_id}/reenqueue", { params })),
    rebuild: () => taken(api.POST("/api/operations/instances/{instance_id}/rebuild", { params })),
    force_fail: (reason) =>
      taken(api.POST("/api/operations/instances/{instance_id}/force-fail", { params, body: { reason } })),
  };
  const close = async (isDone: boolean) => {
    if (isDone && asked) say(t("repair.done", { name: t(`repair.${asked.name}`) }));
    setAsked(null);
    if (isDone) await Promise.all([["health"], ["instances"], ["instance"]].map((queryKey) => client.invalidateQueries({ queryKey })));
  };
  return (
    <section className="panel-card" aria-labelledby="stuck">
      <h2 id="stuck">{t("health.stuck")}</h2>
      {health.stuck.length === 0 && <p className="quiet">{t("health.noneStuck")}</p>}
      <ul className="stuck">
        {health.stuck.map((one) => (
          <li key={one.instance_id}>
            <div>
              <Link to="/instances/$instanceId" params={{ instanceId: one.instance_id }} className="link">
                {plain(one.workflow_id)} {shortOf(one.instance_id)}
              </Link>
              <p className="quiet">
                {t("health.stillSince")} <Time at={one.still_since} />
              </p>
            </div>
            {canRepair && (
              <div className="actions">
                {REPAIRS.map((name) => (
                  <Button key={name} className="button" onPress={() => setAsked({ name, id: one.instance_id })}>
                    {t(`repair.${name}`)}
                  </Button>
                ))}
              </div>
            )}
          </li>
        ))}
      </ul>
      {asked && (
        <Asked
          question={{
            title: t(`repair.${asked.name}`),
            says: t(`repair.says.${asked.name}`),
            act: t(`repair.${asked.name}`),
            ...(asked.name === "force_fail" && { tone: "bad" as const, reason: "needed" as const }),
            run: run[asked.name],
          }}
          onClose={(isDone) => void close(isDone)}
        />
      )}
    </section>
  );
}

const NODE_STATUSES = ["alive", "lost"] as const;

function Processes() {
  const { t } = useTranslation();
  const { data, error } = useQuery(nodesQuery);
  if (error && !data) return <Failed error={error} />;
  return (
    <section className="panel-card" aria-labelledby="processes">
      <h2 id="processes">{t("health.processes")}</h2>
      {data?.items.length === 0 && <p className="quiet">{t("health.noProcesses")}</p>}
      <ul className="stuck">
        {data?.items.map((node) => {
          const known = NODE_STATUSES.find((each) => each === node.status);
          return (
            <li key={node.id}>
              <div>
                <p className="breakable">
                  <strong>{node.host}</strong> <span className="quiet">{node.pid}</span>
                </p>
                <p className="quiet">
                  {[node.serves && t("health.serves"), node.duties.length > 0 && t("health.works", { count: node.duties.length }), node.version]
                    .filter(Boolean)
                    .join(" · ")}
                </p>
              </div>
              <p>
                <span className="status" data-status={node.status === "alive" ? "running" : "paused"}>
                  {known ? t(`health.node.${known}`) : plain(node.status)}
                </span>{" "}
                <span className="quiet">
                  <Time at={node.seen_at} />
                </span>
              </p>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
