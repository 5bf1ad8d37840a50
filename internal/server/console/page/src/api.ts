// SPDX-License-Identifier: Apache-2.0
// The sidecar's API for operators. Everything goes to the origin of the page, and nowhere else.
import { Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { signal } from "@preact/signals";
import { AdminService, type GetServerResponse } from "./gen/outrigger/admin/v1/admin_pb";

/** The sidecar, as it last said; undefined before the first answer. */
export const server = signal<GetServerResponse>();
/** The API asks for credentials, and the browser has none that are valid. */
export const signedOut = signal(false);
/** The sidecar does not answer. */
export const away = signal(false);
/** Counts how often the sidecar came back, or may have: what was fetched before may be old. */
export const returns = signal(0);
/** Why the API refuses everything, other than for credentials; empty if it does not. */
export const problem = signal("");

const watchErrors: Interceptor = (next) => async (request) => {
  try {
    const answer = await next(request);
    back();
    return answer;
  } catch (cause) {
    note(cause);
    throw cause;
  }
};

export const api = createClient(
  AdminService,
  createConnectTransport({ baseUrl: location.origin, interceptors: [watchErrors] }),
);
export type Api = typeof api;

/**
 * Takes what an error says of the session: signed out, or the sidecar is away. The interceptor sees what fails before an answer
 * begins; who reads a stream passes what ends it.
 */
export function note(cause: unknown): void {
  const error = ConnectError.from(cause);
  if (error.code === Code.Unauthenticated) signedOut.value = true;
  else if (isAway(error)) awayNow();
}

/** The sidecar, or what is between it and the browser, did not answer. */
export function isAway(cause: unknown): boolean {
  const error = ConnectError.from(cause);
  if (error.cause instanceof TypeError || cause instanceof TypeError) return true;
  // A sidecar that says itself that something is unavailable, such as a backend, is there. These are the words for a bare status.
  return error.code === Code.Unavailable && /^HTTP 50[234]$/.test(error.rawMessage);
}

/** What an error says, for people. */
export function errorText(cause: unknown): string {
  if (cause instanceof ConnectError) return cause.rawMessage || Code[cause.code];
  return cause instanceof Error ? cause.message : String(cause);
}

const refreshMs = 10_000;
let retry: ReturnType<typeof setTimeout> | undefined;
let attempts = 0;

/** Asks for the sidecar now, and from then on: now and then, and with growing pauses while it is away. Call it once. */
export async function keepServer(): Promise<void> {
  clearTimeout(retry);
  retry = undefined;
  try {
    server.value = await api.getServer({}, { timeoutMs: 5_000 });
    attempts = 0;
    signedOut.value = false;
    problem.value = "";
  } catch (cause) {
    attempts++;
    const { code } = ConnectError.from(cause);
    if (isAway(cause) || code === Code.DeadlineExceeded) away.value = true;
    else if (code !== Code.Unauthenticated) problem.value = errorText(cause);
  }
  schedule();
}

function schedule(): void {
  if (signedOut.value) return;
  const pause = away.value ? Math.min(refreshMs, 500 * 2 ** Math.min(attempts, 5)) : refreshMs;
  retry = setTimeout(() => void keepServer(), pause);
}

function back(): void {
  if (!away.value) return;
  away.value = false;
  returns.value++;
}

function awayNow(): void {
  if (away.value) return;
  away.value = true;
  clearTimeout(retry);
  schedule();
}

const againMs = 3_000;
let later: ReturnType<typeof setTimeout> | undefined;

/** What could not be fetched is fetched again in a moment: the sidecar may not have had a catalog yet, or may have another one now. */
export function fetchAgain(): void {
  later ??= setTimeout(() => {
    later = undefined;
    returns.value++;
  }, againMs);
}

/** Signs in by an admin token; the error's text if it is refused, else empty. */
export async function signIn(token: string): Promise<string> {
  let answer: Response;
  try {
    answer = await fetch("/console/sign-in", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token }),
    });
  } catch {
    return "The sidecar does not answer.";
  }
  if (!answer.ok) return (await refusal(answer)) || `Refused with status ${answer.status}.`;
  signedOut.value = false;
  await keepServer();
  return "";
}

export async function signOut(): Promise<void> {
  try {
    await fetch("/console/sign-out", { method: "POST" });
  } catch {
    away.value = true;
  }
  server.value = undefined;
  await keepServer();
}

/** The text of {"error": "…"}; empty if the answer has none. */
export async function refusal(answer: Response): Promise<string> {
  try {
    const body: unknown = await answer.json();
    return typeof body === "object" && body !== null && "error" in body ? String(body.error) : "";
  } catch {
    return "";
  }
}
