/** A form that waits: its fields by type, a draft that saves itself, and what is wrong beside the field. */
import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { ArrowLeft, Ban, Check, FileText, RefreshCw } from "lucide-react";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { Button } from "react-aria-components";
import { useTranslation } from "react-i18next";

import { api, Refusal, taken, type Schemas } from "../api/client";
import { useLiveInstance } from "../api/live";
import { sessionQuery } from "../api/queries";
import { useKeys } from "../app/keys";
import { useSay } from "../app/Shell";
import { money, plain } from "../parts/format";
import { Due, Time, useName, useNow, useReader } from "../parts/reader";
import { SchemaForm, type Data, type FieldProblems } from "../parts/SchemaForm";
import { Failed, Loading, ProblemText } from "../parts/states";
import { useInbox } from "./InboxPage";
import { NotFound } from "./NotFound";

type FormBody = Schemas["FormBody"];
type FieldProblem = Schemas["FieldProblem"];

/** Events that send what was filled in; others turn it down. */
const SENDS = ["submitted", "completed", "answered", "done"];
const SAVE_AFTER_MS = 700;
const LOOK_MS = 15_000;
/** A request that outlives its page may not be larger. */
const KEPT_ALIVE_MAX = 60_000;

export const formQuery = (stepId: string) =>
  queryOptions({
    queryKey: ["form", stepId],
    queryFn: () => taken(api.GET("/api/forms/{step_id}", { params: { path: { step_id: stepId } } })),
    refetchInterval: LOOK_MS,
  });

export function FormPage() {
  const { stepId } = useParams({ from: "/member/inbox/forms/$stepId" });
  const { data: form, error, refetch } = useQuery(formQuery(stepId));
  useLiveInstance(form?.instance_id, [["form", stepId]]);
  if (error instanceof Refusal && [404, 422].includes(error.problem.status)) return <NotFound />;
  if (error && !form) return <Failed error={error} retry={() => void refetch()} />;
  if (!form) return <Loading />;
  return <Form key={form.id} form={form} />;
}

function Form({ form }: { form: FormBody }) {
  const { t } = useTranslation();
  const reader = useReader();
  const nameOf = useName();
  const now = useNow();
  const filter = useSearch({ from: "/member/inbox" });
  const kind = form.label ?? plain(form.node_name);
  const title = form.title ?? kind;
  useEffect(() => {
    document.title = `${title} · Assent`;
    return () => {
      document.title = "Assent";
    };
  }, [title]);
  const [before, after] = t("request.asked", { name: nameOf(form.requested_by), time: "\u0000" }).split("\u0000");
  return (
    <article className="request">
      <header className="head">
        <Link to="/inbox" search={filter} className="back">
          <ArrowLeft aria-hidden size={16} />
          {t("inbox.back")}
        </Link>
        <p className="kind">
          {plain(form.entity_type ?? form.workflow)}
          {form.title !== null && <span>{kind}</span>}
        </p>
        <div className="head-line">
          <h2>{title}</h2>
          {form.figure !== null && (
            <p className="figure">
              {form.currency ? money(form.figure, form.currency, reader.language) : form.figure}
            </p>
          )}
        </div>
        <p className="facts">
          <span>
            {before}
            <Time at={form.created_at} />
            {after}
          </span>
          {form.due_at && form.status === "open" && (
            <Due at={form.due_at} overdue={Date.parse(form.due_at) < now} />
          )}
          {form.entity_type && form.entity_id && (
            <Link
              to="/documents/$entityType/$entityId"
              params={{ entityType: form.entity_type, entityId: form.entity_id }}
              className="link"
            >
              <FileText aria-hidden size={14} />
              {t("request.document")}
            </Link>
          )}
        </p>
      </header>
      <Filling form={form} title={title} />
    </article>
  );
}

/** Problems by the id of their field; the first name of a path is that of the body. */
function problemsOf(found: readonly FieldProblem[] | null | undefined): FieldProblems {
  const problems: Record<string, string[]> = {};
  for (const one of found ?? []) {
    const id = ["root", ...one.path.slice(1)].join("_");
    (problems[id] ??= []).push(one.message);
  }
  return problems;
}

function Filling({ form, title }: { form: FormBody; title: string }) {
  const { t } = useTranslation();
  const say = useSay();
  const nameOf = useName();
  const client = useQueryClient();
  const { items, go } = useInbox();
  const { data: session } = useQuery(sessionQuery);
  const [data, setData] = useState<Data>(() => form.draft ?? {});
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  const [refused, setRefused] = useState<FieldProblems>({});
  const [wasOpen] = useState(form.status === "open");
  const latest = useRef(data);
  const submit = useRef<HTMLButtonElement>(null);
  const path = { step_id: form.id };

  const saving = useMutation({
    mutationFn: (content: Data) =>
      taken(
        api.PUT("/api/forms/{step_id}/draft", {
          params: { path },
          body: { data: content },
          keepalive: JSON.stringify(content).length < KEPT_ALIVE_MAX,
        }),
      ),
    onSuccess: (body) => client.setQueryData(formQuery(form.id).queryKey, body),
  });
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const save = saving.mutate;
  const flush = useCallback(() => {
    if (timer.current === undefined) return;
    clearTimeout(timer.current);
    timer.current = undefined;
    save(latest.current);
  }, [save]);
  // What was typed last is kept also where the reader goes on at once.
  useEffect(() => {
    const onHide = () => document.visibilityState === "hidden" && flush();
    document.addEventListener("visibilitychange", onHide);
    window.addEventListener("pagehide", flush);
    return () => {
      document.removeEventListener("visibilitychange", onHide);
      window.removeEventListener("pagehide", flush);
      flush();
    };
  }, [flush]);

  const change = (content: Data) => {
    latest.current = content;
    setData(content);
    setRefused({});
    clearTimeout(timer.current);
    timer.current = setTimeout(flush, SAVE_AFTER_MS);
  };
  const sending = useMutation({
    mutationFn: (event: string) => {
      clearTimeout(timer.current);
      timer.current = undefined;
      return taken(
        api.POST("/api/instances/{instance_id}/advance", {
          params: { path: { instance_id: form.instance_id } },
          body: { event, input: latest.current, step: form.node_id },
        }),
      );
    },
    onSuccess: () => {
      say(t("form.sent", { title }));
      const place = items.findIndex((item) => item.request_id === form.id);
      const rest = items.filter((item) => item.request_id !== form.id);
      void client.invalidateQueries({ queryKey: ["inbox"] });
      void go(rest[Math.min(Math.max(place, 0), rest.length - 1)]?.request_id, true).then(() =>
        client.invalidateQueries({ queryKey: ["form", form.id] }),
      );
    },
    onError: (error) => {
      if (error instanceof Refusal) setRefused(problemsOf(error.problem.problems));
      save(latest.current);
    },
  });
  // Fields take the focus again when nothing is being sent.
  useEffect(() => {
    if (sending.isError) document.querySelector<HTMLElement>(".schema-form :is(input, textarea, button)[aria-invalid=true]")?.focus();
  }, [sending.isError, sending.submittedAt]);
  const claiming = useMutation({
    mutationFn: (claims: boolean) =>
      taken(
        claims
          ? api.POST("/api/forms/{step_id}/claim", { params: { path } })
          : api.POST("/api/forms/{step_id}/release", { params: { path } }),
      ),
    onSuccess: (body) => client.setQueryData(formQuery(form.id).queryKey, body),
  });
  const answers = [...form.answers].sort((a, b) => Number(SENDS.includes(b)) - Number(SENDS.includes(a)));
  const isOthers = form.claimed_by !== null && form.claimed_by !== session?.user_id;
  const isOpen = form.status === "open" && !isOthers && !sending.isSuccess;
  useKeys(isOpen ? { a: () => submit.current?.focus() } : {});

  // While the reader writes, only fields that they have left say what is wrong with them.
  const problems = useMemo(() => {
    const drafted = Object.entries(problemsOf(form.draft_problems)).filter(([id]) => left.has(id));
    return { ...Object.fromEntries(drafted), ...refused };
  }, [form.draft_problems, left, refused]);
  const fieldless = sending.error instanceof Refusal && Object.keys(refused).every((id) => id === "root");

  if (sending.isSuccess) return null;
  return (
    <>
      <div className="body">
        {!isOpen && <Closed form={form} wasOpen={wasOpen} by={isOthers ? nameOf(form.claimed_by ?? "") : null} />}
        {claiming.error && <Failed error={claiming.error} />}
        <SchemaForm
          schema={form.form_schema}
          data={data}
          problems={problems}
          isDisabled={!isOpen}
          onChange={change}
          onLeave={(id) => setLeft((now) => (now.has(id) ? now : new Set([...now, id])))}
        />
      </div>
      {isOpen && (
        <section className="decision" aria-label={t("form.actions")}>
          {sending.error &&
            (fieldless || !(sending.error instanceof Refusal) ? (
              <Failed error={sending.error} />
            ) : (
              <p className="wrong" role="alert">
                {t("form.wrong", { count: Object.keys(refused).length })}
              </p>
            ))}
          <div className="actions">
            {answers.map((event, place) => (
              <Button
                key={event}
                ref={place === 0 ? submit : undefined}
                className="button"
                data-tone={place === 0 ? "main" : undefined}
                isPending={sending.isPending}
                onPress={() => sending.mutate(event)}
              >
                {SENDS.includes(event) ? t("form.submit") : plain(event)}
              </Button>
            ))}
            <Button
              className="button"
              data-tone="quiet"
              isPending={claiming.isPending}
              onPress={() => claiming.mutate(form.claimed_by === null)}
            >
              {t(form.claimed_by === null ? "form.claim" : "form.release")}
            </Button>
            <Kept saving={saving} form={form} isDirty={timer.current !== undefined} />
          </div>
        </section>
      )}
    </>
  );
}

interface KeptProps {
  saving: { isPending: boolean; error: Error | null };
  form: FormBody;
  isDirty: boolean;
}

/** Whether what was written is kept. */
function Kept({ saving, form, isDirty }: KeptProps) {
  const { t } = useTranslation();
  const nameOf = useName();
  const { data: session } = useQuery(sessionQuery);
  if (saving.error) {
    return (
      <div className="final wrong" role="alert">
        <p>{t("form.unsaved")}</p>
        <ProblemText error={saving.error} />
      </div>
    );
  }
  return (
    <p className="final" role="status">
      {saving.isPending || isDirty ? (
        t("form.saving")
      ) : form.draft_at ? (
        <>
          <Check aria-hidden size={14} /> {t("form.saved")}
          {form.draft_by !== null && form.draft_by !== session?.user_id && ` · ${nameOf(form.draft_by)}`},{" "}
          <Time at={form.draft_at} />
        </>
      ) : (
        t("form.saves")
      )}
    </p>
  );
}

function Closed({ form, wasOpen, by }: { form: FormBody; wasOpen: boolean; by: string | null }) {
  const { t } = useTranslation();
  const hasChanged = wasOpen && form.status !== "open";
  const Icon = hasChanged ? RefreshCw : Ban;
  const why = form.status === "answered" ? "answered" : "cancelled";
  return (
    <div className="notice" data-tone={hasChanged ? "warn" : "plain"} role={hasChanged ? "alert" : undefined}>
      <Icon aria-hidden size={18} />
      <div>
        <h3>{hasChanged ? t("decide.changed") : t("form.closed")}</h3>
        <p>{by !== null && form.status === "open" ? t("item.claimed", { name: by }) : t(`form.${why}`)}</p>
        {form.reason && <p className="quiet">{form.reason}</p>}
      </div>
    </div>
  );
}
