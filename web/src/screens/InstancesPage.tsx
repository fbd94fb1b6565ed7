/** The instances that the reader may read, under filters, and commands for several of them. */
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { Button } from "react-aria-components";
import { useTranslation } from "react-i18next";

import { api, taken } from "../api/client";
import { definitionsQuery, instancesQuery, STATUSES, type InstanceItem } from "../api/operations";
import { Asked } from "../parts/Asked";
import { Choice } from "../parts/Choice";
import { plain } from "../parts/format";
import { Grid, type GridColumn } from "../parts/Grid";
import { ManyResults, useMany } from "../parts/many";
import { Time, useName } from "../parts/reader";
import { useMay } from "../parts/rights";
import { Empty, Failed, Loading } from "../parts/states";
import { statusName } from "./instance/kinds";

import "../styles/operations.css";

export const shortOf = (id: string) => id.slice(-8);
const ALL = "*";

export function InstancesPage() {
  const { t } = useTranslation();
  const may = useMay();
  const navigate = useNavigate();
  const filter = useSearch({ from: "/member/instances" });
  const nameOf = useName();
  const found = useInfiniteQuery(instancesQuery(filter));
  const { data: flows } = useQuery(definitionsQuery("flow"));
  const { data: types } = useQuery(definitionsQuery("envelope"));
  const items = found.data?.pages.flatMap((page) => page.items) ?? [];
  const isFiltered = filter.status !== undefined || filter.workflow !== undefined || filter.subject !== undefined;
  const change = (changes: typeof filter) => void navigate({ to: "/instances", search: { ...filter, ...changes } });
  const columns: GridColumn<InstanceItem>[] = [
    {
      id: "workflow",
      name: t("instances.workflow"),
      cell: (one) => (
        <Link to="/instances/$instanceId" params={{ instanceId: one.id }} className="link">
          {plain(one.workflow_id)} <span className="quiet">{shortOf(one.id)}</span>
        </Link>
      ),
    },
    {
      id: "status",
      name: t("instances.status"),
      cell: (one) => (
        <span className="status" data-status={one.status}>
          {statusName(t, one.status)}
        </span>
      ),
    },
    {
      id: "at",
      name: t("instances.at"),
      cell: (one) => (
        <>
          {one.stands_at.map(plain).join(", ")}
          {typeof one.incident?.code === "string" && <p className="code">{one.incident.code}</p>}
        </>
      ),
    },
    { id: "who", name: t("instances.startedBy"), isMinor: true, cell: (one) => nameOf(one.subject_id) },
    { id: "since", name: t("instances.updated"), isMinor: true, cell: (one) => <Time at={one.updated_at} /> },
  ];
  const workflows = [...new Set([...(flows ?? []), ...(types ?? []), ...(filter.workflow ? [filter.workflow] : [])])].sort();
  return (
    <div className="board">
      <header className="board-head">
        <h1>{t("nav.instances")}</h1>
        <div className="filters">
          <Choice
            label={t("instances.status")}
            chosen={filter.status ?? ALL}
            onChoose={(id) => change({ status: STATUSES.find((each) => each === id) })}
            options={[
              { id: ALL, name: t("filter.all") },
              ...STATUSES.map((each) => ({ id: each, name: statusName(t, each) })),
            ]}
          />
          <Choice
            label={t("instances.workflow")}
            chosen={filter.workflow ?? ALL}
            onChoose={(id) => change({ workflow: id === ALL ? undefined : id })}
            options={[{ id: ALL, name: t("filter.all") }, ...workflows.map((each) => ({ id: each, name: plain(each) }))]}
          />
          {may({ scope: "workflows:read" }) && filter.subject && (
            <Button className="button" onPress={() => change({ subject: undefined })}>
              {t("instances.startedByOne", { name: nameOf(filter.subject) })} ×
            </Button>
          )}
        </div>
      </header>
      {found.error && items.length === 0 && <Failed error={found.error} retry={() => void found.refetch()} />}
      {found.isPending && <Loading />}
      {found.isSuccess && items.length === 0 && (
        <Empty
          title={t(isFiltered ? "inbox.emptyFilter" : "instances.empty")}
          hint={isFiltered ? undefined : t("instances.emptyHint")}
          action={
            isFiltered && (
              <Button className="button" onPress={() => void navigate({ to: "/instances", search: {} })}>
                {t("inbox.clear")}
              </Button>
            )
          }
        />
      )}
      {items.length > 0 && <Selectable items={items} columns={columns} />}
      {found.hasNextPage && (
        <Button className="button" isPending={found.isFetchingNextPage} onPress={() => void found.fetchNextPage()}>
          {t("inbox.more")}
        </Button>
      )}
    </div>
  );
}

function Selectable({ items, columns }: { items: InstanceItem[]; columns: GridColumn<InstanceItem>[] }) {
  const { t } = useTranslation();
  const may = useMay();
  const client = useQueryClient();
  const { many, start, stop, clear } = useMany();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [isCancelling, setCancelling] = useState(false);
  const canRetry = may({ scope: "workflows:write", capability: "workflows:retry" });
  const canCancel = may({ scope: "workflows:write", capability: "workflows:cancel" });
  const chosen = items
    .filter((one) => selected.has(one.id))
    .map((one) => ({ id: one.id, name: `${plain(one.workflow_id)} ${shortOf(one.id)}` }));
  const after = async () => {
    setSelected(new Set());
    await Promise.all([["instances"], ["incidents"], ["health"]].map((queryKey) => client.invalidateQueries({ queryKey })));
  };
  const of = (id: string) => ({ path: { instance_id: id } });
  return (
    <>
      {many && <ManyResults many={many} onStop={stop} onClose={clear} />}
      {(canRetry || canCancel) && chosen.length > 0 && (
        <div className="actions bulk" role="toolbar" aria-label={t("grid.selected", { count: chosen.length })}>
          <strong>{t("grid.selected", { count: chosen.length })}</strong>
          {canRetry && (
            <Button
              className="button"
              data-tone="main"
              onPress={() =>
                void start(t("repair.retry"), chosen, (one) =>
                  taken(api.POST("/api/instances/{instance_id}/retry", { params: of(one.id), body: {} })),
                ).then(after)
              }
            >
              {t("repair.retry")}
            </Button>
          )}
          {canCancel && (
            <Button className="button" onPress={() => setCancelling(true)}>
              {t("repair.cancel")}
            </Button>
          )}
        </div>
      )}
      {isCancelling && (
        <Asked
          question={{
            title: t("many.cancel", { count: chosen.length }),
            says: t("repair.says.cancel"),
            act: t("repair.cancel"),
            tone: "bad",
            reason: "needed",
            run: async (reason) => {
              void start(t("repair.cancel"), chosen, (one) =>
                taken(api.POST("/api/instances/{instance_id}/cancel", { params: of(one.id), body: { reason } })),
              ).then(after);
              await Promise.resolve();
            },
          }}
          onClose={() => setCancelling(false)}
        />
      )}
      <Grid
        label={t("nav.instances")}
        items={items}
        columns={columns}
        nameOf={(one) => `${plain(one.workflow_id)} ${shortOf(one.id)}`}
        selected={selected}
        onSelect={canRetry || canCancel ? setSelected : undefined}
      />
    </>
  );
}
