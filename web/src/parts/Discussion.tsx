/** What was said about a document or a request, and a place to say something or to ask its requester. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { MessageCircleQuestion } from "lucide-react";
import { useState } from "react";
import { Button, Label, TextArea, TextField } from "react-aria-components";
import { useTranslation } from "react-i18next";

import { api, taken } from "../api/client";
import { commentsQuery, questionsQuery, type Approval, type Comment } from "../api/queries";
import { Time, useName } from "./reader";
import { Failed } from "./states";

export function Discussion({ request }: { request: Approval }) {
  const { t } = useTranslation();
  const client = useQueryClient();
  const nameOf = useName();
  const [text, setText] = useState("");
  const entity = request.entity_type && request.entity_id ? { type: request.entity_type, id: request.entity_id } : null;
  const comments = useQuery({ ...commentsQuery(entity?.type ?? "", entity?.id ?? ""), enabled: entity !== null });
  const questions = useQuery(questionsQuery(request.id));
  const sending = useMutation({
    mutationFn: async (kind: "comment" | "question"): Promise<unknown> =>
      kind === "comment" && entity !== null
        ? taken(
            api.POST("/api/entities/{entity_type}/{entity_id}/comments", {
              params: { path: { entity_type: entity.type, entity_id: entity.id } },
              body: { text },
            }),
          )
        : taken(
            api.POST("/api/approvals/{request_id}/questions", {
              params: { path: { request_id: request.id } },
              body: { text },
            }),
          ),
    onSuccess: async () => {
      setText("");
      await Promise.all([
        client.invalidateQueries({ queryKey: ["entity", entity?.id, "comments"] }),
        client.invalidateQueries({ queryKey: ["approval", request.id] }),
      ]);
    },
  });
  const said = new Map<string, Comment>();
  for (const each of [...(comments.data?.items ?? []), ...(questions.data?.items ?? [])]) said.set(each.id, each);
  const all = [...said.values()].sort((a, b) => a.created_at.localeCompare(b.created_at));
  const canAsk = request.status === "pending" && request.answers.length > 0;
  const canSay = entity !== null && comments.isSuccess;
  return (
    <section>
      <h3>{t("request.discussion")}</h3>
      {all.length === 0 && <p className="quiet">{t("request.noComments")}</p>}
      <ol className="talk">
        {all.map((each) => (
          <Said key={each.id} comment={each} />
        ))}
      </ol>
      {sending.error && <Failed error={sending.error} />}
      {(canAsk || canSay) && (
        <div className="write">
          <TextField value={text} onChange={setText} maxLength={2000}>
            <Label>{t("request.comment")}</Label>
            <TextArea className="input" rows={2} />
          </TextField>
          <div className="actions">
            {canSay && (
              <Button
                className="button"
                isDisabled={!text.trim()}
                isPending={sending.isPending}
                onPress={() => sending.mutate("comment")}
              >
                {t("request.addComment")}
              </Button>
            )}
            {canAsk && (
              <Button
                className="button"
                isDisabled={!text.trim()}
                isPending={sending.isPending}
                onPress={() => sending.mutate("question")}
              >
                <MessageCircleQuestion aria-hidden size={14} />
                {t("request.ask", { name: nameOf(request.requested_by) })}
              </Button>
            )}
          </div>
        </div>
      )}
    </section>
  );
}

function Said({ comment }: { comment: Comment }) {
  const { t } = useTranslation();
  const nameOf = useName();
  return (
    <li>
      <p className="talk-head">
        <strong>{nameOf(comment.author_id)}</strong>
        {comment.kind === "question" && comment.asks && (
          <span className="tag">{t("request.question", { name: nameOf(comment.asks) })}</span>
        )}
        <Time at={comment.created_at} />
      </p>
      <p className="text">{comment.text}</p>
      {comment.kind === "question" && (
        <p className="text answer">{comment.answer ?? <span className="quiet">{t("request.unanswered")}</span>}</p>
      )}
    </li>
  );
}
