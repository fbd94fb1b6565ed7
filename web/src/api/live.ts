/** Streams of changes: whatever they announce is read again. Where a stream is refused or breaks, polling stays. */
import { useQueryClient, type QueryKey } from "@tanstack/react-query";
import { useEffect } from "react";

import { base } from "./client";

function useStream(path: string | null, event: string, keys: readonly QueryKey[]) {
  const client = useQueryClient();
  const watched = JSON.stringify(keys);
  useEffect(() => {
    if (path === null) return;
    const stream = new EventSource(base + path);
    const refresh = () => {
      for (const key of JSON.parse(watched) as QueryKey[]) void client.invalidateQueries({ queryKey: key });
    };
    stream.addEventListener(event, refresh);
    return () => stream.close();
  }, [client, event, path, watched]);
}

export function useLiveInbox() {
  useStream("/api/inbox/events", "inbox", [["inbox"]]);
}

export function useLiveInstance(instanceId: string | undefined | null, keys: readonly QueryKey[]) {
  useStream(instanceId ? `/api/instances/${instanceId}/events` : null, "instance", keys);
}
