/** Who reads: their language, time zone and clock, and the names of their colleagues. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";

import { namesQuery } from "../api/queries";
import { exact, relative, shortSpan, span, varietyOf, type Reader } from "./format";

const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The time, moving by the minute. */
export function useNow(): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 30_000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

export function useReader(): Reader {
  const { t, i18n } = useTranslation();
  return {
    language: varietyOf(i18n.language),
    zone: ZONE,
    yes: t("field.yes"),
    no: t("field.no"),
    empty: t("field.empty"),
  };
}

const FORMS = { relative, span, short: shortSpan } as const;

/** A time in words, with the exact one on hover. */
export function Time({ at, form = "relative" }: { at: string; form?: keyof typeof FORMS | "exact" }) {
  const reader = useReader();
  const now = useNow();
  const precise = exact(at, reader.language, reader.zone);
  const text = form === "exact" ? precise : FORMS[form](at, reader.language, now);
  return (
    <time dateTime={at} title={precise}>
      {text}
    </time>
  );
}

/** When something is due, in words. */
export function Due({ at, overdue }: { at: string; overdue: boolean }) {
  const { t } = useTranslation();
  const reader = useReader();
  const now = useNow();
  const text = overdue
    ? t("time.overdue", { time: span(at, reader.language, now) })
    : t("time.due", { time: relative(at, reader.language, now) });
  return (
    <time className="due" data-overdue={overdue} dateTime={at} title={exact(at, reader.language, reader.zone)}>
      {text}
    </time>
  );
}

/** The name of a member by their id. */
export function useName(): (id: string) => string {
  const { data } = useQuery(namesQuery);
  return (id) => data?.[id] ?? id;
}
