/** The menu of the member: who they are, language, appearance, shortcuts, sign-out. */
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Check, ChevronDown } from "lucide-react";
import { useState } from "react";
import { Button, Header, Menu, MenuItem, MenuSection, MenuTrigger, Popover, Separator } from "react-aria-components";
import { useTranslation } from "react-i18next";

import type { Session } from "../api/queries";
import { chooseLanguage, LANGUAGES, type Language } from "../words/words";
import { signOut } from "./session";
import { chooseTheme, theme, THEMES, type Theme } from "./theme";

export function MemberMenu({ session, onKeys }: { session: Session; onKeys: () => void }) {
  const { t, i18n } = useTranslation();
  const client = useQueryClient();
  const navigate = useNavigate();
  const [chosen, setChosen] = useState(theme);

  const leave = async () => {
    await signOut(client);
    await navigate({ to: "/sign-in" });
  };
  return (
    <MenuTrigger>
      <Button className="me" aria-label={t("menu.label", { name: session.name })}>
        <span className="avatar" aria-hidden data-initial={session.name.slice(0, 1).toUpperCase()} />
        <span className="me-name">{session.name}</span>
        <ChevronDown aria-hidden size={14} />
      </Button>
      <Popover className="popover" placement="bottom end">
        <div className="who">
          <strong>{session.name}</strong>
          <span>{session.org_name}</span>
          <span className="quiet">{session.roles.join(", ")}</span>
        </div>
        <Menu
          className="menu"
          aria-label={t("menu.label", { name: session.name })}
          onAction={(key) => (key === "keys" ? onKeys() : key === "out" ? void leave() : undefined)}
        >
          <MenuSection
            selectionMode="single"
            disallowEmptySelection
            selectedKeys={[i18n.language]}
            onSelectionChange={(keys) => chooseLanguage([...keys][0] as Language)}
          >
            <Header>{t("menu.language")}</Header>
            {Object.entries(LANGUAGES).map(([tag, name]) => (
              <MenuItem key={tag} id={tag} className="menu-item" textValue={name}>
                <Check aria-hidden size={14} className="tick" />
                <span lang={tag}>{name}</span>
              </MenuItem>
            ))}
          </MenuSection>
          <MenuSection
            selectionMode="single"
            disallowEmptySelection
            selectedKeys={[chosen]}
            onSelectionChange={(keys) => {
              const next = [...keys][0] as Theme;
              setChosen(next);
              chooseTheme(next);
            }}
          >
            <Header>{t("menu.theme")}</Header>
            {THEMES.map((each) => (
              <MenuItem key={each} id={each} className="menu-item">
                <Check aria-hidden size={14} className="tick" />
                {t(`menu.theme.${each}`)}
              </MenuItem>
            ))}
          </MenuSection>
          <Separator />
          <MenuItem id="keys" className="menu-item">
            <span className="tick" />
            {t("menu.keys")}
          </MenuItem>
          <MenuItem id="out" className="menu-item">
            <span className="tick" />
            {t("menu.signOut")}
          </MenuItem>
        </Menu>
      </Popover>
    </MenuTrigger>
  );
}
