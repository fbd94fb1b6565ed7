/** A dialog before a command: what it will do, what it needs to know, a reason, and what the server answered. */
import { useMutation } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { Button, Dialog, Form, Heading, Label, Modal, ModalOverlay, TextArea, TextField } from "react-aria-components";
import { useTranslation } from "react-i18next";

import { Failed } from "./states";

export interface Question {
  title: string;
  /** What will happen. */
  says: string;
  /** The word on the button. */
  act: string;
  tone?: "main" | "bad";
  reason?: "needed" | "optional";
  fields?: ReactNode;
  /** Whether the fields are filled in. */
  isReady?: boolean;
  run: (reason: string) => Promise<unknown>;
}

export function Asked({ question, onClose }: { question: Question; onClose: (isDone: boolean) => void }) {
  const { t } = useTranslation();
  const [reason, setReason] = useState("");
  const doing = useMutation({ mutationFn: () => question.run(reason.trim()), onSuccess: () => onClose(true) });
  const isReady = (question.isReady ?? true) && (question.reason !== "needed" || reason.trim() !== "");
  return (
    <ModalOverlay className="veil" isOpen onOpenChange={() => onClose(false)} isDismissable={!doing.isPending}>
      <Modal className="modal">
        <Dialog>
          <Heading slot="title">{question.title}</Heading>
          <p>{question.says}</p>
          <Form
            className="asked"
            onSubmit={(event) => {
              event.preventDefault();
              if (isReady && !doing.isPending) doing.mutate();
            }}
          >
            {question.fields}
            {question.reason && (
              <TextField value={reason} onChange={setReason} isRequired={question.reason === "needed"} maxLength={2000}>
                <Label>{t(question.reason === "needed" ? "decide.reason" : "decide.reasonOptional")}</Label>
                <TextArea className="input" rows={2} />
              </TextField>
            )}
            {doing.error && <Failed error={doing.error} />}
            <div className="actions">
              <Button
                type="submit"
                className="button"
                data-tone={question.tone ?? "main"}
                isDisabled={!isReady}
                isPending={doing.isPending}
              >
                {question.act}
              </Button>
              <Button className="button" isDisabled={doing.isPending} onPress={() => onClose(false)}>
                {t("document.back")}
              </Button>
            </div>
          </Form>
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}
