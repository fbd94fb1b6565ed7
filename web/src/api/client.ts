/** The client of the HTTP API, whose types are generated from its document. */
import createClient, { type Middleware } from "openapi-fetch";

import type { components, paths } from "./schema";

export type Schemas = components["schemas"];
export type Problem = Schemas["ProblemBody"];

/** What the server refused, with its problem. */
export class Refusal extends Error {
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(problem.detail);
    this.problem = problem;
  }
}

/** The server did not answer, or not as our API does. */
export class Unreachable extends Error {}

const ownPage: Middleware = {
  onRequest({ request }) {
    // A page of another origin cannot send it; see `assent.http.auth.cookies`.
    request.headers.set("Assent-Client", "web");
    return request;
  },
};

/** Where the API is: the pages may be mounted under a path. */
export const base = new URL(".", document.baseURI).pathname.replace(/\/$/, "");

export const api = createClient<paths>({ baseUrl: location.origin + base, credentials: "same-origin" });
api.use(ownPage);

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

function isProblem(body: unknown): body is Problem {
  return typeof body === "object" && body !== null && "code" in body && "detail" in body;
}

/** The body of an answer; raises `Refusal` or `Unreachable`. */
export async function taken<T>(asking: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>;
  try {
    answer = await asking;
  } catch (error) {
    throw new Unreachable(String(error));
  }
  if (answer.response.ok) return answer.data as T;
  if (isProblem(answer.error)) throw new Refusal(answer.error);
  throw new Unreachable(`${answer.response.status}`);
}
