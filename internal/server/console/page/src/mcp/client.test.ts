// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import { jsonText, member, parseJson, text, type Json, type JsonObject } from "../json";
import { call, pause, type CallOptions, type Outcome, type Watcher } from "./client";
import { canonical, headerValue, mirroredHeaders, questionsOf, readMessage, type Answer, type Question } from "./wire";

interface Sent {
  path: string;
  method: string;
  headers: Record<string, string>;
  raw: string;
  body: Json;
}

type Reply = (s: Sent, signal: AbortSignal) => Response | Promise<Response> | undefined;

/** A sidecar that answers by the method of the message, and what a call saw of it. */
function stage(replies: Record<string, Reply>, more: Partial<CallOptions> = {}) {
  const sent: Sent[] = [];
  const seen: string[] = [];
  const cancel = new AbortController();
  const leave = new AbortController();
  const answers: Answer[] = [];
  const watcher: Watcher = {
    progress: (p) => seen.push(`progress ${p.progress}${p.total === undefined ? "" : "/" + p.total} ${p.message}`),
    log: (l) => seen.push(`log ${l.level} ${jsonText(l.data, true)}`),
    task: (t) => seen.push(`task ${t.status}`),
    id: (id) => seen.push(`id ${id}`),
    message: () => {},
    ask: (q: Question, signal) => {
      seen.push(`ask ${q.key} ${q.message}`);
      const a = answers.shift();
      return a ? Promise.resolve(a) : new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    },
  };
  const answered: string[] = [];
  const fake = async (path: unknown, init: RequestInit = {}): Promise<Response> => {
    const raw = typeof init.body === "string" ? init.body : "";
    const s: Sent = { path: String(path), method: init.method!, headers: init.headers as Record<string, string>, raw, body: raw === "" ? null : parseJson(raw) };
    sent.push(s);
    init.signal?.throwIfAborted();
    const reply = replies[text(s.body, "method") || init.method!];
    const answer = (await reply?.(s, init.signal!)) ?? new Response(null, { status: 202 });
    answered.push(text(s.body, "method") || init.method!);
    return answer;
  };
  const options: CallOptions = {
    revision: "2026-07-28",
    caller: "",
    name: "lab.echo",
    mcpName: "lab_echo",
    argumentsText: `{"unsigned": 18446744073709551615}`,
    arguments: {},
    inputSchema: undefined,
    watcher,
    cancel: cancel.signal,
    leave: leave.signal,
    fetch: fake as typeof fetch,
    ...more,
  };
  return { sent, seen, answered, cancel, leave, answers, run: () => call(options) };
}

function json(s: Sent, more: string, headers: Record<string, string> = {}): Response {
  return new Response(`{"jsonrpc":"2.0","id":${jsonText(member(s.body, "id")!, true)},${more}}`, { headers: { "Content-Type": "application/json", ...headers } });
}

function events(...data: string[]): Response {
  return new Response(data.join(""), { headers: { "Content-Type": "text/event-stream" } });
}

const event = (data: string) => `event: message\ndata: ${data}\n\n`;
const idOf = (s: Sent) => jsonText(member(s.body, "id")!, true);

function resultOf(o: Outcome): JsonObject {
  assert.equal(o.kind, "result");
  return (o as Extract<Outcome, { kind: "result" }>).result;
}

test("a modern call: arguments as they are, headers, no digit lost", async () => {
  const s = stage({ "tools/call": (m) => json(m, `"result":{"resultType":"complete","structuredContent":{"n":18446744073709551615}}`, { "Outrigger-Call-Id": "7" }) }, { caller: "alice" });
  const result = resultOf(await s.run());
  assert.equal(jsonText(member(result, "structuredContent")!, true), `{"n":18446744073709551615}`);
  const [m] = s.sent;
  assert.equal(m!.path, "/console/call/mcp");
  assert.ok(m!.raw.includes(`"arguments":{"unsigned": 18446744073709551615}`));
  assert.equal(m!.headers["Mcp-Name"], "lab_echo");
  assert.equal(m!.headers["MCP-Protocol-Version"], "2026-07-28");
  assert.equal(m!.headers["Outrigger-Caller"], "alice");
  assert.deepEqual(s.seen, ["id 7"]);
});

test("progress and log lines of a stream come before its result", async () => {
  const s = stage({
    "tools/call": (m) =>
      events(
        ": alive\n\n",
        event(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1,"total":2,"message":"one"}}`),
        event(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"line"}}`),
        event(`{"jsonrpc":"2.0","id":${idOf(m)},"result":{"content":[]}}`),
      ),
  });
  resultOf(await s.run());
  assert.deepEqual(s.seen, ["progress 1/2 one", `log info "line"`]);
});

test("questions of a modern call are answered in the next round, with its state", async () => {
  let round = 0;
  const s = stage({
    "tools/call": (m) =>
      json(
        m,
        round++ === 0
          ? `"result":{"resultType":"input_required","requestState":"s 1","inputRequests":{"ok":{"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}}}`
          : `"result":{"resultType":"complete","content":[]}`,
      ),
  });
  s.answers.push({ action: "accept", content: { sure: true } });
  resultOf(await s.run());
  assert.deepEqual(s.seen, ["ask ok Sure?"]);
  assert.ok(s.sent[1]!.raw.includes(`"inputResponses":{"ok":{"action":"accept","content":{"sure":true}}},"requestState":"s 1"`), s.sent[1]!.raw);
});

test("what is asked other than of the user is refused", async () => {
  const s = stage({ "tools/call": (m) => json(m, `"result":{"resultType":"input_required","inputRequests":{"x":{"method":"sampling/createMessage","params":{}}}}`) });
  assert.equal((await s.run()).kind, "refused");
});

test("a task is followed through its question to its result", async () => {
  const task = (status: string, more = "") => `"result":{"resultType":"complete","taskId":"t_1","status":"${status}","pollIntervalMs":1${more}}`;
  const states = [
    task("input_required", `,"inputRequests":{"q":{"method":"elicitation/create","params":{"message":"How?"}}}`),
    task("working"),
    task("completed", `,"result":{"content":[],"structuredContent":{"done":true}}`),
  ];
  const s = stage({
    "tools/call": (m) => json(m, `"result":{"resultType":"task","taskId":"t_1","status":"working","pollIntervalMs":1}`),
    "tasks/get": (m) => json(m, states.shift()!),
    "tasks/update": (m) => json(m, `"result":{"resultType":"complete"}`),
  });
  s.answers.push({ action: "decline" });
  assert.equal(jsonText(member(resultOf(await s.run()), "structuredContent")!, true), `{"done":true}`);
  assert.deepEqual(s.seen, ["task working", "task input_required", "ask q How?", "task working", "task completed"]);
  assert.deepEqual(s.sent.map((m) => text(m.body, "method")), ["tools/call", "tasks/get", "tasks/update", "tasks/get", "tasks/get"]);
  for (const m of s.sent.slice(1)) assert.equal(m.headers["Mcp-Name"], "t_1");
});

test("a task that is cancelled is asked to end, and its end awaited", async () => {
  let status = "working";
  const s = stage({
    "tools/call": (m) => json(m, `"result":{"resultType":"task","taskId":"t_1","status":"working","pollIntervalMs":60000}`),
    "tasks/cancel": (m) => {
      status = "cancelled";
      return json(m, `"result":{"resultType":"complete"}`);
    },
    "tasks/get": (m) => json(m, `"result":{"resultType":"complete","taskId":"t_1","status":"${status}"}`),
  });
  const ended = s.run();
  setTimeout(() => s.cancel.abort(), 20);
  assert.equal((await ended).kind, "cancelled");
  assert.ok(s.sent.some((m) => text(m.body, "method") === "tasks/cancel"));
});

test("an answer to a task's question that is refused ends the call with the error", async () => {
  const s = stage({
    "tools/call": (m) => json(m, `"result":{"resultType":"task","taskId":"t_1","status":"input_required","pollIntervalMs":1,"inputRequests":{"q":{"method":"elicitation/create","params":{"message":"How?"}}}}`),
    "tasks/update": (m) => json(m, `"error":{"code":-32602,"message":"no such key"}`),
  });
  s.answers.push({ action: "decline" });
  const end = await s.run();
  assert.equal(end.kind === "error" && text(end.error, "message"), "no such key");
});

test("a task that asks other than the user is refused, and asked to end", async () => {
  const s = stage({
    "tools/call": (m) => json(m, `"result":{"resultType":"task","taskId":"t_1","status":"input_required","pollIntervalMs":1,"inputRequests":{"x":{"method":"sampling/createMessage","params":{}}}}`),
    "tasks/cancel": (m) => json(m, `"result":{"resultType":"complete"}`),
    "tasks/get": () => Promise.reject(new Error("it is asked for again")),
  });
  assert.equal((await s.run()).kind, "refused");
  assert.ok(s.sent.some((m) => text(m.body, "method") === "tasks/cancel"));
});

test("a cancellation that the sidecar does not answer is no outcome", async () => {
  const s = stage({
    "tools/call": (m) => json(m, `"result":{"resultType":"task","taskId":"t_1","status":"working","pollIntervalMs":60000}`),
    "tasks/cancel": () => Promise.reject(new TypeError("failed")),
    "tasks/get": () => Promise.reject(new TypeError("failed")),
  });
  const ended = s.run();
  setTimeout(() => s.cancel.abort(), 20);
  await assert.rejects(ended);
});

test("a session ends also where its beginning is cancelled or refused", async () => {
  const begun = { "Mcp-Session-Id": "s1", "Content-Type": "text/event-stream" };
  const never = (signal: AbortSignal) => new ReadableStream({ start: (c) => signal.addEventListener("abort", () => c.error(signal.reason)) });
  const cancelled = stage({ initialize: (_, signal) => new Response(never(signal), { headers: begun }) }, { revision: "2025-11-25" });
  const ended = cancelled.run();
  setTimeout(() => cancelled.cancel.abort(), 20);
  assert.equal((await ended).kind, "cancelled");
  const refused = stage({ initialize: (m) => json(m, `"error":{"code":-32602,"message":"no"}`, { "Mcp-Session-Id": "s1" }) }, { revision: "2025-11-25" });
  assert.equal((await refused.run()).kind, "error");
  for (const s of [cancelled, refused]) assert.equal(s.sent.at(-1)!.method, "DELETE");
});

test("a legacy call: its session, and a question on its stream answered by a message", async () => {
  let answered: (raw: string) => void;
  const answer = new Promise<string>((resolve) => (answered = resolve));
  const s = stage(
    {
      initialize: (m) => json(m, `"result":{"protocolVersion":"2025-11-25","capabilities":{}}`, { "Mcp-Session-Id": "s1" }),
      "tools/call": (m) => {
        const body = new ReadableStream<Uint8Array>({
          async start(c) {
            const send = (t: string) => c.enqueue(new TextEncoder().encode(t));
            send(event(`{"jsonrpc":"2.0","id":9007199254740993,"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{}}}`));
            await answer;
            send(event(`{"jsonrpc":"2.0","id":${idOf(m)},"result":{"content":[]}}`));
            c.close();
          },
        });
        return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
      },
      POST: (m) => {
        answered(m.raw);
        return undefined;
      },
    },
    { revision: "2025-11-25" },
  );
  s.answers.push({ action: "accept", content: {} });
  resultOf(await s.run());
  assert.equal(await answer, `{"jsonrpc":"2.0","id":9007199254740993,"result":{"action":"accept","content":{}}}`);
  assert.deepEqual(s.sent.map((m) => text(m.body, "method") || m.method), ["initialize", "notifications/initialized", "tools/call", "POST", "DELETE"]);
  for (const m of s.sent.slice(1)) assert.equal(m.headers["Mcp-Session-Id"], "s1");
});

test("a legacy stream that ends early is taken up again after the last event", async () => {
  let id = "";
  const s = stage(
    {
      initialize: (m) => json(m, `"result":{"protocolVersion":"2025-11-25","capabilities":{}}`, { "Mcp-Session-Id": "s1" }),
      "tools/call": (m) => {
        id = idOf(m);
        return events(`id: e1\nretry: 100\nevent: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}\n\n`);
      },
      GET: () => events(event(`{"jsonrpc":"2.0","id":${id},"result":{"content":[]}}`)),
    },
    { revision: "2025-11-25" },
  );
  resultOf(await s.run());
  assert.equal(s.sent.find((m) => m.method === "GET")?.headers["Last-Event-ID"], "e1");
});

test("a legacy call that is cancelled says so", async () => {
  const s = stage(
    {
      initialize: (m) => json(m, `"result":{"protocolVersion":"2025-06-18","capabilities":{}}`, { "Mcp-Session-Id": "s1" }),
      "tools/call": (_, signal) => new Promise((__, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
      "notifications/cancelled": () => pause(20, new AbortController().signal).then(() => new Response(null, { status: 202 })),
    },
    { revision: "2025-06-18" },
  );
  const ended = s.run();
  setTimeout(() => s.cancel.abort(), 20);
  assert.equal((await ended).kind, "cancelled");
  const asked = s.sent.find((m) => text(m.body, "method") === "tools/call")!;
  const note = s.sent.find((m) => text(m.body, "method") === "notifications/cancelled")!;
  assert.equal(text(member(note.body, "params"), "requestId"), text(asked.body, "id"));
  // The session ends once the sidecar has heard of the cancellation, so that it belongs to something.
  assert.deepEqual(s.answered.slice(-2), ["notifications/cancelled", "DELETE"]);
});

test("canonical JSON-RPC goes to its own path, by the canonical name", async () => {
  const s = stage({ "tools/call": (m) => json(m, `"error":{"code":-32602,"message":"no","data":{"code":"INVALID_TOOL_INPUT"}}`) }, { revision: canonical });
  const end = await s.run();
  assert.equal(end.kind, "error");
  assert.equal(s.sent[0]!.path, "/console/call/rpc");
  assert.equal(text(member(s.sent[0]!.body, "params"), "name"), "lab.echo");
});

test("what is no JSON-RPC is a refusal with its words", async () => {
  const refused = (body: string, status: number) => stage({ "tools/call": () => new Response(body, { status, headers: { "Content-Type": "application/json" } }) }).run();
  assert.deepEqual(await refused(`{"error":"not allowed"}`, 403), { kind: "refused", status: 403, text: "not allowed" });
  assert.deepEqual(await refused("", 502), { kind: "refused", status: 502, text: "The sidecar answered with status 502." });
});

test("a sidecar that does not answer is no outcome", async () => {
  await assert.rejects(stage({ "tools/call": () => Promise.reject(new TypeError("failed")) }).run());
});

test("values of headers", () => {
  const cases: [string, string][] = [
    ["lab_echo", "lab_echo"],
    ["röd", "=?base64?csO2ZA==?="],
    [" a", "=?base64?IGE=?="],
    ["=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="],
    ["a\nb", "=?base64?YQpi?="],
  ];
  for (const [value, want] of cases) assert.equal(headerValue(value), want, value);
});

test("arguments that headers mirror", () => {
  const schema = parseJson(`{"properties":{"region":{"x-mcp-header":"Region"},"n":{"x-mcp-header":"N"},"in":{"properties":{"b":{"x-mcp-header":"B"}}},"bad":{"x-mcp-header":"a b"},"none":{"x-mcp-header":"None"}}}`);
  const args = parseJson(`{"region":"röd","n":9007199254740993,"in":{"b":true},"bad":"x","none":null}`);
  assert.deepEqual(mirroredHeaders(schema, args), { "Mcp-Param-Region": "=?base64?csO2ZA==?=", "Mcp-Param-N": "9007199254740993", "Mcp-Param-B": "true" });
});

test("messages that are none are not read", () => {
  for (const raw of ["", "[]", "7", "{}", `{"result":{}}`, `{"method":7}`, "{"]) assert.equal(readMessage(raw), undefined, raw);
  assert.equal(questionsOf(parseJson("[1]")), undefined);
});
