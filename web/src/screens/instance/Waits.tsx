/** What an instance waits for, in one sentence for each place. */
import { Link } from "@tanstack/react-router";
import type { TFunction } from "i18next";
import { useTranslation } from "react-i18next";

import type { Instance, Path, Token } from "../../api/operations";
import { Countdown } from "../../parts/Countdown";
import { plain } from "../../parts/format";
import { Due, Time, useName, useNow } from "../../parts/reader";
import { nameOfNode } from "./kinds";

type Place = Instance["steps"][number];

function sentence(t: TFunction<"words">, place: Place, token: Token | undefined, names: string): string {
  const step = place.label ?? plain(place.name);
  if (token?.state === "failed") return t("waits.failed", { step });
  switch (place.kind) {
    case "approval":
      return names ? t("waits.approval", { names, step }) : t("waits.unasked", { step });
    case "form":
      return names ? t("waits.form", { names, step }) : t("waits.formOpen", { step });
    case "wait_timer":
      return t("waits.timer", { step });
    case "wait_event":
      return t("waits.event", { step, key: token?.event_key ?? "" });
    case "requirements":
      return t("waits.documents", { step, names: place.missing.map((one) => plain(one.doc_type)).join(", ") });
    case "task":
      return t("waits.task", { step });
    case "webhook_out":
      return t("waits.answer", { step });
    case "state":
    case "lifecycle_gate":
      return t("waits.state", { step });
    default:
      return t("waits.other", { step });
  }
}

export function Waits({ instance, path }: { instance: Instance; path: Path | undefined }) {
  const { t } = useTranslation();
  const nameOf = useName();
  const now = useNow();
  if (instance.completed_at) {
    return (
      <p className="waits-for">
        {t(instance.status === "completed" ? "waits.completed" : instance.status === "failed" ? "waits.ended" : "waits.cancelled")}{" "}
        <Time at={instance.completed_at} />
      </p>
    );
  }
  const ready = path?.tokens.filter((token) => token.state === "ready") ?? [];
  const nodes = new Map(path?.nodes.map((node) => [node.id, nameOfNode(node)]));
  if (instance.steps.length === 0 && ready.length === 0) return <p className="waits-for">{t("waits.nothing")}</p>;
  return (
    <ul className="waits-for">
      {instance.steps.map((place) => {
        const token = path?.tokens.find((one) => one.step_id === place.step_id && one.node_id === place.node_id);
        const key = place.step_id ?? place.node_id;
        return (
          <li key={key}>
            {sentence(t, place, token, place.asked.map(nameOf).join(", "))}
            {token?.wakes_at ? (
              <>
                {" "}
                <Countdown at={token.wakes_at} />
              </>
            ) : place.due_at ? (
              <>
                {", "}
                <Due at={place.due_at} overdue={Date.parse(place.due_at) < now} />
              </>
            ) : (
              place.since && (
                <>
                  {", "}
                  <span className="quiet">
                    {t("waits.since")} <Time at={place.since} form="exact" />
                  </span>
                </>
              )
            )}{" "}
            {place.request_id && (
              <Link to="/inbox/$requestId" params={{ requestId: place.request_id }} className="link">
                {t("document.openRequest")}
              </Link>
            )}
          </li>
        );
      })}
      {ready.map((token) => (
        <li key={token.id}>{t("waits.worker", { step: nodes.get(token.node_id) ?? token.node_id })}</li>
      ))}
    </ul>
  );
}
