/** @jsxImportSource preact */
/** What an outside party is asked for, and a place for each document of it. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

import { exact, plain, relative, varietyOf } from "../parts/format";
import { Failure, look, send, type Asked, type AskedDocument } from "./api";
import { language, t } from "./words";

const variety = varietyOf(language);
const LOOK_EVERY_MS = 15_000;
const TRY_EVERY_MS = 3_000;
const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
/** Pictures that every browser shows, and that run nothing. */
const SHOWN = ["image/jpeg", "image/png", "image/webp", "image/gif"];
/** After these, nothing can be handed in by this link. */
const ENDS = ["COMPLETED", "LINK_EXPIRED", "LINK_REVOKED", "REQUEST_ENDED", "NOT_FOUND"];
const KNOWN = [...ENDS, "ALREADY_HANDED_IN", "FILE_TOO_LARGE", "TOO_MANY_REQUESTS", "unreachable"];

const day = (date: string) =>
  new Intl.DateTimeFormat(variety, { dateStyle: "long", timeZone: "UTC" }).format(new Date(`${date}T00:00:00Z`));

function size(bytes: number): string {
  const [unit, by] = bytes < 1024 * 1024 ? (["kilobyte", 1024] as const) : (["megabyte", 1024 * 1024] as const);
  const format = new Intl.NumberFormat(variety, { style: "unit", unit, unitDisplay: "short", maximumFractionDigits: 1 });
  return format.format(bytes / by);
}

export function UploadPage() {
  const [asked, setAsked] = useState<Asked | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const isComplete = asked !== null && asked.documents.every((one) => one.handed_in_at !== null);
  const refresh = useCallback(async () => {
    try {
      setAsked(await look());
      setProblem(null);
    } catch (error) {
      setProblem(error instanceof Failure ? error.code : "other");
    }
  }, []);

  useEffect(() => {
    document.documentElement.lang = language;
    void refresh();
  }, [refresh]);
  useEffect(() => {
    document.title = asked ? `${t("upload.title")} · ${asked.org_name}` : t("upload.title");
  }, [asked]);
  const hasEnded = isComplete || (problem !== null && ENDS.includes(problem));
  useEffect(() => {
    if (hasEnded) return;
    const again = () => document.visibilityState === "visible" && void refresh();
    const timer = setInterval(again, problem === null ? LOOK_EVERY_MS : TRY_EVERY_MS);
    document.addEventListener("visibilitychange", again);
    window.addEventListener("online", again);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", again);
      window.removeEventListener("online", again);
    };
  }, [hasEnded, problem, refresh]);

  return (
    <>
      <header class="top">{asked && <span class="brand asker">{asked.org_name}</span>}</header>
      <main class="uploads">
        {problem !== null && !isComplete && (asked === null || ENDS.includes(problem)) ? (
          <Problem code={problem} isPage />
        ) : asked === null ? (
          <p class="state quiet" role="status">
            {t("upload.loading")}
          </p>
        ) : (
          <>
            {problem === "unreachable" && (
              <p class="strip" role="alert">
                {t("problem.unreachable")}. {t("hint.unreachable")}
              </p>
            )}
            <Uploads asked={asked} isComplete={isComplete} refresh={refresh} />
          </>
        )}
      </main>
    </>
  );
}

/** What went wrong, in plain words; the code is for support. */
function Problem({ code, isPage = false }: { code: string; isPage?: boolean }) {
  const known = KNOWN.includes(code) ? code : "other";
  const Title = isPage ? "h1" : "h3";
  return (
    <div class={isPage ? "state" : "notice"} data-tone={isPage ? undefined : "bad"} role="alert">
      <div class="words">
        <Title>{t(`problem.${known}`)}</Title>
        <p>{t(`hint.${known}`)}</p>
        {code !== "unreachable" && code !== "COMPLETED" && <p class="code">{t("upload.code", { code })}</p>}
      </div>
    </div>
  );
}

interface UploadsProps {
  asked: Asked;
  isComplete: boolean;
  refresh: () => Promise<void>;
}

function Uploads({ asked, isComplete, refresh }: UploadsProps) {
  const { documents } = asked;
  const count = documents.length;
  const missing = documents.filter((one) => one.handed_in_at === null);
  const dues = [...new Set(missing.map((one) => one.due_date).filter((due) => due !== null))];
  const thanks = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (isComplete) thanks.current?.focus();
  }, [isComplete]);
  return (
    <>
      <div class="ask">
        <h1>{t("upload.asks", { name: asked.org_name, count })}</h1>
        {dues.length === 1 && <p>{t("upload.until", { day: day(dues[0] ?? "") })}</p>}
      </div>
      <p class="quiet" role="status">
        {t("upload.came", { came: count - missing.length, count })}
        {missing.length > 0 && missing.length < count && (
          <> · {t("upload.missing", { names: missing.map((one) => plain(one.doc_type)).join(", ") })}</>
        )}
      </p>
      {isComplete && (
        <div class="notice" data-tone="good">
          <Tick />
          <div>
            <h2 ref={thanks} tabIndex={-1}>
              {t("upload.all")}
            </h2>
            <p>{t("upload.allHint", { name: asked.org_name })}</p>
          </div>
        </div>
      )}
      <ol class="asked">
        {documents.map((one) => (
          <Asking
            key={one.doc_type}
            one={one}
            language={asked.language}
            bytesMax={asked.bytes_max}
            hasOwnDue={dues.length > 1}
            refresh={refresh}
          />
        ))}
      </ol>
      {!isComplete && (
        <p class="quiet small">{t("upload.valid", { time: exact(asked.expires_at, variety, ZONE) })}</p>
      )}
    </>
  );
}

function Tick() {
  return (
    <svg aria-hidden="true" width="20" height="20" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2">
      <circle cx="12" cy="12" r="10" />
      <path d="m8 12 3 3 5-6" stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  );
}

interface AskingProps {
  one: AskedDocument;
  language: string | null;
  bytesMax: number;
  hasOwnDue: boolean;
  refresh: () => Promise<void>;
}

function Asking({ one, language: spoken, bytesMax, hasOwnDue, refresh }: AskingProps) {
  const [file, setFile] = useState<File | null>(null);
  const [share, setShare] = useState<number | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const sending = useRef<AbortController | null>(null);
  const submit = useRef<HTMLButtonElement>(null);
  const title = useRef<HTMLHeadingElement>(null);
  const name = plain(one.doc_type);
  const isSending = share !== null;
  const refused = file === null ? null : file.size === 0 ? t("upload.blank") : file.size > bytesMax ? t("upload.large", { size: size(file.size), most: size(bytesMax) }) : null;

  const handIn = useCallback(async () => {
    if (file === null || sending.current !== null) return;
    const controller = new AbortController();
    sending.current = controller;
    setFailure(null);
    setShare(0);
    try {
      await send(one.doc_type, file, setShare, controller.signal);
      setFile(null);
      await refresh();
      title.current?.focus();
    } catch (error) {
      const code = error instanceof Failure ? error.code : "other";
      setFailure(code === "cancelled" ? null : code);
      if (code === "ALREADY_HANDED_IN" || ENDS.includes(code)) await refresh();
    } finally {
      sending.current = null;
      setShare(null);
    }
  }, [file, one.doc_type, refresh]);

  // A file whose sending broke off goes on by itself when the connection is back.
  useEffect(() => {
    if (failure !== "unreachable") return;
    const again = () => void handIn();
    window.addEventListener("online", again);
    return () => window.removeEventListener("online", again);
  }, [failure, handIn]);
  useEffect(() => {
    if (!isSending) return;
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener("beforeunload", ask);
    return () => window.removeEventListener("beforeunload", ask);
  }, [isSending]);
  useEffect(() => {
    if (file !== null) submit.current?.focus();
  }, [file]);

  const pick = (event: Event) => {
    const input = event.currentTarget as HTMLInputElement;
    const found = input.files?.[0] ?? null;
    input.value = ""; // or the same file could not be chosen again
    if (found === null) return;
    setFailure(null);
    setFile(found);
  };
  return (
    <li class="card" data-came={one.handed_in_at !== null}>
      <div class="asked-head">
        <h2 ref={title} tabIndex={-1}>
          {name}
        </h2>
        {one.handed_in_at !== null ? (
          <span class="came">
            <Tick />
            {t("upload.doneAt", { time: relative(one.handed_in_at, variety, Date.now()) })}
          </span>
        ) : (
          hasOwnDue && one.due_date !== null && <span class="quiet">{t("upload.due", { day: day(one.due_date) })}</span>
        )}
      </div>
      {one.handed_in_at === null && (
        <>
          {one.message !== null && (
            <div class="notice" data-tone="warn">
              <div>
                <h3>{t("upload.wrong")}</h3>
                <p lang={spoken ?? undefined}>{one.message}</p>
              </div>
            </div>
          )}
          {failure !== null &&
            (failure === "unreachable" ? (
              <div class="notice" data-tone="bad" role="alert">
                <p>{t("upload.lost")}</p>
              </div>
            ) : (
              <Problem code={failure} />
            ))}
          {file !== null && <Chosen file={file} />}
          {refused !== null && (
            <div class="notice" data-tone="bad" role="alert">
              <p>{refused}</p>
            </div>
          )}
          {isSending ? (
            <div class="sending">
              <progress max={1} value={share} aria-label={t("upload.sendFile", { name, file: file?.name ?? "" })} />
              <p role="status">
                {share >= 1 ? t("upload.checking") : t("upload.sending", { share: Math.floor(share * 100) })}
              </p>
              <button type="button" class="button" onClick={() => sending.current?.abort()}>
                {t("upload.cancel")}
              </button>
            </div>
          ) : (
            <div class="actions">
              {file !== null && refused === null && (
                <button
                  ref={submit}
                  type="button"
                  class="button"
                  data-tone="main"
                  aria-label={t("upload.sendFile", { name, file: file.name })}
                  onClick={() => void handIn()}
                >
                  {t(failure === null ? "upload.send" : "upload.again")}
                </button>
              )}
              <Pick label={t("upload.photo")} about={name} onPick={pick} isMain={file === null} isPhoto />
              <Pick label={t(file === null ? "upload.choose" : "upload.other")} about={name} onPick={pick} isMain={file === null} />
            </div>
          )}
          {file === null && <p class="quiet small">{t("upload.limit", { size: size(bytesMax) })}</p>}
        </>
      )}
    </li>
  );
}

interface PickProps {
  label: string;
  about: string;
  onPick: (event: Event) => void;
  isMain: boolean;
  isPhoto?: boolean;
}

function Pick({ label, about, onPick, isMain, isPhoto = false }: PickProps) {
  const kind = isPhoto ? ({ accept: "image/*", capture: "environment" } as const) : {};
  return (
    <label class="button pick" data-photo={isPhoto} data-tone={isMain && isPhoto ? "main" : undefined}>
      {label}
      <input type="file" class="hidden" aria-label={`${about}: ${label}`} onChange={onPick} {...kind} />
    </label>
  );
}

/** The file before it is sent; a picture is shown, so that one that is blurred is taken again. */
function Chosen({ file }: { file: File }) {
  const [url, setUrl] = useState<string | null>(null);
  useEffect(() => {
    if (!SHOWN.includes(file.type)) return;
    const made = URL.createObjectURL(file);
    setUrl(made);
    return () => {
      setUrl(null);
      URL.revokeObjectURL(made);
    };
  }, [file]);
  return (
    <figure class="chosen">
      {url !== null && <img src={url} alt={t("upload.preview")} onError={() => setUrl(null)} />}
      <figcaption>
        <span class="file-name">{file.name}</span> <span class="quiet">{size(file.size)}</span>
      </figcaption>
    </figure>
  );
}
