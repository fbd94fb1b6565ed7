/** The place of a request, while none is chosen. */
import { useTranslation } from "react-i18next";

import { Empty } from "../parts/states";

export function Choose() {
  const { t } = useTranslation();
  return <Empty title={t("inbox.choose")} hint={t("inbox.chooseHint")} />;
}
