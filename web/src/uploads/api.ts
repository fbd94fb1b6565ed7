/** What the upload page asks of the server: the API of the link itself, with nothing of a session. */
import type { components } from "../api/schema";

type Schemas = components["schemas"];
export type Asked = Schemas["AskedUploadsBody"];
export type AskedDocument = Schemas["AskedDocumentBody"];

/** The link of this page; the server that shows the page answers at the same address. */
const LINK = location.origin + location.pathname.replace(/\/+$/, "");
const LOOK_TIMEOUT_MS = 20_000;

/** Why something was not done: the code of the server, `unreachable`, or `COMPLETED` where nothing is left to do. */
export class Failure extends Error {
  readonly code: string;

  constructor(code: string) {
    super(code);
    this.code = code;
  }
}

function codeOf(text: string): string {
  try {
    const { code, problems } = JSON.parse(text) as Partial<Schemas["ProblemBody"]>;
    if (code === "REQUEST_ENDED" && problems?.some((one) => one.path.at(-1) === "completed")) return "COMPLETED";
    return typeof code === "string" ? code : "other";
  } catch {
    return "other";
  }
}

export async function look(): Promise<Asked> {
  let reply: Response;
  try {
    reply = await fetch(LINK, {
      headers: { Accept: "application/json" },
      credentials: "omit",
      signal: AbortSignal.timeout(LOOK_TIMEOUT_MS),
    });
  } catch {
    throw new Failure("unreachable");
  }
  if (!reply.ok) throw new Failure(codeOf(await reply.text()));
  return (await reply.json()) as Asked;
}

/** Send a file; `fetch` does not say how far it has come. The same file again changes nothing, so that it can be repeated. */
export function send(
  docType: string,
  file: File,
  onShare: (share: number) => void,
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `${LINK}/${encodeURIComponent(docType)}?name=${encodeURIComponent(file.name.slice(-150))}`);
    request.setRequestHeader("Content-Type", /^[\w.+-]+\/[\w.+-]+$/.test(file.type) ? file.type : "application/octet-stream");
    request.upload.onprogress = (event) => onShare(event.lengthComputable ? event.loaded / event.total : 0);
    request.onload = () =>
      request.status >= 200 && request.status < 300 ? resolve() : reject(new Failure(codeOf(request.responseText)));
    request.onerror = () => reject(new Failure("unreachable"));
    request.onabort = () => reject(new Failure("cancelled"));
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}
