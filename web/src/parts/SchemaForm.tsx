/** A form from its JSON Schema: react-jsonschema-form says which fields there are, React Aria how they behave.
 *
 * It checks nothing here: the validators compile code from schemas, which the content security policy refuses, and the
 * check of the server is the one that counts. Its problems come back with each draft.
 */
// The index of the package imports a validator, for tests.
import Core from "@rjsf/core/lib/components/Form.js";
import type {
  ArrayFieldItemTemplateProps,
  ArrayFieldTemplateProps,
  BaseInputTemplateProps,
  FieldTemplateProps,
  ObjectFieldTemplateProps,
  RJSFSchema,
  ValidatorType,
  WidgetProps,
} from "@rjsf/utils";
import { Check, ChevronDown, Plus, Trash2 } from "lucide-react";
import { createContext, useContext, useMemo } from "react";
import {
  Button,
  Checkbox,
  FieldError,
  Group,
  Input,
  Label,
  ListBox,
  ListBoxItem,
  NumberField,
  Popover,
  Select,
  SelectValue,
  Text,
  TextArea,
  TextField,
} from "react-aria-components";
import { useTranslation } from "react-i18next";

export type Data = Record<string, unknown>;
/** Messages by the id of a field: `root_currency`. */
export type FieldProblems = Readonly<Record<string, readonly string[]>>;

interface Around {
  data: Data;
  problems: FieldProblems;
  onLeave: (id: string) => void;
}

const Surrounding = createContext<Around>({ data: {}, problems: {}, onLeave: () => undefined });

const UNCHECKED: ValidatorType = {
  validateFormData: () => ({ errors: [], errorSchema: {} }),
  isValid: () => true,
  rawValidation: () => ({ errors: [] }),
};
/** A longer text is written in several lines. */
const LINE_MAX = 200;

interface SchemaFormProps {
  schema: Data;
  data: Data;
  problems: FieldProblems;
  isDisabled: boolean;
  onChange: (data: Data) => void;
  onLeave: (id: string) => void;
}

export function SchemaForm({ schema, data, problems, isDisabled, onChange, onLeave }: SchemaFormProps) {
  const { t } = useTranslation();
  const around = useMemo(() => ({ data, problems, onLeave }), [data, problems, onLeave]);
  // The server keeps no order of fields, so those that must be filled in come first.
  const order = useMemo(() => ({ "ui:order": [...((schema.required ?? []) as string[]), "*"] }), [schema]);
  if (Object.keys(schema.properties ?? {}).length === 0) return <p className="quiet">{t("form.noFields")}</p>;
  return (
    <Surrounding value={around}>
      <Core
        className="schema-form"
        tagName="div"
        schema={schema as RJSFSchema}
        uiSchema={order}
        formData={data}
        validator={UNCHECKED}
        noValidate
        showErrorList={false}
        disabled={isDisabled}
        templates={TEMPLATES}
        widgets={WIDGETS}
        onChange={(event) => onChange((event.formData ?? {}) as Data)}
      >
        <></>
      </Core>
    </Surrounding>
  );
}

function useField(id: string) {
  const { problems, onLeave } = useContext(Surrounding);
  const messages = problems[id] ?? [];
  return { messages, isInvalid: messages.length > 0, leave: () => onLeave(id) };
}

function Named({ label, required }: { label: string; required?: boolean }) {
  const { t } = useTranslation();
  return (
    <Label>
      {label.replace(/-(\d+)$/, " $1")}
      {!required && <span className="optional"> {t("form.optional")}</span>}
    </Label>
  );
}

function Messages({ messages }: { messages: readonly string[] }) {
  return <FieldError>{messages.join(" ")}</FieldError>;
}

/** Text, numbers, days and times. */
function BaseInput(props: BaseInputTemplateProps) {
  const { id, schema, value, onChange, label, required, disabled, readonly } = props;
  const { messages, isInvalid, leave } = useField(id);
  const common = {
    id,
    isRequired: required,
    isDisabled: disabled,
    isReadOnly: readonly,
    isInvalid,
    validationBehavior: "aria",
    onBlur: leave,
  } as const;
  if (schema.type === "integer") return <Whole {...props} />;
  const text = typeof value === "string" ? value : "";
  const isLong = (schema.maxLength ?? 0) > LINE_MAX && schema.format === undefined;
  const kind = schema.format === "date" ? "date" : schema.format === "date-time" ? "datetime-local" : "text";
  const take = (written: string) => onChange(written === "" ? undefined : kind === "datetime-local" ? instant(written) : schema.format === "decimal" ? written.replace(",", ".") : written);
  return (
    <TextField
      {...common}
      type={kind}
      inputMode={schema.format === "decimal" ? "decimal" : undefined}
      value={kind === "datetime-local" ? local(text) : text}
      onChange={take}
    >
      <Named label={label} required={required} />
      {isLong ? <TextArea className="input" rows={3} /> : <Input className="input" />}
      {schema.description && <Text slot="description">{schema.description}</Text>}
      <Messages messages={messages} />
    </TextField>
  );
}

/** The time on the reader's clock, as the browser's field takes it. */
function local(time: string): string {
  if (Number.isNaN(Date.parse(time))) return "";
  const at = new Date(time);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

const instant = (written: string) => (Number.isNaN(Date.parse(written)) ? written : new Date(written).toISOString());

/** A whole number; of money, minor units that are written as people write money. */
function Whole({ id, schema, value, onChange, label, required, disabled, readonly }: BaseInputTemplateProps) {
  const { data } = useContext(Surrounding);
  const { i18n } = useTranslation();
  const { messages, isInvalid, leave } = useField(id);
  const isMoney = schema.format === "money";
  const named = (schema as Data)["x-currency"] ?? data[String((schema as Data)["x-currency-field"])];
  const currency = typeof named === "string" && /^[A-Z]{3}$/.test(named) ? named : null;
  const digits = isMoney ? digitsOf(currency, i18n.language) : 0;
  const shown = typeof value === "number" ? value / 10 ** digits : NaN;
  return (
    <NumberField
      key={digits}
      id={id}
      isRequired={required}
      isDisabled={disabled}
      isReadOnly={readonly}
      isInvalid={isInvalid}
      validationBehavior="aria"
      value={shown}
      onChange={(number) => onChange(Number.isNaN(number) ? undefined : Math.round(number * 10 ** digits))}
      onBlur={leave}
      formatOptions={{
        minimumFractionDigits: digits,
        maximumFractionDigits: digits,
        ...(currency && isMoney ? { style: "currency", currency } : {}),
      }}
    >
      <Named label={label} required={required} />
      <Group>
        <Input className="input number-input" />
      </Group>
      <Messages messages={messages} />
    </NumberField>
  );
}

function digitsOf(currency: string | null, language: string): number {
  if (currency === null) return 2;
  return new Intl.NumberFormat(language, { style: "currency", currency }).resolvedOptions().maximumFractionDigits ?? 2;
}

function SelectWidget({ id, options, value, onChange, label, required, disabled, readonly, schema }: WidgetProps) {
  const { t } = useTranslation();
  const { messages, isInvalid, leave } = useField(id);
  const choices = (options.enumOptions ?? []).map((one) => String(one.value));
  return (
    <Select
      className="select-field"
      id={id}
      isRequired={required}
      isDisabled={disabled || readonly}
      isInvalid={isInvalid}
      validationBehavior="aria"
      placeholder={t("form.choose")}
      selectedKey={typeof value === "string" ? value : null}
      onSelectionChange={(key) => {
        onChange(key === "" ? undefined : key);
        leave();
      }}
    >
      <Named label={label} required={required} />
      <Button className="button" aria-invalid={isInvalid || undefined}>
        <SelectValue />
        <ChevronDown aria-hidden size={14} />
      </Button>
      {schema.description && <Text slot="description">{schema.description}</Text>}
      <Messages messages={messages} />
      <Popover className="popover">
        <ListBox className="menu">
          {!required && (
            <ListBoxItem id="" className="menu-item" textValue={t("form.none")}>
              <span className="tick" />
              <span className="quiet">{t("form.none")}</span>
            </ListBoxItem>
          )}
          {choices.map((one) => (
            <ListBoxItem key={one} id={one} className="menu-item" textValue={one}>
              <Check aria-hidden size={14} className="tick" />
              {one}
            </ListBoxItem>
          ))}
        </ListBox>
      </Popover>
    </Select>
  );
}

function CheckboxWidget({ id, value, onChange, label, disabled, readonly }: WidgetProps) {
  const { messages, isInvalid, leave } = useField(id);
  return (
    <div className="check-field">
      <Checkbox
        id={id}
        className="check"
        isSelected={value === true}
        isDisabled={disabled}
        isReadOnly={readonly}
        isInvalid={isInvalid}
        onChange={onChange}
        onBlur={leave}
      >
        <span className="box" aria-hidden>
          <Check size={12} strokeWidth={3} />
        </span>
        {label}
      </Checkbox>
      {messages.length > 0 && <p className="react-aria-FieldError">{messages.join(" ")}</p>}
    </div>
  );
}

const Field = ({ children, hidden }: FieldTemplateProps) => (hidden ? null : <div className="schema-field">{children}</div>);

function ObjectField({ fieldPathId, title, properties }: ObjectFieldTemplateProps) {
  const { messages } = useField(fieldPathId.$id);
  const content = properties.map((one) => one.content);
  if (fieldPathId.$id === "root") return <>{content}</>;
  return (
    <fieldset>
      <legend>{title}</legend>
      {messages.length > 0 && <p className="react-aria-FieldError">{messages.join(" ")}</p>}
      {content}
    </fieldset>
  );
}

function ArrayField({ fieldPathId, title, items, canAdd, onAddClick, disabled, readonly }: ArrayFieldTemplateProps) {
  const { t } = useTranslation();
  const { messages } = useField(fieldPathId.$id);
  return (
    <fieldset>
      <legend>{title}</legend>
      {messages.length > 0 && <p className="react-aria-FieldError">{messages.join(" ")}</p>}
      {items}
      {canAdd && (
        <Button className="button" isDisabled={disabled || readonly} onPress={() => onAddClick()}>
          <Plus aria-hidden size={14} />
          {t("form.add")}
        </Button>
      )}
    </fieldset>
  );
}

function ArrayItem({ children, buttonsProps, index, disabled, readonly }: ArrayFieldItemTemplateProps) {
  const { t } = useTranslation();
  return (
    <div className="array-item">
      {children}
      {buttonsProps.hasRemove && (
        <Button
          className="button"
          data-tone="quiet"
          aria-label={t("form.remove", { number: index + 1 })}
          isDisabled={disabled || readonly}
          onPress={() => buttonsProps.onRemoveItem()}
        >
          <Trash2 aria-hidden size={14} />
        </Button>
      )}
    </div>
  );
}

const TEMPLATES = {
  BaseInputTemplate: BaseInput,
  FieldTemplate: Field,
  ObjectFieldTemplate: ObjectField,
  ArrayFieldTemplate: ArrayField,
  ArrayFieldItemTemplate: ArrayItem,
};
const WIDGETS = {
  SelectWidget,
  CheckboxWidget,
  DateWidget: BaseInput,
  DateTimeWidget: BaseInput,
};
