/** The content of a document: each field with its label, as people read it. */
import { useTranslation } from "react-i18next";

import type { Contract } from "../api/queries";
import { plain, shown } from "./format";
import { useReader } from "./reader";

export function labelOf(name: string, contract: Contract | undefined): string {
  return contract?.fields.find((field) => field.name === name)?.label ?? plain(name);
}

export function Fields({ data, contract }: { data: Record<string, unknown>; contract: Contract | undefined }) {
  const { t } = useTranslation();
  const reader = useReader();
  const known = contract?.fields.map((field) => field.name) ?? [];
  const names = [...known, ...Object.keys(data).filter((name) => !known.includes(name))];
  const filled = names.filter((name) => data[name] !== null && data[name] !== undefined);
  if (filled.length === 0) return <p className="quiet">{t("document.noFields")}</p>;
  return (
    <dl className="fields">
      {filled.map((name) => {
        const field = contract?.fields.find((each) => each.name === name);
        return (
          <div key={name} data-type={field?.type}>
            <dt>{labelOf(name, contract)}</dt>
            <dd>{shown(data[name], field, data, reader)}</dd>
          </div>
        );
      })}
    </dl>
  );
}
