/** Keyboard shortcuts: single letters, where the reader does not write and no dialog is open. */
import { useEffect, useRef } from "react";

export function useKeys(keys: Readonly<Record<string, () => void>>) {
  const latest = useRef(keys);
  useEffect(() => {
    latest.current = keys;
  });
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
      const target = event.target as HTMLElement | null;
      const writes = target?.closest("input, textarea, select, [contenteditable=true], [role=dialog], [role=menu]");
      const action = latest.current[event.key];
      if (writes || action === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      action();
    };
    // Before the list, in which a letter would search for an item.
    window.addEventListener("keydown", onKey, { capture: true });
    return () => window.removeEventListener("keydown", onKey, { capture: true });
  }, []);
}
