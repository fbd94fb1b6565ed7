/** The language of the pages: chosen by the reader, else that of the member, else that of the browser. */
import i18next from "i18next";
import { initReactI18next } from "react-i18next";

import { de } from "./de";
import { en } from "./en";

export const LANGUAGES = { en: "English", de: "Deutsch" } as const;
export type Language = keyof typeof LANGUAGES;

const KEPT = "assent.language";

const isLanguage = (tag: string): tag is Language => tag in LANGUAGES;

function known(tag: string | null | undefined): Language | undefined {
  const short = tag?.slice(0, 2).toLowerCase() ?? "";
  return isLanguage(short) ? short : undefined;
}

declare module "i18next" {
  interface CustomTypeOptions {
    defaultNS: "words";
    resources: { words: typeof en };
    keySeparator: false;
    nsSeparator: false;
  }
}

export function startWords() {
  void i18next.use(initReactI18next).init({
    lng: known(localStorage.getItem(KEPT)) ?? known(navigator.language) ?? "en",
    fallbackLng: "en",
    resources: { en: { words: en }, de: { words: de } },
    defaultNS: "words",
    keySeparator: false,
    nsSeparator: false,
    interpolation: { escapeValue: false }, // React escapes
  });
  document.documentElement.lang = i18next.language;
  i18next.on("languageChanged", (language) => {
    document.documentElement.lang = language;
  });
}

export function chooseLanguage(language: Language) {
  localStorage.setItem(KEPT, language);
  void i18next.changeLanguage(language);
}

/** Speak the language of the member, unless the reader has chosen one here. */
export function followMember(language: string | null) {
  const found = known(language);
  if (found && localStorage.getItem(KEPT) === null && found !== i18next.language) void i18next.changeLanguage(found);
}
