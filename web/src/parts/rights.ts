/** What the member may do, as the server says it of their session; the server decides all the same. */
import { useQuery } from "@tanstack/react-query";

import { sessionQuery, type Session } from "../api/queries";

function holds(held: readonly string[], wanted: string): boolean {
  const parts = wanted.split(":");
  const wider = parts.map((_, end) => [...parts.slice(0, end), "*"].join(":"));
  return held.includes(wanted) || wider.some((one) => held.includes(one));
}

export interface Needs {
  scope?: string;
  capability?: string;
}

export function may(session: Session | null | undefined, { scope, capability }: Needs): boolean {
  if (!session || (scope !== undefined && !holds(session.scopes, scope))) return false;
  return capability === undefined || holds(session.capabilities, capability);
}

export function useMay(): (needs: Needs) => boolean {
  const { data: session } = useQuery(sessionQuery);
  return (needs) => may(session, needs);
}

/** What pages are for; the shell leads to those that the member may read. */
export const PAGES = {
  clients: { scope: "documents:read", capability: "documents:read" },
  documents: { scope: "entities:read" },
  instances: { scope: "workflows:read" },
  incidents: { scope: "operations:read", capability: "workflows:retry" },
  health: { scope: "operations:read", capability: "operations:read" },
} as const satisfies Record<string, Needs>;
