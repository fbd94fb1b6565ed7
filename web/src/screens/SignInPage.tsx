/** Sign in: with an API key, and in the demo as one of its people. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Button, FieldError, Form, Input, Label, Text, TextField } from "react-aria-components";
import { useTranslation } from "react-i18next";

import { waysQuery } from "../api/queries";
import { safeTarget, signIn } from "../app/session";
import { Failed } from "../parts/states";

export function SignInPage() {
  const { t } = useTranslation();
  const client = useQueryClient();
  const navigate = useNavigate();
  const { to } = useSearch({ from: "/sign-in" });
  const { data: ways } = useQuery(waysQuery);
  const entering = useMutation({
    mutationFn: (who: { key: string } | { user: string }) => signIn(client, who),
    onSuccess: () => navigate({ href: safeTarget(to), replace: true }),
  });
  const people = ways?.people ?? [];
  return (
    <main className="alone">
      <div className="card sign-in">
        <p className="brand">
          <span className="mark" aria-hidden />
          {t("app.name")}
        </p>
        <h1>{t("signIn.title")}</h1>
        {entering.error && <Failed error={entering.error} />}
        {people.length > 0 && (
          <section>
            <h2>{t("signIn.demo")}</h2>
            <ul className="people">
              {people.map((person) => (
                <li key={person.user_id}>
                  <Button
                    className="person"
                    isPending={entering.isPending}
                    onPress={() => entering.mutate({ user: person.user_id })}
                  >
                    <span className="avatar" aria-hidden data-initial={person.name.slice(0, 1).toUpperCase()} />
                    <span>{person.name}</span>
                  </Button>
                </li>
              ))}
            </ul>
          </section>
        )}
        <Form
          onSubmit={(event) => {
            event.preventDefault();
            const key = new FormData(event.currentTarget).get("key");
            if (typeof key === "string" && key.trim()) entering.mutate({ key: key.trim() });
          }}
        >
          {people.length > 0 && <h2>{t("signIn.withKey")}</h2>}
          <TextField name="key" type="password" autoComplete="current-password" isRequired maxLength={200}>
            <Label>{t("signIn.key")}</Label>
            <Input className="input" />
            <Text slot="description">{t("signIn.keyHint")}</Text>
            <FieldError />
          </TextField>
          <Button type="submit" className="button" data-tone={people.length ? undefined : "main"} isPending={entering.isPending}>
            {t("signIn.submit")}
          </Button>
        </Form>
      </div>
    </main>
  );
}
