/** The addresses of the pages. */
import type { QueryClient } from "@tanstack/react-query";
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from "@tanstack/react-router";

import { base } from "../api/client";
import type { BoardFilter } from "../api/clientQueries";
import { approvalQuery, entityQuery, sessionQuery, type InboxFilter } from "../api/queries";
import { Choose } from "../screens/Choose";
import { InboxPage } from "../screens/InboxPage";
import { NotFound } from "../screens/NotFound";
import { RequestPage } from "../screens/RequestPage";
import { Broken } from "../screens/Broken";
import { Shell } from "./Shell";

const root = createRootRouteWithContext<{ client: QueryClient }>()({
  component: Outlet,
  notFoundComponent: () => (
    <main className="alone">
      <NotFound />
    </main>
  ),
  errorComponent: Broken,
});

const signIn = createRoute({
  getParentRoute: () => root,
  path: "sign-in",
  validateSearch: (search): { to?: string } => (typeof search.to === "string" ? { to: search.to } : {}),
  component: lazyRouteComponent(() => import("../screens/SignInPage"), "SignInPage"),
});

const member = createRoute({
  getParentRoute: () => root,
  id: "member",
  beforeLoad: async ({ context, location }) => {
    const session = await context.client.ensureQueryData(sessionQuery);
    if (session === null) throw redirect({ to: "/sign-in", search: { to: location.href } });
  },
  component: Shell,
});

const home = createRoute({
  getParentRoute: () => member,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/inbox" });
  },
});

const BUCKETS = ["mine", "roles", "delegated"] as const;
const SORTS = ["age", "due", "figure"] as const;

function filterFrom(search: Record<string, unknown>): InboxFilter {
  const bucket = BUCKETS.find((each) => each === search.bucket);
  const sort = SORTS.find((each) => each === search.sort);
  return { ...(bucket && { bucket }), ...(search.overdue === true && { overdue: true }), ...(sort && { sort }) };
}

const inbox = createRoute({
  getParentRoute: () => member,
  path: "inbox",
  validateSearch: filterFrom,
  component: InboxPage,
});

const choose = createRoute({ getParentRoute: () => inbox, path: "/", component: Choose });

const request = createRoute({
  getParentRoute: () => inbox,
  path: "$requestId",
  loader: ({ context, params }) => void context.client.prefetchQuery(approvalQuery(params.requestId)),
  component: RequestPage,
});

const form = createRoute({
  getParentRoute: () => inbox,
  path: "forms/$stepId",
  component: lazyRouteComponent(() => import("../screens/FormPage"), "FormPage"),
});

const document = createRoute({
  getParentRoute: () => member,
  path: "documents/$entityType/$entityId",
  loader: ({ context, params }) => void context.client.prefetchQuery(entityQuery(params.entityType, params.entityId)),
  component: lazyRouteComponent(() => import("../screens/DocumentPage"), "DocumentPage"),
});

const STATUSES = ["missing", "requested", "received", "in_qa", "verified", "rejected", "expired", "waived"] as const;

function boardFilterFrom(search: Record<string, unknown>): BoardFilter {
  const status = STATUSES.find((each) => each === search.status);
  const subject = typeof search.subject === "string" || typeof search.subject === "number" ? String(search.subject) : "";
  return { ...(status && { status }), ...(subject && { subject }), ...(search.overdue === true && { overdue: true }) };
}

const clients = createRoute({
  getParentRoute: () => member,
  path: "clients",
  validateSearch: boardFilterFrom,
  component: lazyRouteComponent(() => import("../screens/ClientsPage"), "ClientsPage"),
});

const review = createRoute({
  getParentRoute: () => member,
  path: "clients/review",
  component: lazyRouteComponent(() => import("../screens/ReviewPage"), "ReviewPage"),
});

const reviewed = createRoute({ getParentRoute: () => review, path: "$documentId" });

export function routerWith(client: QueryClient) {
  return createRouter({
    routeTree: root.addChildren([signIn, member.addChildren([home, inbox.addChildren([choose, request, form]), document, clients, review.addChildren([reviewed])])]),
    basepath: base || "/",
    context: { client },
    defaultPreload: "intent",
    defaultPreloadStaleTime: 0,
    scrollRestoration: false,
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof routerWith>;
  }
}
