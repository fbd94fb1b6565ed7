/** The place of a request, while none is chosen. */
import { useTranslation } from "react-i18next";

import { Empty } from "../parts/states";
import { useInbox } from "./InboxPage";

export function Choose() {
  const { t } = useTranslation();
  const { items } = useInbox();
  if (items.length === 0) return null;
  return <Empty title={t("inbox.choose")} hint={t("inbox.chooseHint")} />;
}
