/** What is read from the server, under which key it is kept, and how it is kept fresh. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { api, Refusal, taken, type Schemas } from "./client";

export type Session = Schemas["SessionBody"];
export type InboxItem = Schemas["InboxItemBody"];
export type Approval = Schemas["ApprovalToDecideBody"];
export type Contract = Schemas["ContractBody"];
export type Entity = Schemas["EntityBody"];
export type Comment = Schemas["CommentBody"];

export interface InboxFilter {
  bucket?: "mine" | "roles" | "delegated";
  overdue?: boolean;
  sort?: "age" | "due" | "figure";
}

const PAGE = 50;
/** How often what is shown is read again, besides when a stream tells of a change; more often while the server is away. */
export const again =
  (interval: number) =>
  (query: { state: { status: string } }): number =>
    query.state.status === "error" ? 2_000 : interval;
const SOON = again(15_000);
/** No stream tells of comments and answers. */
const TALK = again(4_000);

/** The member who is signed in; null for none. */
export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: async (): Promise<Session | null> => {
    try {
      return await taken(api.GET("/api/session"));
    } catch (error) {
      if (error instanceof Refusal && error.problem.status === 401) return null;
      throw error;
    }
  },
  staleTime: 60_000,
});

export const waysQuery = queryOptions({
  queryKey: ["ways"],
  queryFn: () => taken(api.GET("/api/session/ways")),
});

export const inboxQuery = (filter: InboxFilter) =>
  infiniteQueryOptions({
    queryKey: ["inbox", "items", filter],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      taken(
        api.GET("/api/inbox", {
          params: {
            query: { limit: PAGE, sort: "age", ...filter, ...(pageParam ? { cursor: pageParam } : {}) },
          },
        }),
      ),
    getNextPageParam: (page) => page.next ?? undefined,
    refetchInterval: SOON,
  });

export const countsQuery = queryOptions({
  queryKey: ["inbox", "counts"],
  queryFn: () => taken(api.GET("/api/inbox/counts")),
  refetchInterval: SOON,
});

export const approvalQuery = (requestId: string) =>
  queryOptions({
    queryKey: ["approval", requestId],
    queryFn: () => taken(api.GET("/api/approvals/{request_id}", { params: { path: { request_id: requestId } } })),
    refetchInterval: SOON,
  });

export const contractQuery = (entityType: string) =>
  queryOptions({
    queryKey: ["contract", entityType],
    queryFn: () =>
      taken(api.GET("/api/entities/{entity_type}/contract", { params: { path: { entity_type: entityType } } })),
    staleTime: 300_000,
  });

const ofEntity = (entityType: string, entityId: string) => ({
  params: { path: { entity_type: entityType, entity_id: entityId } },
});

export const entityQuery = (entityType: string, entityId: string) =>
  queryOptions({
    queryKey: ["entity", entityId, "now"],
    queryFn: () => taken(api.GET("/api/entities/{entity_type}/{entity_id}", ofEntity(entityType, entityId))),
    refetchInterval: SOON,
  });

export const versionsQuery = (entityType: string, entityId: string) =>
  queryOptions({
    queryKey: ["entity", entityId, "versions"],
    queryFn: () => taken(api.GET("/api/entities/{entity_type}/{entity_id}/versions", ofEntity(entityType, entityId))),
  });

export const decisionsQuery = (entityType: string, entityId: string) =>
  queryOptions({
    queryKey: ["entity", entityId, "approvals"],
    queryFn: () => taken(api.GET("/api/entities/{entity_type}/{entity_id}/approvals", ofEntity(entityType, entityId))),
  });

export const auditQuery = (entityType: string, entityId: string) =>
  queryOptions({
    queryKey: ["entity", entityId, "audit"],
    queryFn: () => taken(api.GET("/api/entities/{entity_type}/{entity_id}/audit", ofEntity(entityType, entityId))),
  });

export const commentsQuery = (entityType: string, entityId: string) =>
  queryOptions({
    queryKey: ["entity", entityId, "comments"],
    queryFn: () => taken(api.GET("/api/entities/{entity_type}/{entity_id}/comments", ofEntity(entityType, entityId))),
    refetchInterval: TALK,
  });

export const questionsQuery = (requestId: string) =>
  queryOptions({
    queryKey: ["approval", requestId, "questions"],
    queryFn: () =>
      taken(api.GET("/api/approvals/{request_id}/questions", { params: { path: { request_id: requestId } } })),
    refetchInterval: TALK,
  });

export const instanceQuery = (instanceId: string) =>
  queryOptions({
    queryKey: ["instance", instanceId],
    queryFn: () => taken(api.GET("/api/instances/{instance_id}", { params: { path: { instance_id: instanceId } } })),
    refetchInterval: SOON,
  });

/** The names of the members by their ids. */
export const namesQuery = queryOptions({
  queryKey: ["names"],
  queryFn: async () => {
    const page = await taken(api.GET("/api/members", { params: { query: { limit: 200 } } }));
    return Object.fromEntries(page.items.map((member) => [member.user_id, member.name]));
  },
  staleTime: 300_000,
});
