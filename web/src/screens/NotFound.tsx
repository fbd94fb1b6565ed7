/** Nothing is there, or it is not the reader's: which of them, nobody is told. */
import { Link } from "@tanstack/react-router";
import { SearchX } from "lucide-react";
import { useTranslation } from "react-i18next";

export function NotFound() {
  const { t } = useTranslation();
  return (
    <div className="state" role="alert">
      <SearchX aria-hidden size={28} strokeWidth={1.5} />
      <h1>{t("notFound.title")}</h1>
      <p>{t("notFound.hint")}</p>
      <Link to="/inbox" className="button">
        {t("notFound.inbox")}
      </Link>
    </div>
  );
}
