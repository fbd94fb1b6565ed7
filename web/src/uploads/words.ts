/** The texts of the upload page, in the language of the browser. */
import { de } from "../words/uploads.de";
import { en } from "../words/uploads.en";

export const language = navigator.language.toLowerCase().startsWith("de") ? "de" : "en";
const words: typeof de = language === "de" ? de : en;

/** A text with its holes filled; `count` chooses between one and more. */
export function t(key: string, holes: Readonly<Record<string, string | number>> = {}): string {
  const found = key in words ? key : `${key}_${holes.count === 1 ? "one" : "other"}`;
  const text = words[found as keyof typeof words] ?? key;
  return text.replace(/{{(\w+)}}/g, (_, name: string) => String(holes[name] ?? ""));
}
