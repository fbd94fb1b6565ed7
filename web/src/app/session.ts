/** The session of this browser: begun, renewed while a page is open, ended. */
import type { QueryClient } from "@tanstack/react-query";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";

import { api, Refusal, taken } from "../api/client";
import { sessionQuery, type Session } from "../api/queries";

const RENEW_EVERY_MS = 10 * 60_000;

export async function signIn(client: QueryClient, who: { key: string } | { user: string }) {
  await taken(api.POST("/api/session", { body: who }));
  client.clear();
  await client.fetchQuery(sessionQuery);
}

export async function signOut(client: QueryClient) {
  try {
    await taken(api.DELETE("/api/session"));
  } catch (error) {
    // A session that has ended already is what was wanted.
    if (!(error instanceof Refusal)) throw error;
  }
  client.clear();
  client.setQueryData(sessionQuery.queryKey, null);
}

/** Renew the session while this page is open and seen; one tab of a browser at a time. */
export function useRenewal(session: Session | null | undefined) {
  const client = useQueryClient();
  const isOpen = session?.session_id != null;
  useEffect(() => {
    if (!isOpen) return;
    const renew = () => {
      if (document.visibilityState !== "visible") return;
      void navigator.locks.request("assent.session", { ifAvailable: true }, async (lock) => {
        if (lock === null) return;
        try {
          client.setQueryData(sessionQuery.queryKey, await taken(api.POST("/api/session/renew")));
        } catch {
          await client.invalidateQueries({ queryKey: sessionQuery.queryKey });
        }
      });
    };
    const timer = setInterval(renew, RENEW_EVERY_MS);
    return () => clearInterval(timer);
  }, [client, isOpen]);
}

/** Where to go after the sign-in: an address of these pages, never of another server. */
export function safeTarget(to: string | undefined): string {
  if (to === undefined) return "/inbox";
  try {
    const found = new URL(to, location.origin);
    const isOwn = found.origin === location.origin && to.startsWith("/") && !to.startsWith("//") && !to.includes("\\");
    return isOwn ? found.pathname + found.search : "/inbox";
  } catch {
    return "/inbox";
  }
}
