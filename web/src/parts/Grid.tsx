/** A table of objects, of which the reader may select several. */
import { Check, Minus } from "lucide-react";
import type { ReactNode } from "react";
import {
  Cell,
  Checkbox,
  Column,
  Row,
  Table,
  TableBody,
  TableHeader,
  type Selection,
} from "react-aria-components";
import { useTranslation } from "react-i18next";

export interface GridColumn<T> {
  id: string;
  name: string;
  /** Hidden on a phone. */
  isMinor?: boolean;
  cell: (item: T) => ReactNode;
}

interface GridProps<T> {
  label: string;
  items: readonly T[];
  columns: readonly GridColumn<T>[];
  nameOf: (item: T) => string;
  selected?: ReadonlySet<string>;
  onSelect?: (ids: Set<string>) => void;
}

export function Grid<T extends { id: string }>({ label, items, columns, nameOf, selected, onSelect }: GridProps<T>) {
  const canSelect = onSelect !== undefined;
  const change = (keys: Selection) =>
    onSelect?.(new Set(keys === "all" ? items.map((item) => item.id) : [...keys].map(String)));
  return (
    <div className="grid-scroll">
      <Table
        className="grid"
        aria-label={label}
        selectionMode={canSelect ? "multiple" : "none"}
        selectedKeys={selected ?? new Set<string>()}
        onSelectionChange={change}
      >
        <TableHeader>
          {canSelect && (
            <Column className="tick-column">
              <Tick />
            </Column>
          )}
          {columns.map((column, place) => (
            <Column key={column.id} id={column.id} isRowHeader={place === 0} className={column.isMinor ? "minor" : ""}>
              {column.name}
            </Column>
          ))}
        </TableHeader>
        <TableBody>
          {items.map((item) => (
            <Row key={item.id} id={item.id} textValue={nameOf(item)}>
              {canSelect && (
                <Cell className="tick-column">
                  <Tick />
                </Cell>
              )}
              {columns.map((column) => (
                <Cell key={column.id} className={column.isMinor ? "minor" : ""}>
                  {column.cell(item)}
                </Cell>
              ))}
            </Row>
          ))}
        </TableBody>
      </Table>
    </div>
  );
}

function Tick() {
  const { t } = useTranslation();
  return (
    <Checkbox slot="selection" className="check" aria-label={t("grid.select")}>
      {({ isIndeterminate }) => (
        <span className="box" aria-hidden>
          {isIndeterminate ? <Minus size={12} strokeWidth={3} /> : <Check size={12} strokeWidth={3} />}
        </span>
      )}
    </Checkbox>
  );
}
