// SPDX-License-Identifier: Apache-2.0
// One call of a tool, in any revision of MCP or canonical JSON-RPC, over the console's own endpoints.
import { createParser } from "eventsource-parser";
import { isNumber, jsonText, member, text, type Json, type JsonObject } from "../json";
import {
  answerText,
  canonical,
  capabilities,
  clientInfo,
  isModern,
  metaText,
  mirroredHeaders,
  modernHeaders,
  newID,
  notificationText,
  objectText,
  questionsOf,
  readMessage,
  readQuestion,
  requestText,
  type Answer,
  type Message,
  type Part,
  type Question,
} from "./wire";

const maxAnswerBytes = 64 << 20;
const maxRounds = 64;
const maxResumptions = 256;

export interface Progress {
  progress: number;
  total?: number;
  message: string;
}

export interface LogLine {
  level: string;
  logger: string;
  data: Json;
}

export interface Task {
  id: string;
  status: string;
  message: string;
}

/** What happens while a call runs. */
export interface Watcher {
  progress(p: Progress): void;
  log(l: LogLine): void;
  task(t: Task): void;
  /** The id of the call in the sidecar. */
  id(id: string): void;
  /** A message as it went out or came in. */
  message(direction: "sent" | "received", raw: string): void;
  /** Asks the user. Rejects if the signal ends it. */
  ask(q: Question, signal: AbortSignal): Promise<Answer>;
}

export interface CallOptions {
  /** A revision of MCP, or "/rpc". */
  revision: string;
  /** Whom the call is made as; empty is the anonymous local caller. */
  caller: string;
  name: string;
  mcpName: string;
  /** The arguments as JSON text, sent as they are. */
  argumentsText: string;
  arguments: Json;
  inputSchema: Json | undefined;
  watcher: Watcher;
  /** Ends the call. A task is asked to end, and its end awaited. */
  cancel: AbortSignal;
  /** Ends everything at once, without a word to the sidecar but the end of the request. */
  leave: AbortSignal;
  fetch?: typeof fetch;
}

export type Outcome =
  | { kind: "result"; result: JsonObject; raw: string }
  | { kind: "error"; error: JsonObject; raw: string }
  | { kind: "refused"; status: number; text: string }
  | { kind: "cancelled" };

/** What a response other than one of JSON-RPC says. */
class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Makes a call and follows it to its end. Rejects with a TypeError if the sidecar does not answer. */
export async function call(o: CallOptions): Promise<Outcome> {
  const run = o.revision === canonical ? callCanonical : isModern(o.revision) ? callModern : callLegacy;
  try {
    return await run(new Wire(o));
  } catch (cause) {
    if (cause instanceof Refused) return { kind: "refused", status: cause.status, text: cause.message };
    // A sidecar that no longer answers has not said that the call is cancelled.
    if ((o.cancel.aborted || o.leave.aborted) && !(cause instanceof TypeError)) return { kind: "cancelled" };
    throw cause;
  }
}

interface Received {
  raw: string;
  message: Message;
}

/** The way to the sidecar for one call. */
class Wire {
  session = "";
  constructor(readonly o: CallOptions) {}

  /** Posts a message, and returns the response; JSON-RPC errors count as responses, whatever their status. */
  async post(body: string, headers: Record<string, string>, signal: AbortSignal): Promise<Response> {
    this.o.watcher.message("sent", body);
    return this.send("POST", headers, signal, body);
  }

  async send(method: string, headers: Record<string, string>, signal: AbortSignal, body?: string): Promise<Response> {
    const path = this.o.revision === canonical ? "/console/call/rpc" : "/console/call/mcp";
    const all: Record<string, string> = { Accept: "application/json, text/event-stream", ...headers };
    if (body !== undefined) all["Content-Type"] = "application/json";
    if (this.o.caller !== "") all["Outrigger-Caller"] = this.o.caller;
    if (this.session !== "") all["Mcp-Session-Id"] = this.session;
    return (this.o.fetch ?? fetch)(path, { method, headers: all, signal, ...(body === undefined ? {} : { body }) });
  }

  /** Posts the call itself, which has a number by which the sidecar finds it. */
  async call(body: string, headers: Record<string, string>, signal: AbortSignal, each?: (m: Message) => void): Promise<Received> {
    const answer = await this.post(body, headers, signal);
    const id = answer.headers.get("Outrigger-Call-Id");
    if (id) this.o.watcher.id(id);
    return this.follow(answer, headers, signal, each);
  }

  /** Posts a request and returns its response. */
  async request(body: string, headers: Record<string, string>, signal: AbortSignal): Promise<Received> {
    return this.follow(await this.post(body, headers, signal), headers, signal);
  }

  /** Reads an answer to its response, while each sees what comes before. */
  private async follow(answer: Response, headers: Record<string, string>, signal: AbortSignal, each?: (m: Message) => void): Promise<Received> {
    const stream = new Stream(this.o.watcher, each);
    await stream.read(answer);
    // A legacy server may end a stream early, and go on after the last event that was seen.
    for (let i = 0; !stream.found && stream.lastEvent !== "" && i < maxResumptions; i++) {
      await pause(stream.retryMs, signal);
      await stream.read(await this.send("GET", { ...headers, "Last-Event-ID": stream.lastEvent }, signal));
    }
    if (!stream.found) throw new Refused(0, "The answer ended before its response.");
    return stream.found;
  }
}

/** Reads responses until that of a request is found. */
class Stream {
  found: Received | undefined;
  lastEvent = "";
  retryMs = 1_000;
  private bytes = 0;
  constructor(
    private readonly watcher: Watcher,
    private readonly each: ((m: Message) => void) | undefined,
  ) {}

  async read(answer: Response): Promise<void> {
    const type = answer.headers.get("Content-Type") ?? "";
    if (type.startsWith("text/event-stream")) return this.events(answer);
    const raw = await boundedText(answer);
    const message = readMessage(raw);
    if (!message || message.kind === "request" || message.kind === "notification") throw new Refused(answer.status, refusalOf(raw, answer));
    this.watcher.message("received", raw);
    this.found = { raw, message };
  }

  private async events(answer: Response): Promise<void> {
    const decoder = new TextDecoder();
    const parser = createParser({
      onEvent: (e) => {
        if (e.id) this.lastEvent = e.id;
        if (e.data !== "") this.take(e.data);
      },
      onRetry: (ms) => {
        this.retryMs = Math.min(Math.max(ms, 100), 10_000);
      },
    });
    const reader = answer.body!.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      this.bytes += value.length;
      if (this.bytes > maxAnswerBytes) {
        await reader.cancel();
        throw new Refused(answer.status, tooLarge);
      }
      parser.feed(decoder.decode(value, { stream: true }));
      if (this.found) {
        await reader.cancel();
        break;
      }
    }
  }

  private take(raw: string): void {
    if (this.found) return;
    this.watcher.message("received", raw);
    const message = readMessage(raw);
    if (!message) return;
    if (message.kind === "result" || message.kind === "error") this.found = { raw, message };
    else if (!observe(message, this.watcher)) this.each?.(message);
  }
}

const tooLarge = `The answer exceeds ${maxAnswerBytes >> 20} MiB, the most that the console reads.`;

async function boundedText(answer: Response): Promise<string> {
  const reader = answer.body?.getReader();
  if (!reader) return "";
  const decoder = new TextDecoder();
  let all = "";
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return all + decoder.decode();
    bytes += value.length;
    if (bytes > maxAnswerBytes) {
      await reader.cancel();
      throw new Refused(answer.status, tooLarge);
    }
    all += decoder.decode(value, { stream: true });
  }
}

/** What a response that is no JSON-RPC message says. */
function refusalOf(raw: string, answer: Response): string {
  try {
    const body: unknown = JSON.parse(raw);
    if (typeof body === "object" && body !== null && "error" in body && typeof body.error === "string") return body.error;
  } catch {
    // A text, or nothing.
  }
  return raw.trim().slice(0, 1_000) || `The sidecar answered with status ${answer.status}.`;
}

/** Hands progress and log lines to the watcher; false if a message is neither. */
function observe(m: Message, watcher: Watcher): boolean {
  if (m.kind !== "notification") return false;
  if (m.method === "notifications/progress") {
    const total = member(m.params, "total");
    watcher.progress({
      progress: plain(member(m.params, "progress")),
      ...(isNumber(total) ? { total: plain(total) } : {}),
      message: text(m.params, "message"),
    });
    return true;
  }
  if (m.method === "notifications/message") {
    watcher.log({ level: text(m.params, "level"), logger: text(m.params, "logger"), data: member(m.params, "data") ?? null });
    return true;
  }
  return false;
}

function plain(value: Json | undefined): number {
  return isNumber(value) ? Number(value.toString()) : 0;
}

export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", end);
      resolve();
    }, ms);
    if (signal.aborted) end();
    else signal.addEventListener("abort", end, { once: true });
  });
}

function outcome(r: Received): Outcome {
  if (r.message.kind === "error") return { kind: "error", error: r.message.error, raw: r.raw };
  return { kind: "result", result: r.message.kind === "result" ? r.message.result : {}, raw: r.raw };
}

async function callCanonical(w: Wire): Promise<Outcome> {
  const { o } = w;
  const body = requestText(newID(), "tools/call", [
    ["name", JSON.stringify(o.name)],
    ["arguments", o.argumentsText],
  ]);
  return outcome(await w.call(body, {}, AbortSignal.any([o.cancel, o.leave])));
}

async function callModern(w: Wire): Promise<Outcome> {
  const { o } = w;
  const signal = AbortSignal.any([o.cancel, o.leave]);
  const headers = { ...modernHeaders(o.revision, "tools/call", o.mcpName), ...mirroredHeaders(o.inputSchema, o.arguments) };
  let more: Part[] = [];
  for (let round = 0; round < maxRounds; round++) {
    const id = newID();
    const body = requestText(id, "tools/call", [
      ["name", JSON.stringify(o.mcpName)],
      ["arguments", o.argumentsText],
      ["_meta", metaText(o.revision, id)],
      ...more,
    ]);
    const end = outcome(await w.call(body, headers, signal));
    if (end.kind !== "result") return end;
    const type = text(end.result, "resultType");
    if (type === "task") return followTask(w, end.result);
    if (type !== "input_required") return end;
    const questions = questionsOf(member(end.result, "inputRequests"));
    if (!questions) throw new Refused(200, noQuestion);
    if (questions.length === 0) await pause(500, signal);
    more = questions.length > 0 ? [["inputResponses", await answers(w, questions, signal)]] : [];
    const state = member(end.result, "requestState");
    if (state !== undefined) more.push(["requestState", jsonText(state, true)]);
  }
  throw new Refused(200, `The tool asked ${maxRounds} times without an end.`);
}

const noQuestion = "The tool asks for what the console cannot do: only questions to the user are answered.";

async function answers(w: Wire, questions: Question[], signal: AbortSignal): Promise<string> {
  const parts: Part[] = [];
  for (const q of questions) parts.push([q.key, answerText(await w.o.watcher.ask(q, signal))]);
  return objectText(parts);
}

/** Polls a task to its end. A cancellation asks it to end, and its end is awaited. */
async function followTask(w: Wire, first: JsonObject): Promise<Outcome> {
  const { o } = w;
  const id = text(first, "taskId");
  const send = (method: string, more: Part[] = []) =>
    w.request(requestText(newID(), method, [["taskId", JSON.stringify(id)], ["_meta", metaText(o.revision)], ...more]), modernHeaders(o.revision, method, id), o.leave);
  const cancelled = () => void send("tasks/cancel").catch(() => undefined);
  if (o.cancel.aborted) cancelled();
  o.cancel.addEventListener("abort", cancelled, { once: true });
  const answered = new Set<string>();
  try {
    for (let task = first; ; ) {
      const status = text(task, "status");
      o.watcher.task({ id, status, message: text(task, "statusMessage") });
      if (status === "input_required" && !o.cancel.aborted) {
        const questions = questionsOf(member(task, "inputRequests"));
        if (!questions) {
          // It would wait for an answer that never comes.
          cancelled();
          throw new Refused(200, noQuestion);
        }
        const open = questions.filter((q) => !answered.has(q.key));
        if (open.length > 0) {
          const given = await answers(w, open, AbortSignal.any([o.cancel, o.leave])).catch(() => undefined);
          o.leave.throwIfAborted();
          if (given !== undefined) {
            const taken = outcome(await send("tasks/update", [["inputResponses", given]]));
            // What a task that ends meanwhile came to is found in the next round.
            if (taken.kind !== "result" && !o.cancel.aborted) return taken;
            for (const q of open) answered.add(q.key);
          }
        }
      }
      const every = plain(member(task, "pollIntervalMs")) || 1_000;
      // A cancellation is looked for sooner than the next round.
      await pause(Math.min(Math.max(every, 250), 10_000), AbortSignal.any([o.leave, ...(o.cancel.aborted ? [] : [o.cancel])])).catch(() => undefined);
      o.leave.throwIfAborted();
      const received = await send("tasks/get");
      const end = outcome(received);
      if (end.kind !== "result") return end;
      task = end.result;
      const last = taskEnd(w, id, task, received.raw);
      if (last) return last;
    }
  } finally {
    o.cancel.removeEventListener("abort", cancelled);
  }
}

function taskEnd(w: Wire, id: string, task: JsonObject, raw: string): Outcome | undefined {
  const status = text(task, "status");
  const end = member(task, status === "completed" ? "result" : "error");
  if (!["completed", "failed", "cancelled"].includes(status)) return undefined;
  w.o.watcher.task({ id, status, message: text(task, "statusMessage") });
  if (status === "cancelled") return { kind: "cancelled" };
  const body = (end ?? {}) as JsonObject;
  return status === "completed" ? { kind: "result", result: body, raw } : { kind: "error", error: body, raw };
}

async function callLegacy(w: Wire): Promise<Outcome> {
  const { o } = w;
  const headers = { "MCP-Protocol-Version": o.revision };
  const signal = AbortSignal.any([o.cancel, o.leave]);
  const hello = requestText(newID(), "initialize", [
    ["protocolVersion", JSON.stringify(o.revision)],
    ["capabilities", capabilities(o.revision)],
    ["clientInfo", clientInfo],
  ]);
  const first = await w.post(hello, {}, signal);
  w.session = first.headers.get("Mcp-Session-Id") ?? "";
  try {
    const stream = new Stream(o.watcher, undefined);
    await stream.read(first);
    if (stream.found?.message.kind === "error") return outcome(stream.found);
    await w.post(notificationText("notifications/initialized", []), headers, signal);
    if (member(member(stream.found?.message.kind === "result" ? stream.found.message.result : {}, "capabilities"), "logging")) {
      await w.request(requestText(newID(), "logging/setLevel", [["level", '"debug"']]), headers, signal);
    }
    return await callInSession(w, headers);
  } finally {
    // The session is of no more use; the page does not wait for its end.
    if (w.session !== "") void w.send("DELETE", headers, AbortSignal.timeout(5_000)).catch(() => undefined);
  }
}

async function callInSession(w: Wire, headers: Record<string, string>): Promise<Outcome> {
  const { o } = w;
  const id = newID();
  const signal = AbortSignal.any([o.cancel, o.leave]);
  // The end of the request is no cancellation in these revisions. The session lasts until the sidecar has heard of it.
  let said: Promise<unknown> | undefined;
  const cancelled = () => {
    const note = notificationText("notifications/cancelled", [["requestId", JSON.stringify(id)], ["reason", '"cancelled in the console"']]);
    said = w.post(note, headers, AbortSignal.timeout(5_000)).catch(() => undefined);
  };
  signal.addEventListener("abort", cancelled, { once: true });
  try {
    const body = requestText(id, "tools/call", [
      ["name", JSON.stringify(o.mcpName)],
      ["arguments", o.argumentsText],
      ["_meta", metaText(o.revision, id)],
    ]);
    return outcome(await w.call(body, headers, signal, (m) => void answerServer(w, m, headers, signal).catch(() => undefined)));
  } finally {
    signal.removeEventListener("abort", cancelled);
    await said;
  }
}

/** Answers a request of the server within a legacy session. */
async function answerServer(w: Wire, m: Message, headers: Record<string, string>, signal: AbortSignal): Promise<void> {
  if (m.kind !== "request") return;
  let reply: Part = ["error", '{"code":-32601,"message":"Method not found"}'];
  if (m.method === "ping") reply = ["result", "{}"];
  if (m.method === "elicitation/create") {
    reply = ["result", answerText(await w.o.watcher.ask(readQuestion(jsonText(m.id, true), m.params), signal))];
  }
  await w.post(objectText([["jsonrpc", '"2.0"'], ["id", jsonText(m.id, true)], reply]), headers, signal);
}

/** Reads a resource that a result links to, as text of its JSON-RPC response. */
export async function readResource(o: Omit<CallOptions, "watcher">, uri: string): Promise<Outcome> {
  const silent: Watcher = { progress() {}, log() {}, task() {}, id() {}, message() {}, ask: () => Promise.reject(new Error("no user")) };
  const w = new Wire({ ...o, watcher: silent });
  try {
    const body = requestText(newID(), "resources/read", [["uri", JSON.stringify(uri)], ["_meta", metaText(o.revision)]]);
    return outcome(await w.request(body, modernHeaders(o.revision, "resources/read", uri), o.leave));
  } catch (cause) {
    if (cause instanceof Refused) return { kind: "refused", status: cause.status, text: cause.message };
    throw cause;
  }
}
