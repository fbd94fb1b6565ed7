/** What stands where content would be: loading, nothing there, a problem. */
import { CircleAlert, Inbox } from "lucide-react";
import type { ReactNode } from "react";
import { Button } from "react-aria-components/Button";
import { useTranslation } from "react-i18next";

import { Refusal, Unreachable } from "../api/client";

export function Loading() {
  const { t } = useTranslation();
  return (
    <p className="state quiet" role="status">
      {t("app.loading")}
    </p>
  );
}

export function Empty({ title, hint, action }: { title: string; hint?: string; action?: ReactNode }) {
  return (
    <div className="state">
      <Inbox aria-hidden size={28} strokeWidth={1.5} />
      <h2>{title}</h2>
      {hint && <p>{hint}</p>}
      {action}
    </div>
  );
}

/** A problem with its code, as the server said it. */
export function ProblemText({ error }: { error: Error }) {
  const { t } = useTranslation();
  if (!(error instanceof Refusal)) {
    return <p>{error instanceof Unreachable ? t("problem.unreachable") : t("problem.unexpected")}</p>;
  }
  const { detail, hint, code, problems } = error.problem;
  return (
    <>
      <p>{detail}</p>
      {problems.length > 1 && (
        <ul>
          {problems.map((each, number) => (
            <li key={number}>{each.message}</li>
          ))}
        </ul>
      )}
      {hint && <p>{hint}</p>}
      <p className="code">{t("problem.code", { code })}</p>
    </>
  );
}

export function Failed({ error, retry }: { error: Error; retry?: () => void }) {
  const { t } = useTranslation();
  return (
    <div className="notice" data-tone="bad" role="alert">
      <CircleAlert aria-hidden size={18} />
      <div>
        <h2>{t("problem.title")}</h2>
        <ProblemText error={error} />
        {retry && (
          <Button className="button" onPress={retry}>
            {t("problem.retry")}
          </Button>
        )}
      </div>
    </div>
  );
}
