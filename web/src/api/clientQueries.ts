/** What is read about documents of clients: what is required, what waits for its review, and why something is rejected. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { api, base, Refusal, taken, Unreachable, type Problem, type Schemas } from "./client";

export type Requirement = Schemas["RequirementBody"];
export type RequirementStatus = Requirement["status"];
export type ClientDocument = Schemas["DocumentBody"];
export type DocumentDetails = Schemas["DocumentDetailsBody"];
export type DocumentVersion = Schemas["DocumentVersionBody"];
export type RejectionCode = Schemas["RejectionCodeBody"];

export interface BoardFilter {
  status?: RequirementStatus;
  subject?: string;
  overdue?: boolean;
}

export const STATUSES = [
  "missing",
  "requested",
  "received",
  "in_qa",
  "verified",
  "rejected",
  "expired",
  "waived",
] as const satisfies readonly RequirementStatus[];

const PAGE = 100;
/** No stream tells of requirements. */
const LOOK_MS = 4_000;

/** The day in the zone of the reader, as dates of the API are written. */
export const today = () => new Intl.DateTimeFormat("sv-SE").format(new Date());

const asked = ({ status, subject, overdue }: BoardFilter) => ({
  ...(status && { status }),
  ...(subject && { subject }),
  ...(overdue && { due_before: today() }),
});

export const boardQuery = (filter: BoardFilter) =>
  infiniteQueryOptions({
    queryKey: ["requirements", "list", filter],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      taken(
        api.GET("/api/requirements", {
          params: { query: { limit: PAGE, ...asked(filter), ...(pageParam ? { cursor: pageParam } : {}) } },
        }),
      ),
    getNextPageParam: (page) => page.next ?? undefined,
    refetchInterval: LOOK_MS,
  });

export const boardCountsQuery = (filter: BoardFilter) =>
  queryOptions({
    queryKey: ["requirements", "counts", filter],
    queryFn: () => taken(api.GET("/api/requirements/count", { params: { query: asked({ ...filter, status: undefined }) } })),
    refetchInterval: LOOK_MS,
  });

export const queueQuery = infiniteQueryOptions({
  queryKey: ["review", "queue"],
  initialPageParam: undefined as string | undefined,
  queryFn: ({ pageParam }) =>
    taken(
      api.GET("/api/documents", {
        params: { query: { status: "in_qa", limit: PAGE, ...(pageParam ? { cursor: pageParam } : {}) } },
      }),
    ),
  getNextPageParam: (page) => page.next ?? undefined,
  refetchInterval: LOOK_MS,
});

export const clientDocumentQuery = (documentId: string) =>
  queryOptions({
    queryKey: ["review", "document", documentId],
    queryFn: () => taken(api.GET("/api/documents/{document_id}", { params: { path: { document_id: documentId } } })),
    refetchInterval: LOOK_MS,
  });

export const codesQuery = queryOptions({
  queryKey: ["codes"],
  queryFn: () => taken(api.GET("/api/rejection-codes")),
  staleTime: 300_000,
});

export const contentPath = (version: DocumentVersion) =>
  `${base}/api/documents/${version.document_id}/versions/${version.id}/content`;

const STARTS: readonly [string, readonly number[]][] = [
  ["image/png", [0x89, 0x50, 0x4e, 0x47]],
  ["image/jpeg", [0xff, 0xd8, 0xff]],
  ["image/gif", [0x47, 0x49, 0x46, 0x38]],
  ["image/webp", [0x52, 0x49, 0x46, 0x46]],
];
export const PICTURES = STARTS.map(([type]) => type);

/** The picture of a version, of the type that its first bytes say: no other type is ever given to the browser. */
export const pictureQuery = (version: DocumentVersion) =>
  queryOptions({
    queryKey: ["picture", version.id],
    queryFn: async (): Promise<Blob | null> => {
      let reply: Response;
      try {
        reply = await fetch(contentPath(version), { headers: { "Assent-Client": "web" } });
      } catch (error) {
        throw new Unreachable(String(error));
      }
      if (!reply.ok) throw new Refusal((await reply.json()) as Problem);
      const bytes = await reply.arrayBuffer();
      const start = new Uint8Array(bytes.slice(0, 4));
      const type = STARTS.find(([, found]) => found.every((byte, place) => start[place] === byte))?.[0];
      return type === undefined ? null : new Blob([bytes], { type });
    },
    staleTime: Infinity,
    gcTime: 60_000,
  });
