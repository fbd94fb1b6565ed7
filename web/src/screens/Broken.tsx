/** An error of the pages themselves, or of what every page needs. */
import { useRouter } from "@tanstack/react-router";

import { Failed } from "../parts/states";

export function Broken({ error }: { error: unknown }) {
  const router = useRouter();
  return (
    <main className="alone">
      <Failed error={error instanceof Error ? error : new Error(String(error))} retry={() => void router.invalidate()} />
    </main>
  );
}
