/** The inbox: filters, the list of what waits for the reader, and beside it the request that is chosen. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Outlet, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import {
  Button,
  Checkbox,
  Label,
  ListBox,
  ListBoxItem,
  Popover,
  Select,
  SelectValue,
  ToggleButton,
  ToggleButtonGroup,
} from "react-aria-components";
import { Check, ChevronDown } from "lucide-react";
import { useTranslation } from "react-i18next";

import { countsQuery, inboxQuery, type InboxFilter, type InboxItem } from "../api/queries";
import { useKeys } from "../app/keys";
import { money, plain } from "../parts/format";
import { Due, Time, useName, useReader } from "../parts/reader";
import { Empty, Failed, Loading } from "../parts/states";

const BUCKETS = ["all", "mine", "roles", "delegated"] as const;
const SORTS = ["age", "due", "figure"] as const;

/** The items of the inbox under the present filter, and the ways through them. */
export function useInbox() {
  const filter = useSearch({ from: "/member/inbox" });
  const found = useInfiniteQuery(inboxQuery(filter));
  const items = useMemo(() => {
    const all = (found.data?.pages.flatMap((page) => page.items) ?? []).filter((item) => item.kind !== "question");
    // A person with two seats of one request decides them one by one, in the one request.
    return [...new Map(all.map((item) => [item.request_id, item])).values()];
  }, [found.data]);
  const navigate = useNavigate();
  const go = (requestId: string | undefined, replace = false) => {
    if (requestId === undefined) return navigate({ to: "/inbox", search: filter, replace });
    const isForm = items.find((item) => item.request_id === requestId)?.kind === "form";
    return isForm
      ? navigate({ to: "/inbox/forms/$stepId", params: { stepId: requestId }, search: filter, replace })
      : navigate({ to: "/inbox/$requestId", params: { requestId }, search: filter, replace });
  };
  return { filter, found, items, go };
}

export function InboxPage() {
  const { t } = useTranslation();
  const { filter, found, items, go } = useInbox();
  const { requestId: ofRequest, stepId } = useParams({ strict: false });
  const requestId = ofRequest ?? stepId;
  const step = (by: number) => {
    const place = items.findIndex((item) => item.request_id === requestId);
    const next = items[place === -1 ? 0 : Math.min(items.length - 1, Math.max(0, place + by))];
    if (next) void go(next.request_id, requestId !== undefined);
  };
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    ...(requestId !== undefined && { Escape: () => void go(undefined) }),
  });
  const isFiltered = filter.bucket !== undefined || filter.overdue === true;
  return (
    <div className="inbox" data-chosen={requestId !== undefined}>
      <h1 className="hidden">{t("inbox.title")}</h1>
      <Filters filter={filter} />
      <section className="list" aria-label={t("inbox.list")}>
        {found.isPending && <Loading />}
        {found.error && items.length === 0 && <Failed error={found.error} retry={() => void found.refetch()} />}
        {found.isSuccess && items.length === 0 && <Nothing isFiltered={isFiltered} clear={() => void go(undefined)} />}
        {items.length > 0 && <Items items={items} chosen={requestId} onChoose={(id) => void go(id)} />}
        {found.hasNextPage && (
          <Button className="button wide" isPending={found.isFetchingNextPage} onPress={() => void found.fetchNextPage()}>
            {t("inbox.more")}
          </Button>
        )}
      </section>
      <div className="detail">
        <Outlet />
      </div>
    </div>
  );
}

function Nothing({ isFiltered, clear }: { isFiltered: boolean; clear: () => void }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  if (!isFiltered) return <Empty title={t("inbox.empty")} hint={t("inbox.emptyHint")} />;
  const all = () => {
    clear();
    void navigate({ to: "/inbox", search: {} });
  };
  return (
    <Empty
      title={t("inbox.emptyFilter")}
      hint={t("inbox.emptyFilterHint")}
      action={
        <Button className="button" onPress={all}>
          {t("inbox.clear")}
        </Button>
      }
    />
  );
}

function Filters({ filter }: { filter: InboxFilter }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const { data: counts } = useQuery(countsQuery);
  const change = (changes: InboxFilter) => void navigate({ to: "/inbox", search: { ...filter, ...changes } });
  const number = (bucket: (typeof BUCKETS)[number]) =>
    counts === undefined
      ? undefined
      : bucket === "all"
        ? counts.mine.open + counts.roles.open + counts.delegated.open
        : counts[bucket].open;
  return (
    <section className="rail" aria-label={t("inbox.filters")}>
      <ToggleButtonGroup
        className="buckets"
        aria-label={t("inbox.filters")}
        disallowEmptySelection
        selectedKeys={[filter.bucket ?? "all"]}
        onSelectionChange={(keys) => {
          const bucket = BUCKETS.find((each) => keys.has(each));
          change({ bucket: bucket === "all" ? undefined : bucket });
        }}
      >
        {BUCKETS.map((bucket) => (
          <ToggleButton key={bucket} id={bucket} className="bucket">
            <span>{t(`inbox.${bucket}`)}</span>
            <span className="number">{number(bucket)}</span>
          </ToggleButton>
        ))}
      </ToggleButtonGroup>
      <Checkbox
        className="check"
        isSelected={filter.overdue === true}
        onChange={(overdue) => change({ overdue: overdue ? true : undefined })}
      >
        <span className="box" aria-hidden>
          <Check size={12} strokeWidth={3} />
        </span>
        {t("inbox.overdue")}
      </Checkbox>
      <Select
        className="select"
        selectedKey={filter.sort ?? "age"}
        onSelectionChange={(sort) => change({ sort: SORTS.find((each) => each === sort) })}
      >
        <Label>{t("inbox.sort")}</Label>
        <Button className="button">
          <SelectValue />
          <ChevronDown aria-hidden size={14} />
        </Button>
        <Popover className="popover">
          <ListBox className="menu">
            {SORTS.map((sort) => (
              <ListBoxItem key={sort} id={sort} className="menu-item" textValue={t(`inbox.sort.${sort}`)}>
                <Check aria-hidden size={14} className="tick" />
                {t(`inbox.sort.${sort}`)}
              </ListBoxItem>
            ))}
          </ListBox>
        </Popover>
      </Select>
    </section>
  );
}

function Items({ items, chosen, onChoose }: { items: InboxItem[]; chosen?: string; onChoose: (id: string) => void }) {
  const { t } = useTranslation();
  return (
    <ListBox
      className="items"
      aria-label={t("inbox.list")}
      items={items}
      selectionMode="single"
      selectionBehavior="replace"
      selectedKeys={chosen ? [chosen] : []}
      onSelectionChange={(keys) => {
        const [id] = [...keys];
        if (typeof id === "string") onChoose(id);
      }}
    >
      {(item) => (
        <ListBoxItem
          id={item.request_id}
          className="item"
          textValue={item.title ?? item.node_name}
          data-overdue={item.overdue}
        >
          <Item item={item} />
        </ListBoxItem>
      )}
    </ListBox>
  );
}

function Item({ item }: { item: InboxItem }) {
  const { t } = useTranslation();
  const reader = useReader();
  const nameOf = useName();
  const kind = plain(item.entity_type ?? item.workflow);
  return (
    <>
      <span className="item-title">{item.title ?? kind}</span>
      <span className="item-figure">
        {item.figure !== null && (item.currency ? money(item.figure, item.currency, reader.language) : item.figure)}
      </span>
      <span className="item-facts">
        {item.title && <span>{kind}</span>}
        <span>{t("item.from", { name: nameOf(item.requested_by) })}</span>
        <span>{plain(item.node_name)}</span>
        {item.on_behalf_of && <span className="tag">{t("item.for", { name: nameOf(item.on_behalf_of) })}</span>}
        {item.kind === "form" && <span className="tag">{t("item.form")}</span>}
        {item.claimed_by && <span className="tag">{t("item.claimed", { name: nameOf(item.claimed_by) })}</span>}
        {item.questions > 0 && <span className="tag">{t("item.questions", { count: item.questions })}</span>}
      </span>
      <span className="item-time">
        <Time at={item.asked_at} form="short" />
        {item.due_at && <Due at={item.due_at} overdue={item.overdue} />}
      </span>
    </>
  );
}
