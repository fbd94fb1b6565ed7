/** The queue of documents that wait for their review: the page beside its data, and the decision. */
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { ArrowLeft, Ban, ChevronDown, CircleCheck, CircleX, Download, FileText } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import {
  Button,
  Input,
  Label,
  ListBox,
  ListBoxItem,
  Popover,
  Select,
  SelectValue,
  TextArea,
  TextField,
} from "react-aria-components";
import { useTranslation } from "react-i18next";

import { api, Refusal, taken } from "../api/client";
import {
  clientDocumentQuery,
  codesQuery,
  contentPath,
  pictureQuery,
  PICTURES,
  queueQuery,
  type ClientDocument,
  type DocumentDetails,
  type DocumentVersion,
  type RejectionCode,
} from "../api/clientQueries";
import { sessionQuery } from "../api/queries";
import { useKeys } from "../app/keys";
import { useSay } from "../app/Shell";
import { Fields } from "../parts/Fields";
import { plain } from "../parts/format";
import { Time, useName } from "../parts/reader";
import { may } from "../parts/rights";
import { Empty, Failed, Loading } from "../parts/states";
import { NotFound } from "./NotFound";

function useQueue() {
  const found = useInfiniteQuery(queueQuery);
  // The oldest first: it has waited longest.
  const items = useMemo(() => (found.data?.pages.flatMap((page) => page.items) ?? []).toReversed(), [found.data]);
  const navigate = useNavigate();
  const go = (documentId: string | undefined, replace = false) =>
    documentId === undefined
      ? navigate({ to: "/clients/review", replace })
      : navigate({ to: "/clients/review/$documentId", params: { documentId }, replace });
  return { found, items, go };
}

export function ReviewPage() {
  const { t } = useTranslation();
  const { found, items, go } = useQueue();
  const { documentId } = useParams({ strict: false });
  const step = (by: number) => {
    const place = items.findIndex((item) => item.id === documentId);
    const next = items[place === -1 ? 0 : Math.min(items.length - 1, Math.max(0, place + by))];
    if (next) void go(next.id, documentId !== undefined);
  };
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    ...(documentId !== undefined && { Escape: () => void go(undefined) }),
  });
  return (
    <div className="inbox review" data-chosen={documentId !== undefined}>
      <h1 className="hidden">{t("review.title")}</h1>
      <section className="list" aria-label={t("review.list")}>
        <header className="list-head">
          <Link to="/clients" className="link">
            <ArrowLeft aria-hidden size={14} />
            {t("clients.title")}
          </Link>
          <h2>{t("review.title")}</h2>
        </header>
        {found.isPending && <Loading />}
        {found.error && items.length === 0 && <Failed error={found.error} retry={() => void found.refetch()} />}
        {found.isSuccess && items.length === 0 && <Empty title={t("review.empty")} hint={t("review.emptyHint")} />}
        {items.length > 0 && (
          <ListBox
            className="items"
            aria-label={t("review.list")}
            items={items}
            selectionMode="single"
            selectionBehavior="replace"
            selectedKeys={documentId ? [documentId] : []}
            onSelectionChange={(keys) => {
              const [id] = [...keys];
              if (typeof id === "string") void go(id);
            }}
          >
            {(item) => (
              <ListBoxItem id={item.id} className="item" textValue={`${plain(item.document_type)} ${item.subject}`}>
                <span className="item-title">{plain(item.document_type)}</span>
                <span className="item-figure">
                  {(item.version_no ?? 1) > 1 && (
                    <span className="tag">{t("request.version", { version: item.version_no ?? 1 })}</span>
                  )}
                </span>
                <span className="item-facts">
                  <span>{item.subject}</span>
                </span>
                <span className="item-time">
                  <Time at={item.created_at} form="short" />
                </span>
              </ListBoxItem>
            )}
          </ListBox>
        )}
        {found.hasNextPage && (
          <Button className="button wide" isPending={found.isFetchingNextPage} onPress={() => void found.fetchNextPage()}>
            {t("inbox.more")}
          </Button>
        )}
      </section>
      <div className="detail">
        {documentId !== undefined ? (
          <Reviewed key={documentId} documentId={documentId} items={items} go={go} />
        ) : (
          items.length > 0 && <Empty title={t("review.choose")} hint={t("inbox.chooseHint")} />
        )}
      </div>
    </div>
  );
}

type Go = ReturnType<typeof useQueue>["go"];

function Reviewed({ documentId, items, go }: { documentId: string; items: ClientDocument[]; go: Go }) {
  const { data, error, refetch } = useQuery(clientDocumentQuery(documentId));
  if (error instanceof Refusal && [404, 422].includes(error.problem.status)) return <NotFound />;
  if (error && !data) return <Failed error={error} retry={() => void refetch()} />;
  if (!data) return <Loading />;
  return <Review details={data} items={items} go={go} />;
}

function Review({ details, items, go }: { details: DocumentDetails; items: ClientDocument[]; go: Go }) {
  const { t } = useTranslation();
  const { document: about, versions } = details;
  const version = versions[0];
  const title = `${plain(about.document_type)} · ${about.subject}`;
  useEffect(() => {
    document.title = `${title} · Assent`;
    return () => {
      document.title = "Assent";
    };
  }, [title]);
  return (
    <article className="request">
      <header className="head">
        <Link to="/clients/review" className="back">
          <ArrowLeft aria-hidden size={16} />
          {t("review.back")}
        </Link>
        <p className="kind">{about.subject}</p>
        <div className="head-line">
          <h2>{plain(about.document_type)}</h2>
          {version && (
            <span className="tag" data-need={version.status}>
              {t(`need.${version.status === "pending" ? "received" : version.status}`)}
            </span>
          )}
        </div>
      </header>
      {version === undefined ? (
        <Empty title={t("review.nothing")} />
      ) : (
        <>
          <div className="evidence">
            <Viewer version={version} name={plain(about.document_type)} />
            <Facts version={version} details={details} />
          </div>
          <Verdict key={version.id} version={version} about={about} items={items} go={go} />
        </>
      )}
    </article>
  );
}

/** The page: a picture from bytes of a known type, never the file itself; other files are downloaded. */
function Viewer({ version, name }: { version: DocumentVersion; name: string }) {
  const { t } = useTranslation();
  const { file } = version;
  const isKept = file?.status === "kept";
  const isPicture = isKept && PICTURES.includes(file.type);
  const { data, error } = useQuery({ ...pictureQuery(version), enabled: isPicture });
  const url = useBlobUrl(data);
  const text = typeof version.ocr_extracted?.text === "string" ? version.ocr_extracted.text : null;
  const [isLarge, setIsLarge] = useState(false);
  return (
    <section className="viewer" aria-label={t("review.page")}>
      {error && <Failed error={error} />}
      {url !== null && (
        <Button
          className="page"
          data-large={isLarge}
          aria-label={t(isLarge ? "review.smaller" : "review.larger")}
          onPress={() => setIsLarge(!isLarge)}
        >
          <img src={url} alt={t("review.picture", { name })} />
        </Button>
      )}
      {isPicture && !url && !error && <Loading />}
      {!isPicture && (
        <div className="state">
          <FileText aria-hidden size={28} strokeWidth={1.5} />
          <p>{t(!file ? "review.noFile" : isKept ? "review.noPreview" : "review.gone")}</p>
        </div>
      )}
      {isKept && (
        <a className="button" href={contentPath(version)} download>
          <Download aria-hidden size={16} />
          <span className="file-name">{t("review.download", { name: file.name ?? file.type })}</span>
        </a>
      )}
      {text !== null && (
        <details className="extracted" open={!isPicture}>
          <summary>{t("review.text")}</summary>
          <p className="text">{text}</p>
        </details>
      )}
    </section>
  );
}

function useBlobUrl(blob: Blob | null | undefined): string | null {
  const [url, setUrl] = useState<string | null>(null);
  useEffect(() => {
    if (!blob) return;
    const made = URL.createObjectURL(blob);
    setUrl(made);
    return () => {
      setUrl(null);
      URL.revokeObjectURL(made);
    };
  }, [blob]);
  return url;
}

function Facts({ version, details }: { version: DocumentVersion; details: DocumentDetails }) {
  const { t } = useTranslation();
  const nameOf = useName();
  const { text: _, ...read } = version.ocr_extracted ?? {};
  const by = version.created_by.startsWith("outside:") ? t("review.client") : nameOf(version.created_by);
  const before = details.versions.slice(1);
  return (
    <section className="evidence-data">
      <h3>{t("review.data")}</h3>
      <Fields data={version.structured_data ?? {}} contract={undefined} />
      {Object.keys(read).length > 0 && (
        <>
          <h3>{t("review.read")}</h3>
          <Fields data={read} contract={undefined} />
        </>
      )}
      <p className="quiet">
        {by}, <Time at={version.created_at} />
        {version.quality_score !== null && <> · {t("review.quality", { score: version.quality_score })}</>}
      </p>
      {before.length > 0 && (
        <>
          <h3>{t("review.before")}</h3>
          <ol className="log">
            {before.map((one) => (
              <li key={one.id}>
                <p className="log-head">
                  <strong>{t("request.version", { version: one.version_no })}</strong>
                  <span className="tag" data-need={one.status}>
                    {t(`need.${one.status === "pending" ? "received" : one.status}`)}
                  </span>
                  {one.rejection_code && <span>{one.rejection_code}</span>}
                  <span className="quiet">{one.verified_by && nameOf(one.verified_by)}</span>
                </p>
                {one.rejection_reason && <p className="text">{one.rejection_reason}</p>}
              </li>
            ))}
          </ol>
        </>
      )}
    </section>
  );
}

interface VerdictProps {
  version: DocumentVersion;
  about: ClientDocument;
  items: ClientDocument[];
  go: Go;
}

function Verdict({ version, about, items, go }: VerdictProps) {
  const { t } = useTranslation();
  const say = useSay();
  const client = useQueryClient();
  const { data: session } = useQuery(sessionQuery);
  const [rejects, setRejects] = useState(false);
  const [validTo, setValidTo] = useState("");
  const [code, setCode] = useState<RejectionCode | null>(null);
  const [reason, setReason] = useState("");
  const verify = useRef<HTMLButtonElement>(null);
  const name = plain(about.document_type);
  const path = { document_id: version.document_id, version_id: version.id };
  const judging = useMutation({
    mutationFn: (verdict: "verify" | "reject") =>
      verdict === "verify"
        ? taken(
            api.POST("/api/documents/{document_id}/versions/{version_id}/verify", {
              params: { path },
              body: { valid_to: validTo || null },
            }),
          )
        : taken(
            api.POST("/api/documents/{document_id}/versions/{version_id}/reject", {
              params: { path },
              body: { code: code?.code ?? "", reason: reason.trim() || null },
            }),
          ),
    onSuccess: (_, verdict) => {
      say(t(verdict === "verify" ? "review.verified" : "review.rejected", { name }));
      const place = items.findIndex((item) => item.id === about.id);
      const rest = items.filter((item) => item.id !== about.id);
      void client.invalidateQueries({ queryKey: ["requirements"] });
      void go(rest[Math.min(Math.max(place, 0), rest.length - 1)]?.id, true).then(() =>
        client.invalidateQueries({ queryKey: ["review"] }),
      );
    },
    onError: () => void client.invalidateQueries({ queryKey: ["review"] }),
  });
  const isOwn = version.created_by === session?.user_id;
  const isOpen = version.status === "in_qa" || version.status === "pending";
  const mayJudge = isOpen && !isOwn && may(session, { capability: "documents:review" }) && !judging.isSuccess;
  useKeys(mayJudge ? { a: () => verify.current?.focus(), r: () => setRejects(true) } : {});

  if (!mayJudge) {
    if (judging.isSuccess) return null;
    return (
      <section className="decision" aria-label={t("decide.title")}>
        <div className="notice" data-tone="plain">
          <Ban aria-hidden size={18} />
          <div>
            <h3>{t(isOpen ? "decide.not" : "review.ended")}</h3>
            <p>{t(!isOpen ? `review.is.${version.status === "verified" ? "verified" : "rejected"}` : isOwn ? "review.own" : "review.noRight")}</p>
          </div>
        </div>
      </section>
    );
  }
  return (
    <section className="decision" aria-label={t("decide.title")}>
      {judging.error && <Failed error={judging.error} />}
      {rejects ? (
        <div className="rejecting">
          <Codes code={code} onChoose={setCode} />
          {code !== null && <Preview code={code} />}
          <TextField value={reason} onChange={setReason} maxLength={2000}>
            <Label>{t("review.reason")}</Label>
            <TextArea className="input" rows={1} />
          </TextField>
        </div>
      ) : (
        <TextField className="react-aria-TextField valid-to" type="date" value={validTo} onChange={setValidTo}>
          <Label>{t("review.validTo")}</Label>
          <Input className="input" />
        </TextField>
      )}
      <div className="actions">
        {rejects ? (
          <>
            <Button
              className="button"
              data-tone="bad"
              isDisabled={code === null}
              isPending={judging.isPending}
              onPress={() => judging.mutate("reject")}
            >
              {t(code === null || code.retryable ? "review.rejectAsk" : "review.rejectEnd")}
            </Button>
            <Button className="button" onPress={() => setRejects(false)}>
              {t("decide.cancel")}
            </Button>
          </>
        ) : (
          <>
            <Button
              ref={verify}
              className="button"
              data-tone="main"
              isPending={judging.isPending}
              onPress={() => judging.mutate("verify")}
            >
              <CircleCheck aria-hidden size={16} />
              {t("review.verify")}
            </Button>
            <Button className="button" onPress={() => setRejects(true)}>
              <CircleX aria-hidden size={16} />
              {t("decide.reject")}
            </Button>
          </>
        )}
        <p className="final">{t("review.final", { version: version.version_no })}</p>
      </div>
    </section>
  );
}

function Codes({ code, onChoose }: { code: RejectionCode | null; onChoose: (code: RejectionCode | null) => void }) {
  const { t } = useTranslation();
  const { data, error } = useQuery(codesQuery);
  if (error) return <Failed error={error} />;
  // A list without entries does not open.
  if (!data) return <Loading />;
  return (
    <Select
      className="codes"
      selectedKey={code?.code ?? null}
      placeholder={t("review.chooseCode")}
      onSelectionChange={(key) => onChoose(data.items.find((one) => one.code === key) ?? null)}
    >
      <Label>{t("review.code")}</Label>
      <Button className="button" autoFocus>
        <SelectValue>{({ defaultChildren, selectedText }) => selectedText || defaultChildren}</SelectValue>
        <ChevronDown aria-hidden size={14} />
      </Button>
      <Popover className="popover">
        <ListBox className="menu" items={data.items}>
          {(one) => (
            <ListBoxItem id={one.code} className="menu-item code-item" textValue={one.code}>
              <span>{one.code}</span>
              <span className="quiet">{one.ops_message}</span>
            </ListBoxItem>
          )}
        </ListBox>
      </Popover>
    </Select>
  );
}

/** What the client reads: in the first language, and in those into which the code was translated. */
function Preview({ code }: { code: RejectionCode }) {
  const { t } = useTranslation();
  const others = Object.entries(code.translations).filter(([, words]) => words.client_message || words.next_action);
  return (
    <div className="notice" data-tone={code.retryable ? "warn" : "bad"} role="status">
      <div>
        <h3>{t("review.reads")}</h3>
        <blockquote>
          {code.client_message} {code.next_action}
        </blockquote>
        {others.map(([language, words]) => (
          <blockquote key={language} lang={language}>
            <span className="tag">{language}</span> {words.client_message ?? code.client_message}{" "}
            {words.next_action ?? code.next_action}
          </blockquote>
        ))}
        <p className="quiet">{t(code.retryable ? "review.again" : "review.end")}</p>
      </div>
    </div>
  );
}
