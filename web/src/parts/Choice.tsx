/** One of several values, with its label. */
import { Check, ChevronDown } from "lucide-react";
import { Button, Label, ListBox, ListBoxItem, Popover, Select, SelectValue } from "react-aria-components";

interface ChoiceProps {
  label: string;
  chosen: string;
  options: readonly { id: string; name: string }[];
  onChoose: (id: string) => void;
}

export function Choice({ label, chosen, options, onChoose }: ChoiceProps) {
  return (
    <Select className="choice" selectedKey={chosen} onSelectionChange={(key) => onChoose(String(key))}>
      <Label>{label}</Label>
      <Button className="button">
        <SelectValue />
        <ChevronDown aria-hidden size={14} />
      </Button>
      <Popover className="popover">
        <ListBox className="menu" items={options}>
          {(option) => (
            <ListBoxItem id={option.id} className="menu-item" textValue={option.name}>
              <Check aria-hidden size={14} className="tick" />
              <span className="menu-text">{option.name}</span>
            </ListBoxItem>
          )}
        </ListBox>
      </Popover>
    </Select>
  );
}
