/** What is around every page of a member: the name, the way to the inbox, the menu, and what is said aloud. */
import { useIsFetching, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useLocation, useNavigate, useRouter } from "@tanstack/react-router";
import { Activity, FileText, FolderCheck, Inbox, TriangleAlert, Workflow } from "lucide-react";
import { createContext, useCallback, useContext, useEffect, useState } from "react";
import { I18nProvider, RouterProvider } from "react-aria-components";
import { useTranslation } from "react-i18next";

import { countsQuery, sessionQuery } from "../api/queries";
import { useLiveInbox } from "../api/live";
import { Unreachable } from "../api/client";
import { followMember } from "../words/words";
import { may, PAGES } from "../parts/rights";
import { KeyHelp } from "./KeyHelp";
import { MemberMenu } from "./MemberMenu";
import { useRenewal } from "./session";

/** The pages besides the inbox, in their order. */
const OTHERS = [
  { name: "clients", Icon: FolderCheck },
  { name: "documents", Icon: FileText },
  { name: "instances", Icon: Workflow },
  { name: "incidents", Icon: TriangleAlert },
  { name: "health", Icon: Activity },
] as const;

const Saying = createContext<(text: string) => void>(() => undefined);

/** Say what was done: it is shown for a while, and read by screen readers. */
export const useSay = () => useContext(Saying);

export function Shell() {
  const { t, i18n } = useTranslation();
  const router = useRouter();
  const navigate = useNavigate();
  const client = useQueryClient();
  const { data: session } = useQuery(sessionQuery);
  const { data: counts, error } = useQuery(countsQuery);
  const [said, setSaid] = useState("");
  const [helps, setHelps] = useState(false);
  useIsFetching();
  useRenewal(session);
  useLiveInbox();

  const say = useCallback((text: string) => setSaid(text), []);
  useEffect(() => {
    if (!said) return;
    const timer = setTimeout(() => setSaid(""), 6_000);
    return () => clearTimeout(timer);
  }, [said]);

  useEffect(() => followMember(session?.language ?? null), [session?.language]);

  useEffect(() => {
    // The session has ended elsewhere: what is asked for next is refused, and the reader signs in again.
    if (session === null) void navigate({ to: "/sign-in", search: { to: router.state.location.href } });
  }, [navigate, router, session]);

  useEffect(() => {
    const unsubscribe = client.getQueryCache().subscribe((event) => {
      const failed = event.type === "updated" && event.action.type === "error" ? event.action.error : null;
      if (failed && "problem" in failed && (failed.problem as { status: number }).status === 401) {
        client.setQueryData(sessionQuery.queryKey, null);
      }
    });
    return unsubscribe;
  }, [client]);

  const address = useLocation({ select: ({ pathname }) => pathname });
  useEffect(() => {
    // On a phone the ways scroll: the present one is seen.
    document.querySelector(".top .tab[data-active]")?.scrollIntoView({ inline: "nearest", block: "nearest" });
  }, [address, session]);

  const waiting = counts ? counts.mine.open + counts.roles.open + counts.delegated.open : 0;
  if (!session) return null;
  return (
    <I18nProvider locale={i18n.language}>
      <RouterProvider navigate={(to) => void navigate({ to })} useHref={(to) => router.buildLocation({ to }).href}>
        <Saying value={say}>
          <a className="skip" href="#content">
            {t("app.skip")}
          </a>
          <header className="top">
            <Link to="/inbox" className="brand">
              <span className="mark" aria-hidden />
              {t("app.name")}
            </Link>
            <nav aria-label={t("app.name")}>
              <Link to="/inbox" className="tab" activeProps={{ "data-active": true }}>
                <Inbox aria-hidden size={16} />
                {t("nav.inbox")}
                {waiting > 0 && <span className="count">{waiting}</span>}
              </Link>
              {OTHERS.filter(({ name }) => may(session, PAGES[name])).map(({ name, Icon }) => (
                <Link key={name} to={`/${name}`} className="tab" activeProps={{ "data-active": true }}>
                  <Icon aria-hidden size={16} />
                  {t(`nav.${name}`)}
                </Link>
              ))}
            </nav>
            <MemberMenu session={session} onKeys={() => setHelps(true)} />
          </header>
          {error instanceof Unreachable && (
            <p className="strip" role="alert">
              {t("app.offline")}
            </p>
          )}
          <main id="content" tabIndex={-1}>
            <Outlet />
          </main>
          <div className="said" role="status">
            {said && <p>{said}</p>}
          </div>
          <KeyHelp isOpen={helps} onOpenChange={setHelps} />
        </Saying>
      </RouterProvider>
    </I18nProvider>
  );
}
