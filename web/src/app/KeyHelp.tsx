/** The list of keyboard shortcuts. */
import { Button, Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { useTranslation } from "react-i18next";

import { useKeys } from "./keys";

const SHORTCUTS = [
  ["J", "keys.next"],
  ["K", "keys.previous"],
  ["A", "keys.approve"],
  ["R", "keys.reject"],
  ["Esc", "keys.back"],
  ["?", "keys.help"],
] as const;

export function KeyHelp({ isOpen, onOpenChange }: { isOpen: boolean; onOpenChange: (open: boolean) => void }) {
  const { t } = useTranslation();
  useKeys({ "?": () => onOpenChange(true) });
  return (
    <ModalOverlay className="veil" isOpen={isOpen} onOpenChange={onOpenChange} isDismissable>
      <Modal className="modal">
        <Dialog>
          <Heading slot="title">{t("keys.title")}</Heading>
          <dl className="keys">
            {SHORTCUTS.map(([key, name]) => (
              <div key={key}>
                <dt>
                  <kbd>{key}</kbd>
                </dt>
                <dd>{t(name)}</dd>
              </div>
            ))}
          </dl>
          <Button className="button" slot="close">
            {t("keys.close")}
          </Button>
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}
