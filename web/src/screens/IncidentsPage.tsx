/** What waits for an operator: incidents by their error, and the same command for several of them. */
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { Button, ListBox, ListBoxItem } from "react-aria-components";
import { useTranslation } from "react-i18next";

import { api, taken } from "../api/client";
import { groupsQuery, incidentsQuery, type Incident, type IncidentFilter, type IncidentGroup } from "../api/operations";
import { Asked } from "../parts/Asked";
import { plain } from "../parts/format";
import { Grid, type GridColumn } from "../parts/Grid";
import { ManyResults, useMany } from "../parts/many";
import { Time } from "../parts/reader";
import { useMay } from "../parts/rights";
import { Empty, Failed, Loading } from "../parts/states";
import { shortOf } from "./InstancesPage";

import "../styles/operations.css";

const filterOf = ({ kind, code, definition, node }: IncidentGroup): IncidentFilter => ({
  kind,
  code,
  ...(definition && { definition }),
  ...(node && { node }),
});
const keyOf = ({ kind, code, definition, node }: IncidentFilter) => JSON.stringify([kind, code, definition, node]);

export function IncidentsPage() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const filter = useSearch({ from: "/member/incidents" });
  const { data, error, refetch } = useQuery(groupsQuery);
  const groups = data?.items ?? [];
  const isChosen = Object.keys(filter).length > 0;
  return (
    <div className="board split" data-chosen={isChosen}>
      <h1>{t("nav.incidents")}</h1>
      <section className="board-list" aria-label={t("incidents.groups")}>
        {error && !data && <Failed error={error} retry={() => void refetch()} />}
        {!error && !data && <Loading />}
        {data && groups.length === 0 && <Empty title={t("incidents.empty")} hint={t("incidents.emptyHint")} />}
        {groups.length > 0 && (
          <ListBox
            className="groups"
            aria-label={t("incidents.groups")}
            selectionMode="single"
            selectedKeys={[keyOf(filter)]}
            onSelectionChange={(keys) => {
              const group = groups.find((each) => (keys as Set<string>).has(keyOf(filterOf(each))));
              if (group) void navigate({ to: "/incidents", search: filterOf(group) });
            }}
          >
            {groups.map((group) => (
              <ListBoxItem key={keyOf(filterOf(group))} id={keyOf(filterOf(group))} className="item" textValue={group.code}>
                <span className="item-title">{group.code}</span>
                <span className="item-figure">{group.number}</span>
                <span className="item-facts">
                  <span>{t(`incidents.kind.${group.kind}`)}</span>
                  {group.definition && <span>{plain(group.definition)}</span>}
                  {group.node && <span>{plain(group.node)}</span>}
                </span>
                {group.message && <span className="item-facts">{group.message}</span>}
                <span className="item-time">
                  <Time at={group.last_at} />
                </span>
              </ListBoxItem>
            ))}
          </ListBox>
        )}
      </section>
      <section className="board-detail" aria-label={t("incidents.list")}>
        {isChosen && (
          <Link to="/incidents" search={{}} className="back">
            {t("incidents.back")}
          </Link>
        )}
        <Incidents key={keyOf(filter)} filter={filter} hasGroups={groups.length > 0} />
      </section>
    </div>
  );
}

function Incidents({ filter, hasGroups }: { filter: IncidentFilter; hasGroups: boolean }) {
  const { t } = useTranslation();
  const may = useMay();
  const client = useQueryClient();
  const found = useInfiniteQuery(incidentsQuery(filter));
  const { many, start, stop, clear } = useMany();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [asked, setAsked] = useState<"discard" | "cancel" | null>(null);
  const items = found.data?.pages.flatMap((page) => page.items) ?? [];
  const chosen = items.filter((one) => selected.has(one.id)).map((one) => ({ ...one, name: titleOf(one) }));
  const offered = (name: string) => chosen.length > 0 && chosen.every((one) => one.ways_out.some((way) => way.name === name));
  const after = async () => {
    setSelected(new Set());
    const stale = [["incidents"], ["instances"], ["instance"], ["health"]];
    await Promise.all(stale.map((queryKey) => client.invalidateQueries({ queryKey })));
  };
  const title = (one: Incident) => (
    <>
      {one.instance_id ? (
        <Link to="/instances/$instanceId" params={{ instanceId: one.instance_id }} className="link">
          {titleOf(one)}
        </Link>
      ) : (
        titleOf(one)
      )}
      {one.message && <p className="text clamp">{one.message}</p>}
    </>
  );
  const columns: GridColumn<Incident>[] = [
    { id: "what", name: t("incidents.what"), cell: title },
    { id: "kind", name: t("incidents.kind"), isMinor: true, cell: (one) => t(`incidents.kind.${one.kind}`) },
    { id: "node", name: t("instances.at"), isMinor: true, cell: (one) => (one.node ? plain(one.node) : "–") },
    { id: "since", name: t("incidents.since"), cell: (one) => <Time at={one.since} /> },
  ];
  const canDiscard = may({ scope: "operations:write", capability: "workflows:repair" });
  const canCancel = may({ scope: "workflows:write", capability: "workflows:cancel" });
  if (found.error && items.length === 0) return <Failed error={found.error} retry={() => void found.refetch()} />;
  if (found.isPending) return <Loading />;
  return (
    <>
      {filter.code && (
        <header className="group-head">
          <h2>{filter.code}</h2>
          <p className="quiet">
            {[filter.kind && t(`incidents.kind.${filter.kind}`), filter.definition, filter.node]
              .flatMap((part) => (part ? [plain(part)] : []))
              .join(" · ")}
          </p>
        </header>
      )}
      {many && <ManyResults many={many} onStop={stop} onClose={clear} />}
      {items.length === 0 && !many && hasGroups && <Empty title={t("incidents.solved")} hint={t("incidents.solvedHint")} />}
      {chosen.length > 0 && (
        <div className="actions bulk" role="toolbar" aria-label={t("grid.selected", { count: chosen.length })}>
          <strong>{t("grid.selected", { count: chosen.length })}</strong>
          {offered("retry") && (
            <Button
              className="button"
              data-tone="main"
              onPress={() => void start(t("repair.retry"), chosen, retry).then(after)}
            >
              {t("repair.retry")}
            </Button>
          )}
          {offered("discard") && canDiscard && (
            <Button className="button" onPress={() => setAsked("discard")}>
              {t("repair.discard")}
            </Button>
          )}
          {offered("cancel") && canCancel && (
            <Button className="button" onPress={() => setAsked("cancel")}>
              {t("repair.cancel")}
            </Button>
          )}
        </div>
      )}
      {asked && (
        <Asked
          question={{
            title: t(`many.${asked}`, { count: chosen.length }),
            says: t(`repair.says.${asked}`),
            act: t(`repair.${asked}`),
            tone: "bad",
            reason: "needed",
            run: async (reason) => {
              const run = asked === "discard" ? discard : cancel;
              void start(t(`repair.${asked}`), chosen, (one) => run(one, reason)).then(after);
              await Promise.resolve();
            },
          }}
          onClose={() => setAsked(null)}
        />
      )}
      {items.length > 0 && (
        <Grid
          label={t("incidents.list")}
          items={items}
          columns={columns}
          nameOf={titleOf}
          selected={selected}
          onSelect={setSelected}
        />
      )}
      {found.hasNextPage && (
        <Button className="button" isPending={found.isFetchingNextPage} onPress={() => void found.fetchNextPage()}>
          {t("inbox.more")}
        </Button>
      )}
    </>
  );
}

function titleOf(one: Incident): string {
  const about = one.definition ? plain(one.definition) : (one.what ?? one.code);
  return `${about} ${shortOf(one.instance_id ?? one.id)}`;
}

function retry(one: Incident): Promise<unknown> {
  if (one.kind === "instance") {
    return taken(api.POST("/api/instances/{instance_id}/retry", { params: { path: { instance_id: one.id } }, body: {} }));
  }
  return taken(api.POST("/api/operations/dead-letters/{letter_id}/retry", { params: { path: { letter_id: one.id } } }));
}

function discard(one: Incident, reason: string): Promise<unknown> {
  const params = { path: { letter_id: one.id } };
  return taken(api.POST("/api/operations/dead-letters/{letter_id}/discard", { params, body: { reason } }));
}

function cancel(one: Incident, reason: string): Promise<unknown> {
  const params = { path: { instance_id: one.instance_id ?? one.id } };
  return taken(api.POST("/api/instances/{instance_id}/cancel", { params, body: { reason } }));
}
