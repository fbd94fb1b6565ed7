/** Times, money and values as people read them, in the language and the time zone of the reader. */
import type { Contract } from "../api/queries";

export type Field = Contract["fields"][number];

const MINUTE = 60;
const STEPS: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", MINUTE],
];

/** Some systems name a language that is none: `en-US@posix`. */
function isTag(tag: string): boolean {
  try {
    return Intl.DateTimeFormat.supportedLocalesOf(tag).length > 0;
  } catch {
    return false;
  }
}

/** The reader's own variety of a language, which writes dates as they are used to. */
export function varietyOf(language: string): string {
  return navigator.languages.find((tag) => tag.startsWith(language) && isTag(tag)) ?? language;
}

/** "in 4 hours", "2 days ago". */
export function relative(time: string, language: string, now: number): string {
  const seconds = (Date.parse(time) - now) / 1000;
  const format = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
  for (const [unit, size] of STEPS) {
    if (Math.abs(seconds) >= size) return format.format(Math.trunc(seconds / size), unit);
  }
  return format.format(Math.trunc(seconds), "second");
}

/** "2 days": how long ago, or how long until. */
export function span(time: string, language: string, now: number): string {
  const seconds = Math.abs(Date.parse(time) - now) / 1000;
  const [unit, size] = STEPS.find(([, each]) => seconds >= each) ?? (["minute", MINUTE] as const);
  const count = Math.max(1, Math.trunc(seconds / size));
  return new Intl.NumberFormat(language, { style: "unit", unit, unitDisplay: "long" }).format(count);
}

/** The age in a list: "3 d". */
export function shortSpan(time: string, language: string, now: number): string {
  const seconds = Math.abs(Date.parse(time) - now) / 1000;
  const [unit, size] = STEPS.find(([, each]) => seconds >= each) ?? (["minute", MINUTE] as const);
  const count = Math.max(1, Math.trunc(seconds / size));
  return new Intl.NumberFormat(language, { style: "unit", unit, unitDisplay: "narrow" }).format(count);
}

export function exact(time: string, language: string, zone: string): string {
  return new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short", timeZone: zone }).format(
    new Date(time),
  );
}

/** A day as the API writes it: "2026-05-31" is 31 May 2026, in every zone. */
export function shownDay(day: string, language: string): string {
  const format = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeZone: "UTC" });
  return format.format(new Date(`${day}T00:00:00Z`));
}

/** Minor units of a currency: 2060000 of EUR is 20,600.00 €. */
export function money(units: number | string, currency: string | null | undefined, language: string): string {
  const amount = Number(units);
  if (!Number.isSafeInteger(amount)) return String(units);
  try {
    const format = new Intl.NumberFormat(language, currency ? { style: "currency", currency } : { minimumFractionDigits: 2 });
    const digits = currency ? (format.resolvedOptions().maximumFractionDigits ?? 2) : 2;
    return format.format(amount / 10 ** digits);
  } catch {
    return `${units} ${currency ?? ""}`.trim();
  }
}

/** The name of a field or a state where the contract gives it none: "grand_total" is "Grand total". */
export function plain(name: string): string {
  const words = name.replaceAll(/[._]/g, " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

export interface Reader {
  language: string;
  zone: string;
  yes: string;
  no: string;
  empty: string;
}

function currencyOf(field: Field, data: Record<string, unknown>): string | null {
  const found = data[field.currency ?? "currency"];
  return typeof found === "string" ? found : field.currency && /^[A-Z]{3}$/.test(field.currency) ? field.currency : null;
}

/** A value of a document as text. */
export function shown(value: unknown, field: Field | undefined, data: Record<string, unknown>, reader: Reader): string {
  if (value === null || value === undefined || value === "") return reader.empty;
  if (typeof value === "boolean") return value ? reader.yes : reader.no;
  switch (field?.type) {
    case "money":
      return money(value as number | string, currencyOf(field, data), reader.language);
    case "datetime":
      return exact(String(value), reader.language, reader.zone);
    case "date":
      return shownDay(String(value), reader.language);
    case "integer":
      return new Intl.NumberFormat(reader.language).format(Number(value));
    default:
      return typeof value === "object" ? JSON.stringify(value) : String(value);
  }
}
