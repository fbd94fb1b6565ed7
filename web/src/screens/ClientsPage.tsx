/** The board of documents of clients: what is required of each, how far it has come, and what is to be done about it. */
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Check, Copy, ScanSearch, Send } from "lucide-react";
import { useMemo, useState } from "react";
import {
  Button,
  Checkbox,
  Dialog,
  Heading,
  Input,
  Label,
  Modal,
  ModalOverlay,
  SearchField,
  Text,
  TextArea,
  TextField,
  ToggleButton,
  ToggleButtonGroup,
} from "react-aria-components";
import { useTranslation } from "react-i18next";

import { api, taken } from "../api/client";
import {
  boardCountsQuery,
  boardQuery,
  STATUSES,
  today,
  type BoardFilter,
  type Requirement,
} from "../api/clientQueries";
import { sessionQuery } from "../api/queries";
import { useSay } from "../app/Shell";
import { plain, shownDay } from "../parts/format";
import { useReader } from "../parts/reader";
import { may } from "../parts/rights";
import { Empty, Failed, Loading } from "../parts/states";

/** What is required of one subject by one instance, or of the subject alone. */
interface Case {
  key: string;
  subject: string;
  instanceId: string | null;
  needs: Requirement[];
}

const DONE = ["verified", "waived"];

function casesOf(items: Requirement[]): Case[] {
  const found = new Map<string, Case>();
  for (const one of items) {
    const key = `${one.instance_id ?? ""} ${one.subject}`;
    const there = found.get(key) ?? { key, subject: one.subject, instanceId: one.instance_id, needs: [] };
    there.needs.push(one);
    found.set(key, there);
  }
  for (const one of found.values()) one.needs.sort((a, b) => a.doc_type.localeCompare(b.doc_type));
  return [...found.values()];
}

const isSatisfied = (one: Requirement) =>
  DONE.includes(one.status) || (one.required_state === "received" && ["received", "in_qa"].includes(one.status));

/** What is needed, not requested yet, and may be requested once more. */
const isToBeAsked = (one: Requirement) =>
  ["missing", "rejected", "expired"].includes(one.status) && one.attempt_count < one.max_attempts;

export function ClientsPage() {
  const { t } = useTranslation();
  const filter = useSearch({ from: "/member/clients" });
  const navigate = useNavigate();
  const found = useInfiniteQuery(boardQuery(filter));
  const { data: counts } = useQuery(boardCountsQuery(filter));
  const cases = useMemo(() => casesOf(found.data?.pages.flatMap((page) => page.items) ?? []), [found.data]);
  const change = (changes: BoardFilter) =>
    void navigate({ to: "/clients", search: { ...filter, ...changes }, replace: true });
  const all = counts && Object.values(counts.statuses).reduce((sum, count) => sum + count, 0);
  const isFiltered = Object.values(filter).some((one) => one !== undefined);
  return (
    <div className="board">
      <section className="rail" aria-label={t("inbox.filters")}>
        <ToggleButtonGroup
          className="buckets"
          aria-label={t("clients.status")}
          disallowEmptySelection
          selectedKeys={[filter.status ?? "all"]}
          onSelectionChange={(keys) => change({ status: STATUSES.find((each) => keys.has(each)) })}
        >
          <ToggleButton id="all" className="bucket">
            <span>{t("clients.all")}</span>
            <span className="number">{all}</span>
          </ToggleButton>
          {STATUSES.map((status) => (
            <ToggleButton key={status} id={status} className="bucket">
              <span>{t(`need.${status}`)}</span>
              <span className="number">{counts?.statuses[status] ?? 0}</span>
            </ToggleButton>
          ))}
        </ToggleButtonGroup>
        <Checkbox
          className="check"
          isSelected={filter.overdue === true}
          onChange={(overdue) => change({ overdue: overdue || undefined })}
        >
          <span className="box" aria-hidden>
            <Check size={12} strokeWidth={3} />
          </span>
          {t("inbox.overdue")}
        </Checkbox>
      </section>
      <div className="cases">
        <header className="board-head">
          <h1>{t("clients.title")}</h1>
          <SearchField
            key={filter.subject ?? ""}
            className="search"
            aria-label={t("clients.search")}
            defaultValue={filter.subject ?? ""}
            onSubmit={(subject) => change({ subject: subject.trim() || undefined })}
            onClear={() => change({ subject: undefined })}
          >
            <Input className="input" placeholder={t("clients.search")} />
          </SearchField>
          <Link to="/clients/review" className="button">
            <ScanSearch aria-hidden size={16} />
            {t("review.title")}
            {(counts?.statuses.in_qa ?? 0) > 0 && <span className="count">{counts?.statuses.in_qa}</span>}
          </Link>
        </header>
        {found.isPending && <Loading />}
        {found.error && cases.length === 0 && <Failed error={found.error} retry={() => void found.refetch()} />}
        {found.isSuccess &&
          cases.length === 0 &&
          (isFiltered ? (
            <Empty
              title={t("inbox.emptyFilter")}
              action={
                <Link to="/clients" className="button">
                  {t("inbox.clear")}
                </Link>
              }
            />
          ) : (
            <Empty title={t("clients.empty")} hint={t("clients.emptyHint")} />
          ))}
        {cases.map((one) => (
          <CaseCard key={one.key} one={one} isWhole={filter.status === undefined && filter.overdue === undefined} />
        ))}
        {found.hasNextPage && (
          <Button className="button" isPending={found.isFetchingNextPage} onPress={() => void found.fetchNextPage()}>
            {t("inbox.more")}
          </Button>
        )}
      </div>
    </div>
  );
}

function CaseCard({ one, isWhole }: { one: Case; isWhole: boolean }) {
  const { t } = useTranslation();
  const { data: session } = useQuery(sessionQuery);
  const [sends, setSends] = useState(false);
  const toAsk = one.needs.filter(isToBeAsked);
  const satisfied = one.needs.filter(isSatisfied).length;
  return (
    <section className="case" aria-label={one.subject}>
      <header className="case-head">
        <h2>
          <Link to="/clients" search={{ subject: one.subject }}>
            {one.subject}
          </Link>
        </h2>
        {isWhole && (
          <p className="quiet" data-done={satisfied === one.needs.length}>
            {t("clients.satisfied", { done: satisfied, count: one.needs.length })}
          </p>
        )}
        {toAsk.length > 0 && may(session, { capability: "requirements:manage" }) && (
          <Button className="button" onPress={() => setSends(true)}>
            <Send aria-hidden size={14} />
            {t("clients.send", { count: toAsk.length })}
          </Button>
        )}
      </header>
      <ul className="needs">
        {one.needs.map((need) => (
          <Need key={need.id} need={need} mayWaive={may(session, { capability: "requirements:waive" })} />
        ))}
      </ul>
      {sends && <SendDialog one={one} toAsk={toAsk} close={() => setSends(false)} />}
    </section>
  );
}

function Need({ need, mayWaive }: { need: Requirement; mayWaive: boolean }) {
  const { t } = useTranslation();
  const reader = useReader();
  const [waives, setWaives] = useState(false);
  const isOpen = ["missing", "requested", "rejected", "expired"].includes(need.status);
  const isLate = isOpen && need.due_date !== null && need.due_date < today();
  const isStuck = isOpen && need.status !== "requested" && !isToBeAsked(need);
  return (
    <li className="need" data-status={need.status}>
      <span className="need-name">{plain(need.doc_type)}</span>
      <span className="tag" data-need={need.status}>
        {t(`need.${need.status}`)}
      </span>
      <span className="quiet">{t("clients.round", { round: need.attempt_count, most: need.max_attempts })}</span>
      <span>
        {need.due_date !== null && isOpen && (
          <span className="due" data-overdue={isLate}>
            {t(isLate ? "clients.late" : "clients.due", { day: shownDay(need.due_date, reader.language) })}
          </span>
        )}
        {need.valid_to !== null && need.status === "verified" && (
          <span className="quiet">{t("clients.validTo", { day: shownDay(need.valid_to, reader.language) })}</span>
        )}
      </span>
      <span className="need-actions">
        {need.status === "in_qa" && need.document_id !== null && (
          <Link to="/clients/review/$documentId" params={{ documentId: need.document_id }} className="link">
            {t("clients.review")}
          </Link>
        )}
        {mayWaive && !DONE.includes(need.status) && (
          <Button
            className="button"
            data-tone="quiet"
            aria-label={t("clients.waiveOf", { name: plain(need.doc_type), subject: need.subject })}
            onPress={() => setWaives(true)}
          >
            {t("clients.waive")}
          </Button>
        )}
      </span>
      {need.message !== null && !isSatisfied(need) && (
        <p className="need-note">
          <strong>{need.rejection_code}</strong> {need.message}
        </p>
      )}
      {isStuck && <p className="need-note">{t("clients.stuck")}</p>}
      {waives && <WaiveDialog need={need} close={() => setWaives(false)} />}
    </li>
  );
}

function WaiveDialog({ need, close }: { need: Requirement; close: () => void }) {
  const { t } = useTranslation();
  const say = useSay();
  const client = useQueryClient();
  const [reason, setReason] = useState("");
  const name = plain(need.doc_type);
  const waiving = useMutation({
    mutationFn: () =>
      taken(
        api.POST("/api/requirements/{requirement_id}/waive", {
          params: { path: { requirement_id: need.id } },
          body: { reason: reason.trim() },
        }),
      ),
    onSuccess: async () => {
      say(t("clients.waived", { name }));
      close();
      await client.invalidateQueries({ queryKey: ["requirements"] });
    },
  });
  return (
    <ModalOverlay className="veil" isOpen onOpenChange={close} isDismissable>
      <Modal className="modal wide">
        <Dialog>
          <Heading slot="title">{t("clients.waiveOf", { name, subject: need.subject })}</Heading>
          <p>{t("clients.waiveHint")}</p>
          {waiving.error && <Failed error={waiving.error} />}
          <TextField value={reason} onChange={setReason} isRequired maxLength={2000} autoFocus>
            <Label>{t("decide.reason")}</Label>
            <TextArea className="input" rows={3} />
          </TextField>
          <div className="actions">
            <Button
              className="button"
              data-tone="main"
              isDisabled={!reason.trim()}
              isPending={waiving.isPending}
              onPress={() => waiving.mutate()}
            >
              {t("clients.waiveNow")}
            </Button>
            <Button className="button" slot="close">
              {t("decide.cancel")}
            </Button>
          </div>
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}

function SendDialog({ one, toAsk, close }: { one: Case; toAsk: Requirement[]; close: () => void }) {
  const { t } = useTranslation();
  const client = useQueryClient();
  const [asked] = useState(toAsk);
  const [mail, setMail] = useState("");
  const sending = useMutation({
    mutationFn: () =>
      taken(
        api.POST("/api/requirements/solicit", {
          body: {
            subject: one.subject,
            doc_types: asked.map((need) => need.doc_type),
            instance_id: one.instanceId,
            notify: mail.trim() || null,
          },
        }),
      ),
    onSuccess: () => client.invalidateQueries({ queryKey: ["requirements"] }),
  });
  return (
    <ModalOverlay className="veil" isOpen onOpenChange={close} isDismissable={!sending.isPending}>
      <Modal className="modal wide">
        <Dialog>
          <Heading slot="title">{t("clients.sendTitle", { subject: one.subject })}</Heading>
          {sending.error && <Failed error={sending.error} />}
          <ul className="plain">
            {asked.map((need) => (
              <li key={need.id}>
                {plain(need.doc_type)}
                {need.message !== null && <p className="quiet">{need.message}</p>}
              </li>
            ))}
          </ul>
          {sending.data ? (
            <Asked requestId={sending.data.request_id} mail={mail.trim()} />
          ) : (
            <>
              <TextField type="email" value={mail} onChange={setMail} autoFocus maxLength={200}>
                <Label>{t("clients.mail")}</Label>
                <Input className="input" />
                <Text slot="description">{t("clients.mailHint")}</Text>
              </TextField>
              <div className="actions">
                <Button className="button" data-tone="main" isPending={sending.isPending} onPress={() => sending.mutate()}>
                  {t("clients.send", { count: asked.length })}
                </Button>
                <Button className="button" slot="close">
                  {t("decide.cancel")}
                </Button>
              </div>
            </>
          )}
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}

/** What was asked for; and a link to pass on by other ways than a mail. */
function Asked({ requestId, mail }: { requestId: string; mail: string }) {
  const { t } = useTranslation();
  const say = useSay();
  const { data: session } = useQuery(sessionQuery);
  const linking = useMutation({
    mutationFn: () =>
      taken(
        api.POST("/api/outside-requests/{request_id}/upload-links", {
          params: { path: { request_id: requestId } },
          body: { days: 30 },
        }),
      ),
  });
  const url = linking.data?.url;
  return (
    <>
      <p role="status">{mail ? t("clients.sentTo", { mail }) : t("clients.sent")}</p>
      {linking.error && <Failed error={linking.error} />}
      {url ? (
        <TextField value={url} isReadOnly>
          <Label>{t("clients.link")}</Label>
          <Input className="input" />
          <Text slot="description">{t("clients.linkHint")}</Text>
        </TextField>
      ) : (
        <p className="quiet">{t("clients.linkHint")}</p>
      )}
      <div className="actions">
        {url ? (
          <Button
            className="button"
            onPress={() => void navigator.clipboard?.writeText(url).then(() => say(t("clients.copied")))}
          >
            <Copy aria-hidden size={14} />
            {t("clients.copy")}
          </Button>
        ) : (
          may(session, { capability: "documents:write" }) && (
            <Button className="button" isPending={linking.isPending} onPress={() => linking.mutate()}>
              {t("clients.makeLink")}
            </Button>
          )
        )}
        <Button className="button" slot="close">
          {t("keys.close")}
        </Button>
      </div>
    </>
  );
}
