/** An instance on the diagram of its workflow: its way, what it waits for, its steps, and the repairs for operators. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { CircleAlert } from "lucide-react";
import { lazy, Suspense, useEffect } from "react";
import { Tab, TabList, TabPanel, Tabs } from "react-aria-components";
import { useTranslation } from "react-i18next";

import { Refusal } from "../api/client";
import { useLiveInstance } from "../api/live";
import { pathQuery, type Instance, type Path, type PathNode } from "../api/operations";
import { contractQuery, entityQuery, instanceQuery } from "../api/queries";
import { useSay } from "../app/Shell";
import { plain } from "../parts/format";
import { Time, useName } from "../parts/reader";
import { Failed, Loading } from "../parts/states";
import { titleOf } from "./DocumentPage";
import { Inspector, Json } from "./instance/Inspector";
import { nameOfNode, statusName } from "./instance/kinds";
import { PathList } from "./instance/PathList";
import { Repairs, useRepairs } from "./instance/Repairs";
import { Timeline } from "./instance/Timeline";
import { Waits } from "./instance/Waits";
import { NotFound } from "./NotFound";

import "../styles/operations.css";

const Diagram = lazy(() => import("./instance/Diagram"));
const VIEWS = ["diagram", "list", "variables"] as const;
const PHONE = matchMedia("(max-width: 48rem)");

export function InstancePage() {
  const { instanceId } = useParams({ from: "/member/instances/$instanceId" });
  const instance = useQuery(instanceQuery(instanceId));
  const path = useQuery(pathQuery(instanceId));
  useLiveInstance(instanceId, [["instance", instanceId]]);
  const error = instance.error ?? path.error;
  const isGone = error instanceof Refusal && [403, 404, 422].includes(error.problem.status);
  if (isGone) return <NotFound />;
  if (error && !(instance.data && path.data)) {
    return <Failed error={error} retry={() => void Promise.all([instance.refetch(), path.refetch()])} />;
  }
  if (!instance.data || !path.data) return <Loading />;
  return <Shown instance={instance.data} path={path.data} />;
}

function useTitle(instance: Instance): string {
  const type = instance.entity_type ?? "";
  const entity = useQuery({ ...entityQuery(type, instance.entity_id ?? ""), enabled: instance.entity_id !== null });
  const contract = useQuery({ ...contractQuery(type), enabled: type !== "" });
  if (entity.data && contract.data) return titleOf(entity.data, contract.data);
  return instance.name ?? plain(instance.workflow_id);
}

function Shown({ instance, path }: { instance: Instance; path: Path }) {
  const { t } = useTranslation();
  const say = useSay();
  const navigate = useNavigate();
  const nameOf = useName();
  const search = useSearch({ from: "/member/instances/$instanceId" });
  const title = useTitle(instance);
  const repairs = useRepairs(instance, path);
  useEffect(() => {
    document.title = `${title} · Assent`;
    return () => {
      document.title = "Assent";
    };
  }, [title]);
  const go = (changes: typeof search) =>
    void navigate({
      to: "/instances/$instanceId",
      params: { instanceId: instance.id },
      search: { ...search, ...changes },
      replace: true,
    });
  const choose = (node: PathNode) => {
    if (node.last_step_id) go({ step: node.last_step_id });
    else say(t("instance.notReached", { name: nameOfNode(node) }));
  };
  const chosen = path.nodes.find((node) => node.last_step_id === search.step)?.id ?? null;
  const view = search.view ?? (PHONE.matches ? "list" : "diagram");
  return (
    <article className="document instance">
      <header className="head">
        <p className="kind">
          {plain(instance.workflow_id)} <span>{t("request.version", { version: instance.definition_version })}</span>
        </p>
        <div className="head-line">
          <h1>{title}</h1>
          <p className="status" data-status={instance.status}>
            {statusName(t, instance.status)}
          </p>
        </div>
        <Waits instance={instance} path={path} />
        <p className="facts">
          <span>
            {t("instance.started", { name: nameOf(instance.subject_id) })} <Time at={instance.started_at} />
          </span>
          {path.generation > 0 && <span>{t("instance.round", { count: path.generation + 1 })}</span>}
          {instance.expires_at && !instance.completed_at && (
            <span>
              {t("instance.expires")} <Time at={instance.expires_at} />
            </span>
          )}
          {instance.entity_type && instance.entity_id && (
            <Link
              to="/documents/$entityType/$entityId"
              params={{ entityType: instance.entity_type, entityId: instance.entity_id }}
              className="link"
            >
              {t("request.document")}
            </Link>
          )}
        </p>
      </header>
      <div className="after-head">
        {instance.incident ? (
          <Incident instance={instance} path={path} repairs={repairs} />
        ) : (
          repairs.length > 0 && <Repairs instance={instance} path={path} names={repairs} />
        )}
      </div>
      <div className="columns">
        <Tabs
          className="tabs"
          selectedKey={view}
          onSelectionChange={(key) => go({ view: VIEWS.find((each) => each === key) })}
        >
          <TabList className="tab-list" aria-label={title}>
            {VIEWS.map((each) => (
              <Tab key={each} id={each} className="tab">
                {t(`instance.view.${each}`)}
              </Tab>
            ))}
          </TabList>
          <TabPanel id="diagram" className="panel flat">
            <Suspense fallback={<Loading />}>
              <Diagram path={path} chosen={chosen} onChoose={choose} />
            </Suspense>
          </TabPanel>
          <TabPanel id="list" className="panel">
            <PathList path={path} chosen={chosen} onChoose={choose} />
          </TabPanel>
          <TabPanel id="variables" className="panel">
            {Object.keys(instance.context).length === 0 ? (
              <p className="quiet">{t("repair.noVariables")}</p>
            ) : (
              <Json value={instance.context} />
            )}
          </TabPanel>
        </Tabs>
        <aside className="standing">
          <section>
            {search.step ? (
              <Inspector
                path={path}
                instanceId={instance.id}
                stepId={search.step}
                onClose={() => go({ step: undefined })}
              />
            ) : (
              <>
                <h2>{t("instance.timeline")}</h2>
                <Timeline path={path} instanceId={instance.id} onChoose={(step) => go({ step })} />
              </>
            )}
          </section>
        </aside>
      </div>
    </article>
  );
}

function Incident({ instance, path, repairs }: { instance: Instance; path: Path; repairs: ReturnType<typeof useRepairs> }) {
  const { t } = useTranslation();
  const incident = instance.incident ?? {};
  const node = path.nodes.find((one) => one.id === incident.node || one.name === incident.node);
  return (
    <section className="notice" data-tone="bad" aria-label={t("incident.title")}>
      <CircleAlert aria-hidden size={18} />
      <div>
        <h2>{node ? t("incident.at", { name: nameOfNode(node) }) : t("incident.title")}</h2>
        {typeof incident.message === "string" && <p className="text">{incident.message}</p>}
        {typeof incident.code === "string" && <p className="code">{t("problem.code", { code: incident.code })}</p>}
        {repairs.length > 0 && <Repairs instance={instance} path={path} names={repairs} />}
      </div>
    </section>
  );
}
