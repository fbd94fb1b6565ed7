/** What happened, newest first; each step leads to what is known of it. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { Button } from "react-aria-components";
import { useTranslation } from "react-i18next";

import { stepsQuery, type Path } from "../../api/operations";
import { Time, useName } from "../../parts/reader";
import { Failed, Loading } from "../../parts/states";
import { iconOf, nameOfStep, outcomeName, statusName } from "./kinds";

export function Timeline({ path, instanceId, onChoose }: { path: Path; instanceId: string; onChoose: (stepId: string) => void }) {
  const { t } = useTranslation();
  const nameOf = useName();
  const found = useInfiniteQuery(stepsQuery(instanceId));
  const nodes = new Map(path.nodes.map((node) => [node.id, node]));
  const steps = found.data?.pages.flatMap((page) => page.items) ?? [];
  if (found.error && steps.length === 0) return <Failed error={found.error} />;
  if (found.isPending) return <Loading />;
  return (
    <>
      <ol className="timeline">
        {steps.map((step) => {
          const node = nodes.get(step.node_id);
          const Icon = iconOf(step.kind);
          const who = step.finished_by ?? step.actor;
          return (
            <li key={step.id} data-status={step.status}>
              <Icon aria-hidden size={16} strokeWidth={1.75} />
              <div>
                <Button className="as-link" onPress={() => onChoose(step.id)}>
                  {nameOfStep(t, step, node)}
                </Button>{" "}
                <span className={step.status === "failed" ? "bad" : "quiet"}>
                  {step.outcome && step.status === "completed" ? outcomeName(t, step.outcome) : statusName(t, step.status)}
                </span>
                <p className="small">
                  <Time at={step.finished_at ?? step.at} />
                  {who && ` · ${nameOf(who)}`}
                </p>
                {step.error && <p className="bad text clamp">{step.error}</p>}
                {step.reason && <p className="text clamp">{step.reason}</p>}
              </div>
            </li>
          );
        })}
      </ol>
      {found.hasNextPage && (
        <Button className="button" isPending={found.isFetchingNextPage} onPress={() => void found.fetchNextPage()}>
          {t("inbox.more")}
        </Button>
      )}
    </>
  );
}
