/** What operators read: instances with their way, incidents, dead letters, health; and how each is kept fresh. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { api, taken, type Schemas } from "./client";
import { again } from "./queries";

export type Path = Schemas["InstancePathBody"];
export type PathNode = Path["nodes"][number];
export type Token = Path["tokens"][number];
export type Instance = Schemas["Descriptor"];
export type InstanceItem = Schemas["InstanceSummary"];
export type StepDetails = Schemas["StepDetailsBody"];
export type Effect = Schemas["EffectBody"];
export type IncidentGroup = Schemas["IncidentGroupBody"];
export type Incident = Schemas["IncidentBody"];
export type Health = Schemas["HealthReport"];

export const STATUSES = ["running", "paused", "completed", "failed", "cancelled"] as const;
export const KINDS = ["instance", "event", "effect", "result", "task"] as const;

export interface InstanceFilter {
  status?: (typeof STATUSES)[number];
  workflow?: string;
  subject?: string;
}

export interface IncidentFilter {
  kind?: (typeof KINDS)[number];
  code?: string;
  definition?: string;
  node?: string;
}

export interface DocumentFilter {
  q?: string;
  state?: string;
  where?: string;
}

const PAGE = 50;
/** No stream tells of other people's instances. */
const OFTEN = again(5_000);
const SOON = again(15_000);

const ofInstance = (instanceId: string) => ({ params: { path: { instance_id: instanceId } } });

export const pathQuery = (instanceId: string) =>
  queryOptions({
    queryKey: ["instance", instanceId, "path"],
    queryFn: () => taken(api.GET("/api/instances/{instance_id}/path", ofInstance(instanceId))),
    refetchInterval: SOON,
  });

export const stepsQuery = (instanceId: string) =>
  infiniteQueryOptions({
    queryKey: ["instance", instanceId, "steps"],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      taken(
        api.GET("/api/instances/{instance_id}/steps", {
          params: { path: { instance_id: instanceId }, query: { limit: PAGE, ...(pageParam && { cursor: pageParam }) } },
        }),
      ),
    getNextPageParam: (page) => page.next ?? undefined,
    refetchInterval: SOON,
  });

export const stepQuery = (instanceId: string, stepId: string) =>
  queryOptions({
    queryKey: ["instance", instanceId, "steps", stepId],
    queryFn: () =>
      taken(
        api.GET("/api/instances/{instance_id}/steps/{taken_id}", {
          params: { path: { instance_id: instanceId, taken_id: stepId } },
        }),
      ),
  });

export const instancesQuery = ({ status, workflow, subject }: InstanceFilter) =>
  infiniteQueryOptions({
    queryKey: ["instances", status, workflow, subject],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      taken(
        api.GET("/api/instances", {
          params: {
            query: {
              limit: PAGE,
              ...(status && { status: [status] }),
              ...(workflow && { workflow }),
              ...(subject && { subject }),
              ...(pageParam && { cursor: pageParam }),
            },
          },
        }),
      ),
    getNextPageParam: (page) => page.next ?? undefined,
    refetchInterval: SOON,
  });

export const countQuery = (status: (typeof STATUSES)[number]) =>
  queryOptions({
    queryKey: ["instances", "count", status],
    queryFn: () => taken(api.GET("/api/instances/count", { params: { query: { status: [status] } } })),
    refetchInterval: SOON,
  });

export const groupsQuery = queryOptions({
  queryKey: ["incidents", "groups"],
  queryFn: () => taken(api.GET("/api/operations/incidents")),
  refetchInterval: OFTEN,
});

export const incidentsQuery = (filter: IncidentFilter) =>
  infiniteQueryOptions({
    queryKey: ["incidents", "all", filter],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      taken(
        api.GET("/api/operations/incidents/all", {
          params: { query: { limit: PAGE, ...filter, ...(pageParam && { cursor: pageParam }) } },
        }),
      ),
    getNextPageParam: (page) => page.next ?? undefined,
    refetchInterval: OFTEN,
  });

export const healthQuery = queryOptions({
  queryKey: ["health"],
  queryFn: () => taken(api.GET("/api/operations/health")),
  refetchInterval: OFTEN,
});

export const nodesQuery = queryOptions({
  queryKey: ["nodes"],
  queryFn: () => taken(api.GET("/api/nodes", { params: { query: { limit: PAGE } } })),
  refetchInterval: SOON,
});

/** The names of the published definitions of a kind: flows, or types of documents. */
export const definitionsQuery = (kind: "flow" | "envelope") =>
  queryOptions({
    queryKey: ["definitions", kind],
    queryFn: async () => {
      const query = { kind, status: "published" as const, limit: 200 };
      const page = await taken(api.GET("/api/definitions", { params: { query } }));
      return [...new Set(page.items.map((one) => one.key))].sort();
    },
    staleTime: 60_000,
  });

export const documentsQuery = (type: string, { q, state, where }: DocumentFilter) =>
  infiniteQueryOptions({
    queryKey: ["documents", type, q, state, where],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      taken(
        api.GET("/api/entities/{entity_type}", {
          params: {
            path: { entity_type: type },
            query: {
              limit: PAGE,
              ...(q && { q }),
              ...(state && { state: [state] }),
              ...(where && { where: [where] }),
              ...(pageParam && { cursor: pageParam }),
            },
          },
        }),
      ),
    getNextPageParam: (page) => page.next ?? undefined,
    refetchInterval: SOON,
  });

export const indexesQuery = (type: string) =>
  queryOptions({
    queryKey: ["indexes", type],
    queryFn: () =>
      taken(api.GET("/api/entities/{entity_type}/indexes", { params: { path: { entity_type: type } } })),
    staleTime: 60_000,
  });
