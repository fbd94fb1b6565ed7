/** A command for many objects: a few at a time, with the progress and one result each. */
import { CircleCheck, CircleX } from "lucide-react";
import { useRef, useState } from "react";
import { Button, Label, ProgressBar } from "react-aria-components";
import { useTranslation } from "react-i18next";

import { ProblemText } from "./states";

const AT_ONCE = 4;

export interface Result {
  id: string;
  name: string;
  error: Error | null;
}

export interface Many {
  title: string;
  total: number;
  results: Result[];
  isRunning: boolean;
}

/** Run one command for each item; an item that is refused stops none of the others. */
export function useMany() {
  const [many, setMany] = useState<Many | null>(null);
  const stopped = useRef(false);
  const start = async <T extends { id: string; name: string }>(title: string, items: T[], run: (item: T) => Promise<unknown>) => {
    stopped.current = false;
    const waiting = [...items];
    const results: Result[] = [];
    const note = (isRunning: boolean) => setMany({ title, total: items.length, results: [...results], isRunning });
    note(true);
    const work = async () => {
      for (let item = waiting.shift(); item !== undefined && !stopped.current; item = waiting.shift()) {
        const { id, name } = item;
        const error = await run(item).then(
          () => null,
          (reason: unknown) => (reason instanceof Error ? reason : new Error(String(reason))),
        );
        results.push({ id, name, error });
        note(true);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    note(false);
  };
  const stop = () => {
    stopped.current = true;
  };
  return { many, start, stop, clear: () => setMany(null) };
}

export function ManyResults({ many, onStop, onClose }: { many: Many; onStop: () => void; onClose: () => void }) {
  const { t } = useTranslation();
  const failed = many.results.filter((one) => one.error);
  const done = many.results.length - failed.length;
  return (
    <section className="many" aria-label={many.title}>
      <ProgressBar value={many.results.length} maxValue={many.total} className="progress">
        {({ percentage }) => (
          <>
            <Label>{many.title}</Label>
            <span role="status">
              {t("many.done", { count: done, total: many.total })}
              {failed.length > 0 && ` · ${t("many.refused", { count: failed.length })}`}
            </span>
            <progress className="bar" value={percentage ?? 0} max={100} aria-hidden />
          </>
        )}
      </ProgressBar>
      <ul className="results">
        {many.results.map((one) => (
          <li key={one.id} data-refused={one.error !== null}>
            {one.error ? <CircleX aria-hidden size={16} /> : <CircleCheck aria-hidden size={16} />}
            <div>
              <p className="breakable">
                {one.name} <span className="quiet">{t(one.error ? "many.notDone" : "many.isDone")}</span>
              </p>
              {one.error && <ProblemText error={one.error} />}
            </div>
          </li>
        ))}
      </ul>
      {many.isRunning ? (
        <Button className="button" onPress={onStop}>
          {t("many.stop")}
        </Button>
      ) : (
        <Button className="button" onPress={onClose}>
          {t("keys.close")}
        </Button>
      )}
    </section>
  );
}
