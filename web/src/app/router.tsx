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
import { STATUSES as REQUIREMENT_STATUSES, type BoardFilter } from "../api/clientQueries";
import { KINDS, pathQuery, STATUSES, type DocumentFilter, type IncidentFilter, type InstanceFilter } from "../api/operations";
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

function boardFilterFrom(search: Record<string, unknown>): BoardFilter {
  const status = REQUIREMENT_STATUSES.find((each) => each === search.status);
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

const text = (value: unknown) => (typeof value === "string" && value !== "" ? value : undefined);

const instances = createRoute({
  getParentRoute: () => member,
  path: "instances",
  validateSearch: ({ status, workflow, subject }): InstanceFilter => ({
    status: STATUSES.find((each) => each === status),
    workflow: text(workflow),
    subject: text(subject),
  }),
  component: lazyRouteComponent(() => import("../screens/InstancesPage"), "InstancesPage"),
});

const VIEWS = ["diagram", "list", "variables"] as const;

const instance = createRoute({
  getParentRoute: () => member,
  path: "instances/$instanceId",
  validateSearch: (search): { step?: string; view?: (typeof VIEWS)[number] } => ({
    step: text(search.step),
    view: VIEWS.find((each) => each === search.view),
  }),
  loader: ({ context, params }) => void context.client.prefetchQuery(pathQuery(params.instanceId)),
  component: lazyRouteComponent(() => import("../screens/InstancePage"), "InstancePage"),
});

const incidents = createRoute({
  getParentRoute: () => member,
  path: "incidents",
  validateSearch: ({ kind, code, definition, node }): IncidentFilter => {
    const found = { kind: KINDS.find((each) => each === kind), code: text(code), definition: text(definition), node: text(node) };
    return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
  },
  component: lazyRouteComponent(() => import("../screens/IncidentsPage"), "IncidentsPage"),
});

const documentFilter = ({ q, state, where }: Record<string, unknown>): DocumentFilter => ({
  q: text(q),
  state: text(state),
  where: text(where),
});
const documentsPage = lazyRouteComponent(() => import("../screens/DocumentsPage"), "DocumentsPage");

const documents = createRoute({
  getParentRoute: () => member,
  path: "documents",
  validateSearch: documentFilter,
  component: documentsPage,
});

const documentsOfType = createRoute({
  getParentRoute: () => member,
  path: "documents/$entityType",
  validateSearch: documentFilter,
  component: documentsPage,
});

const health = createRoute({
  getParentRoute: () => member,
  path: "health",
  component: lazyRouteComponent(() => import("../screens/HealthPage"), "HealthPage"),
});

const operating = [documents, documentsOfType, instances, instance, incidents, health];

export function routerWith(client: QueryClient) {
  return createRouter({
    routeTree: root.addChildren([
      signIn,
      member.addChildren([
        home,
        inbox.addChildren([choose, request, form]),
        document,
        clients,
        review.addChildren([reviewed]),
        ...operating,
      ]),
    ]),
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
