/** Documents of a type: found by words, by state and by conditions on their indexed fields. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Search } from "lucide-react";
import { useState } from "react";
import { Button, FieldError, Form, Input, Label, SearchField, Text, TextField } from "react-aria-components";
import { useTranslation } from "react-i18next";

import { Refusal } from "../api/client";
import { definitionsQuery, documentsQuery, indexesQuery } from "../api/operations";
import { contractQuery, type Entity } from "../api/queries";
import { Choice } from "../parts/Choice";
import { plain, shown } from "../parts/format";
import { Grid, type GridColumn } from "../parts/Grid";
import { labelOf } from "../parts/Fields";
import { Time, useReader } from "../parts/reader";
import { Empty, Failed, Loading } from "../parts/states";
import { titleOf } from "./DocumentPage";
import { NotFound } from "./NotFound";

import "../styles/operations.css";

const ALL = "*";
const FIELDS_MAX = 2;

export function DocumentsPage() {
  const { t } = useTranslation();
  const { entityType } = useParams({ strict: false });
  const types = useQuery(definitionsQuery("envelope"));
  const type = entityType ?? types.data?.[0];
  if (types.error && !types.data) return <Failed error={types.error} retry={() => void types.refetch()} />;
  if (types.isPending) return <Loading />;
  if (type === undefined) return <Empty title={t("documents.noTypes")} hint={t("documents.noTypesHint")} />;
  return <Documents key={type} type={type} types={[...new Set([...(types.data ?? []), type])]} />;
}

function Documents({ type, types }: { type: string; types: string[] }) {
  const { t } = useTranslation();
  const reader = useReader();
  const navigate = useNavigate();
  const filter = useSearch({ strict: false }) as { q?: string; state?: string; where?: string };
  const found = useInfiniteQuery(documentsQuery(type, filter));
  const { data: contract } = useQuery(contractQuery(type));
  const { data: indexes } = useQuery(indexesQuery(type));
  const [words, setWords] = useState(filter.q ?? "");
  const [condition, setCondition] = useState(filter.where ?? "");
  const go = (entityType: string, search: typeof filter) =>
    void navigate({ to: "/documents/$entityType", params: { entityType }, search });
  const items = found.data?.pages.flatMap((page) => page.items) ?? [];
  const isFiltered = Boolean(filter.q || filter.state || filter.where);
  const refusal = found.error instanceof Refusal ? found.error.problem : null;
  if (refusal && (refusal.status === 404 || refusal.code === "UNKNOWN_ENTITY_TYPE")) return <NotFound />;
  const indexed = indexes?.items.map((one) => one.field) ?? [];
  const figure = contract?.fields.find((field) => field.name === contract.figure);
  const facts = (contract?.fields ?? [])
    .filter((field) => field.name !== contract?.title && field.name !== figure?.name && indexed.includes(field.name))
    .slice(0, FIELDS_MAX);
  const columns: GridColumn<Entity>[] = [
    {
      id: "title",
      name: contract?.title ? labelOf(contract.title, contract) : t("documents.document"),
      cell: (one) => (
        <Link to="/documents/$entityType/$entityId" params={{ entityType: type, entityId: one.id }} className="link">
          {contract ? titleOf(one, contract) : one.id.slice(-8)}
        </Link>
      ),
    },
    {
      id: "state",
      name: t("documents.state"),
      cell: (one) => (
        <span className="tag">{contract?.states.find((state) => state.name === one.state)?.label ?? plain(one.state)}</span>
      ),
    },
    ...(figure
      ? [
          {
            id: figure.name,
            name: labelOf(figure.name, contract),
            cell: (one: Entity) => <span className="figure-cell">{shown(one.data[figure.name], figure, one.data, reader)}</span>,
          },
        ]
      : []),
    ...facts.map((field) => ({
      id: field.name,
      name: labelOf(field.name, contract),
      isMinor: true,
      cell: (one: Entity) => shown(one.data[field.name], field, one.data, reader),
    })),
    { id: "updated", name: t("instances.updated"), isMinor: true, cell: (one) => <Time at={one.updated_at} /> },
  ];
  return (
    <div className="board">
      <header className="board-head">
        <h1>{t("nav.documents")}</h1>
        <Form
          className="filters"
          onSubmit={(event) => {
            event.preventDefault();
            go(type, { ...filter, q: words.trim() || undefined, where: condition.trim() || undefined });
          }}
        >
          <Choice
            label={t("documents.type")}
            chosen={type}
            onChoose={(id) => go(id, {})}
            options={types.map((each) => ({ id: each, name: each === type ? (contract?.label ?? plain(each)) : plain(each) }))}
          />
          <Choice
            label={t("documents.state")}
            chosen={filter.state ?? ALL}
            onChoose={(id) => go(type, { ...filter, state: id === ALL ? undefined : id })}
            options={[
              { id: ALL, name: t("filter.all") },
              ...(contract?.states ?? []).map((state) => ({ id: state.name, name: state.label ?? plain(state.name) })),
            ]}
          />
          {indexed.length > 0 && (
            <>
          <SearchField
            value={words}
            onChange={setWords}
            onClear={() => go(type, { ...filter, q: undefined })}
            maxLength={200}
            className="react-aria-TextField"
          >
            <Label>{t("documents.words")}</Label>
            <Input className="input" />
          </SearchField>
          <TextField value={condition} onChange={setCondition} maxLength={200}>
            <Label>{t("documents.condition")}</Label>
            <Input className="input mono" placeholder={indexed[0] ? `${figure && indexed.includes(figure.name) ? figure.name : indexed[0]} >= 1000` : ""} />
            <FieldError />
          </TextField>
          <Button type="submit" className="button" data-tone="main">
            <Search aria-hidden size={14} />
            {t("documents.search")}
          </Button>
            </>
          )}
        </Form>
        {indexed.length > 0 && (
          <Text className="quiet small">{t("documents.indexed", { names: indexed.join(", ") })}</Text>
        )}
      </header>
      {found.error && <Failed error={found.error} retry={() => void found.refetch()} />}
      {found.isPending && <Loading />}
      {found.isSuccess && items.length === 0 && (
        <Empty
          title={t(isFiltered ? "inbox.emptyFilter" : "documents.empty")}
          hint={isFiltered ? undefined : t("documents.emptyHint")}
          action={
            isFiltered && (
              <Button
                className="button"
                onPress={() => {
                  setWords("");
                  setCondition("");
                  go(type, {});
                }}
              >
                {t("inbox.clear")}
              </Button>
            )
          }
        />
      )}
      {items.length > 0 && !found.error && (
        <Grid
          label={t("nav.documents")}
          items={items}
          columns={columns}
          nameOf={(one) => (contract ? titleOf(one, contract) : one.id)}
        />
      )}
      {found.hasNextPage && (
        <Button className="button" isPending={found.isFetchingNextPage} onPress={() => void found.fetchNextPage()}>
          {t("inbox.more")}
        </Button>
      )}
    </div>
  );
}
