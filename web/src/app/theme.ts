/** Light or dark: as the system says, unless the reader has chosen. */
export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const KEPT = "assent.theme";

export function theme(): Theme {
  const kept = localStorage.getItem(KEPT);
  return THEMES.find((each) => each === kept) ?? "system";
}

export function chooseTheme(chosen: Theme) {
  localStorage.setItem(KEPT, chosen);
  startTheme();
}

export function startTheme() {
  document.documentElement.dataset.theme = theme();
}
