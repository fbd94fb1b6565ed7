/** One request: the version that is to be decided, who is asked, what was said, and the decision. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { ArrowLeft, Ban, CircleCheck, CircleX, FileText, RefreshCw } from "lucide-react";
import { useEffect, useRef, useState, type RefObject } from "react";
import { Button, Label, Text, TextArea, TextField } from "react-aria-components";
import { useTranslation } from "react-i18next";

import { api, Refusal, taken } from "../api/client";
import { approvalQuery, contractQuery, type Approval, type Contract, type InboxItem } from "../api/queries";
import { useLiveInstance } from "../api/live";
import { useKeys } from "../app/keys";
import { useSay } from "../app/Shell";
import { Discussion } from "../parts/Discussion";
import { Fields } from "../parts/Fields";
import { money, plain } from "../parts/format";
import { Due, Time, useName, useNow, useReader } from "../parts/reader";
import { Failed, Loading } from "../parts/states";
import { useInbox } from "./InboxPage";
import { NotFound } from "./NotFound";

export function RequestPage() {
  const { requestId } = useParams({ from: "/member/inbox/$requestId" });
  const { data: request, error, refetch } = useQuery(approvalQuery(requestId));
  useLiveInstance(request?.instance_id, [
    ["approval", requestId],
    ["entity", request?.entity_id],
  ]);
  // A request that is not there, and one that is another org's, look the same. So do ids that are none.
  if (error instanceof Refusal && [404, 422].includes(error.problem.status)) return <NotFound />;
  if (error && !request) return <Failed error={error} retry={() => void refetch()} />;
  if (!request) return <Loading />;
  return <Request key={request.id} request={request} />;
}

function Request({ request }: { request: Approval }) {
  const { t } = useTranslation();
  const reader = useReader();
  const nameOf = useName();
  const filter = useSearch({ from: "/member/inbox" });
  const now = useNow();
  const { data: contract } = useQuery({
    ...contractQuery(request.entity_type ?? ""),
    enabled: request.entity_type != null,
  });
  const { items } = useInbox();
  const item = items.find((each) => each.request_id === request.id);
  const title = request.title ?? plain(request.node_name ?? request.node_id);
  const head = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · Assent`;
    return () => {
      document.title = "Assent";
    };
  }, [title]);
  return (
    <article className="request">
      <header className="head">
        <Link to="/inbox" search={filter} className="back">
          <ArrowLeft aria-hidden size={16} />
          {t("inbox.back")}
        </Link>
        <p className="kind">
          {contract?.label ?? plain(request.entity_type ?? "")}
          <span>{plain(request.node_name ?? request.node_id)}</span>
        </p>
        <div className="head-line">
          <h2 ref={head} tabIndex={-1}>
            {title}
          </h2>
          {request.figure != null && (
            <p className="figure">
              {request.currency ? money(request.figure, request.currency, reader.language) : request.figure}
            </p>
          )}
        </div>
        <p className="facts">
          <Asked name={nameOf(request.requested_by)} at={request.created_at} />
          {request.due_at && request.status === "pending" && (
            <Due at={request.due_at} overdue={Date.parse(request.due_at) < now} />
          )}
          {request.entity_id && (
            <span className="tag" title={t("request.pinned")}>
              {t("request.version", { version: request.entity_version })}
            </span>
          )}
          {request.entity_type && request.entity_id && (
            <Link
              to="/documents/$entityType/$entityId"
              params={{ entityType: request.entity_type, entityId: request.entity_id }}
              className="link"
            >
              <FileText aria-hidden size={14} />
              {t("request.document")}
            </Link>
          )}
        </p>
      </header>
      <div className="body">
        {request.snapshot && (
          <section>
            <h3>{t("request.fields")}</h3>
            <Fields data={request.snapshot} contract={contract} />
          </section>
        )}
        <Seats request={request} />
        <Discussion request={request} />
      </div>
      <Decision request={request} item={item} title={title} contract={contract} />
    </article>
  );
}

function Asked({ name, at }: { name: string; at: string }) {
  const { t } = useTranslation();
  const [before, after] = t("request.asked", { name, time: "\u0000" }).split("\u0000");
  return (
    <span>
      {before}
      <Time at={at} />
      {after}
    </span>
  );
}

function Seats({ request }: { request: Approval }) {
  const { t } = useTranslation();
  const nameOf = useName();
  const rule = (group: Approval["groups"][number]) => {
    if (group.mode === "quorum") return t("request.rule.quorum", { count: group.needed });
    if (group.mode === "any" || group.mode === "all" || group.mode === "sequence") return t(`request.rule.${group.mode}`);
    return group.mode;
  };
  return (
    <section>
      <h3>{t("request.who")}</h3>
      {request.groups.map((group) => {
        const seats = request.seats.filter((seat) => seat.group === group.name);
        if (seats.length === 0) return null;
        return (
          <div key={group.name} className="group">
            {(seats.length > 1 || request.groups.length > 1) && (
              <p className="quiet">
                {request.groups.length > 1 && `${plain(group.name)} · `}
                {rule(group)}
              </p>
            )}
            <ul className="seats">
              {seats.map((seat) => {
                const decision = request.decisions.find((each) => each.seat_id === seat.id);
                return (
                  <li key={seat.id} data-answer={decision?.answer ?? seat.status}>
                    <span className="avatar small" aria-hidden data-initial={nameOf(seat.user_id).slice(0, 1).toUpperCase()} />
                    <span className="seat-name">{nameOf(seat.user_id)}</span>
                    <SeatState seat={seat} decision={decision} isOpen={request.status === "pending"} />
                    {decision?.reason && <p className="text">{decision.reason}</p>}
                  </li>
                );
              })}
            </ul>
          </div>
        );
      })}
    </section>
  );
}

interface SeatStateProps {
  seat: Approval["seats"][number];
  decision: Approval["decisions"][number] | undefined;
  isOpen: boolean;
}

function SeatState({ seat, decision, isOpen }: SeatStateProps) {
  const { t } = useTranslation();
  const nameOf = useName();
  if (decision) {
    const words = decision.outcome ?? answerIn(t, decision.answer);
    return (
      <span className="seat-state">
        {words}
        {decision.on_behalf_of && ` · ${nameOf(decision.approver_id)}`} <Time at={decision.decided_at} />
      </span>
    );
  }
  const word = seat.status === "open" && isOpen ? "waiting" : seat.status === "later" && isOpen ? "later" : "closed";
  return <span className="seat-state quiet">{t(`request.${word}`)}</span>;
}

type Translate = ReturnType<typeof useTranslation>["t"];
const ANSWERS = ["approved", "rejected", "abstained", "returned"] as const;

export function answerIn(t: Translate, answer: string): string {
  const known = ANSWERS.find((each) => each === answer);
  return known ? t(`answer.${known}`) : plain(answer);
}

const WHYS = [
  "SEPARATION_OF_DUTIES",
  "POLICY_DENIED",
  "NO_LONGER_QUALIFIED",
  "CLAIMED",
  "NOT_YET_ASKED",
  "ALREADY_DECIDED",
  "APPROVAL_DECIDED",
  "APPROVAL_VOID",
] as const;

interface DecisionProps {
  request: Approval;
  item: InboxItem | undefined;
  title: string;
  contract: Contract | undefined;
}

function Decision({ request, item, title }: DecisionProps) {
  const { t } = useTranslation();
  const nameOf = useName();
  const client = useQueryClient();
  const say = useSay();
  const { items, go } = useInbox();
  const [reason, setReason] = useState("");
  const [rejects, setRejects] = useState(false);
  const approve = useRef<HTMLButtonElement>(null);
  const writing = useRef<HTMLTextAreaElement>(null);
  // What the reader saw when the page opened: from then on, an end of the request is a change under their eyes.
  const [wasOpen] = useState(request.status === "pending");
  const next = nextOf(items, request.id);

  const deciding = useMutation({
    mutationFn: (answer: string) =>
      taken(
        api.POST("/api/approvals/{request_id}/decide", {
          params: { path: { request_id: request.id } },
          body: { answer, reason: reason.trim() || null, on_behalf_of: item?.on_behalf_of ?? null, data: {} },
        }),
      ),
    onSuccess: (_, answer) => {
      say(
        answer === "approved"
          ? t("decide.approved.done", { title })
          : answer === "rejected"
            ? t("decide.rejected.done", { title })
            : t("decide.other.done", { title }),
      );
      void client.invalidateQueries({ queryKey: ["inbox"] });
      void client.invalidateQueries({ queryKey: ["entity", request.entity_id] });
      void go(next, true).then(() => client.invalidateQueries({ queryKey: ["approval", request.id] }));
    },
    onError: () => void client.invalidateQueries({ queryKey: ["approval", request.id] }),
  });
  const canDecide = request.status === "pending" && request.refusal === null && !deciding.isSuccess;
  const begin = () => {
    setRejects(true);
    requestAnimationFrame(() => writing.current?.focus());
  };
  useKeys(canDecide ? { a: () => approve.current?.focus(), r: begin } : {});

  if (!canDecide && !deciding.isSuccess) {
    return <Undecidable request={request} wasOpen={wasOpen} error={deciding.error} />;
  }
  const others = request.answers.filter((answer) => answer !== "approved" && answer !== "rejected");
  return (
    <section className="decision" aria-label={t("decide.title")}>
      {deciding.error && <Failed error={deciding.error} />}
      <Reason request={request} reason={reason} setReason={setReason} isNeeded={rejects} field={writing} />
      <div className="actions">
        {rejects ? (
          <>
            <Button
              className="button"
              data-tone="bad"
              isDisabled={!reason.trim()}
              isPending={deciding.isPending}
              onPress={() => deciding.mutate("rejected")}
            >
              {t("decide.rejectNow")}
            </Button>
            <Button className="button" onPress={() => setRejects(false)}>
              {t("decide.cancel")}
            </Button>
          </>
        ) : (
          <>
            <Button
              ref={approve}
              className="button"
              data-tone="main"
              isPending={deciding.isPending}
              onPress={() => deciding.mutate("approved")}
            >
              <CircleCheck aria-hidden size={16} />
              {t("decide.approve")}
            </Button>
            {request.answers.includes("rejected") && (
              <Button className="button" onPress={begin}>
                <CircleX aria-hidden size={16} />
                {t("decide.reject")}
              </Button>
            )}
            {others.map((answer) => (
              <Button
                key={answer}
                className="button"
                data-tone="quiet"
                isPending={deciding.isPending}
                onPress={() => deciding.mutate(answer)}
              >
                {answer === "abstained" ? t("decide.abstained") : plain(answer)}
              </Button>
            ))}
          </>
        )}
        <p className="final">
          {item?.on_behalf_of && `${t("decide.onBehalf", { name: nameOf(item.on_behalf_of) })} `}
          {t("decide.final", { version: request.entity_version })}
        </p>
      </div>
    </section>
  );
}

interface ReasonProps {
  request: Approval;
  reason: string;
  setReason: (text: string) => void;
  isNeeded: boolean;
  field: RefObject<HTMLTextAreaElement | null>;
}

function Reason({ request, reason, setReason, isNeeded, field }: ReasonProps) {
  const { t } = useTranslation();
  const nameOf = useName();
  return (
    <TextField value={reason} onChange={setReason} isRequired={isNeeded} maxLength={2000}>
      <Label>{isNeeded ? t("decide.reason") : t("decide.reasonOptional")}</Label>
      <TextArea ref={field} className="input" rows={isNeeded ? 3 : 1} />
      {isNeeded && (
        <Text slot="description">{t("decide.reasonNeeded", { name: nameOf(request.requested_by) })}</Text>
      )}
    </TextField>
  );
}

/** Why the reader cannot decide, before they try. */
function Undecidable({ request, wasOpen, error }: { request: Approval; wasOpen: boolean; error: Error | null }) {
  const { t } = useTranslation();
  const refusal = error instanceof Refusal ? { ...error.problem, message: error.problem.detail } : request.refusal;
  const code = request.refusal?.code ?? refusal?.code ?? "";
  const known = WHYS.find((each) => each === code);
  const hasChanged = wasOpen && request.status !== "pending";
  const Icon = hasChanged ? RefreshCw : Ban;
  const ended = request.status !== "pending" && request.status !== "void" && request.status !== "cancelled";
  const title = hasChanged ? t("decide.changed") : ended ? t("decide.ended") : t("decide.not");
  return (
    <section className="decision" aria-label={t("decide.title")}>
      <div className="notice" data-tone={hasChanged ? "warn" : "plain"} role={hasChanged ? "alert" : undefined}>
        <Icon aria-hidden size={18} />
        <div>
          <h3>{title}</h3>
          {hasChanged && <p>{t("decide.changedHint")}</p>}
          {known && <p>{t(`why.${known}`)}</p>}
          {refusal && <p className="quiet">{request.reason ?? refusal.message}</p>}
          {code && <p className="code">{t("problem.code", { code })}</p>}
          {request.entity_type && request.entity_id && hasChanged && (
            <Link
              to="/documents/$entityType/$entityId"
              params={{ entityType: request.entity_type, entityId: request.entity_id }}
              className="button"
            >
              {t("decide.present")}
            </Link>
          )}
        </div>
      </div>
      <div className="actions">
        <Button className="button" data-tone="main" isDisabled>
          <CircleCheck aria-hidden size={16} />
          {t("decide.approve")}
        </Button>
        <Button className="button" isDisabled>
          <CircleX aria-hidden size={16} />
          {t("decide.reject")}
        </Button>
      </div>
    </section>
  );
}

/** The item after this one; else the one before; none where it is the last that waits. */
function nextOf(items: InboxItem[], requestId: string): string | undefined {
  const place = items.findIndex((item) => item.request_id === requestId);
  const rest = items.filter((item) => item.request_id !== requestId);
  return rest[Math.min(Math.max(place, 0), rest.length - 1)]?.request_id;
}
