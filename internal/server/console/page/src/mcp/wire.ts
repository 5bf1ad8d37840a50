// SPDX-License-Identifier: Apache-2.0
// Messages of MCP and JSON-RPC as texts and headers. Nothing here needs a browser.
import { isNumber, isObject, jsonText, member, text, tryJson, type Json, type JsonObject } from "../json";

/** The name under which canonical JSON-RPC is chosen beside the revisions of MCP. */
export const canonical = "/rpc";

export const isModern = (revision: string) => revision !== canonical && revision >= "2026-07-28";

/** A member of a message, as a name and a JSON text that is put into the message as it is. */
export type Part = [name: string, json: string];

export function objectText(parts: Part[]): string {
  return "{" + parts.map(([name, json]) => `${JSON.stringify(name)}:${json}`).join(",") + "}";
}

export function requestText(id: string, method: string, params: Part[]): string {
  return objectText([
    ["jsonrpc", '"2.0"'],
    ["id", JSON.stringify(id)],
    ["method", JSON.stringify(method)],
    ["params", objectText(params)],
  ]);
}

export function notificationText(method: string, params: Part[]): string {
  return objectText([["jsonrpc", '"2.0"'], ["method", JSON.stringify(method)], ...(params.length > 0 ? [["params", objectText(params)] as Part] : [])]);
}

/** What this client can do, as a modern request and an initialize of a revision say it. */
export function capabilities(revision: string): string {
  if (isModern(revision)) return '{"elicitation":{"form":{},"url":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}';
  if (revision >= "2025-11-25") return '{"elicitation":{"form":{},"url":{}}}';
  return revision >= "2025-06-18" ? '{"elicitation":{}}' : "{}";
}

/** _meta of a request; a progress token asks for progress. */
export function metaText(revision: string, progressToken?: string): string {
  const parts: Part[] = [];
  if (isModern(revision)) {
    parts.push(
      ["io.modelcontextprotocol/protocolVersion", JSON.stringify(revision)],
      ["io.modelcontextprotocol/clientInfo", clientInfo],
      ["io.modelcontextprotocol/clientCapabilities", capabilities(revision)],
      ["io.modelcontextprotocol/logLevel", '"debug"'],
    );
  }
  if (progressToken !== undefined) parts.push(["progressToken", JSON.stringify(progressToken)]);
  return objectText(parts);
}

export const clientInfo = '{"name":"outrigger-console","version":"1"}';

/** A value of a header: as it is, or in base64 where a header cannot have it. */
export function headerValue(value: string): string {
  if (/^[\x20-\x7e]*$/.test(value) && value.trim() === value && !(value.startsWith("=?base64?") && value.endsWith("?="))) return value;
  const bytes = new TextEncoder().encode(value);
  let binary = "";
  for (const b of bytes) binary += String.fromCharCode(b);
  return `=?base64?${btoa(binary)}?=`;
}

/** The headers of a modern request. */
export function modernHeaders(revision: string, method: string, name?: string): Record<string, string> {
  const headers: Record<string, string> = { "MCP-Protocol-Version": revision, "Mcp-Method": method };
  if (name !== undefined) headers["Mcp-Name"] = headerValue(name);
  return headers;
}

/** The headers that mirror arguments, as x-mcp-header in the input schema asks for them. */
export function mirroredHeaders(schema: Json | undefined, args: Json | undefined): Record<string, string> {
  const headers: Record<string, string> = {};
  const walk = (at: Json | undefined, value: Json | undefined, depth: number) => {
    const properties = member(at, "properties");
    if (!isObject(properties) || depth > 16) return;
    for (const [name, property] of Object.entries(properties)) {
      const found = member(value, name);
      const header = text(property, "x-mcp-header");
      const isScalar = isNumber(found) || ["string", "boolean"].includes(typeof found);
      if (isScalar && /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(header)) {
        headers[`Mcp-Param-${header}`] = headerValue(String(found));
      }
      walk(property, found, depth + 1);
    }
  };
  walk(schema, args, 0);
  return headers;
}

/** What a message is. */
export type Message =
  | { kind: "result"; id: Json; result: JsonObject }
  | { kind: "error"; id: Json | undefined; error: JsonObject }
  | { kind: "request"; id: Json; method: string; params: JsonObject }
  | { kind: "notification"; method: string; params: JsonObject };

/** Reads a message; undefined if the text is none. */
export function readMessage(raw: string): Message | undefined {
  const all = tryJson(raw);
  if (!isObject(all)) return undefined;
  const id = member(all, "id");
  const error = member(all, "error");
  const result = member(all, "result");
  if (isObject(error)) return { kind: "error", id, error };
  if (isObject(result) && id !== undefined) return { kind: "result", id, result };
  const method = text(all, "method");
  const params = member(all, "params");
  if (method === "") return undefined;
  const some = isObject(params) ? params : {};
  return id === undefined ? { kind: "notification", method, params: some } : { kind: "request", id, method, params: some };
}

/** A question to the user. */
export interface Question {
  key: string;
  mode: "form" | "url";
  message: string;
  schema: JsonObject;
  url: string;
}

export interface Answer {
  action: "accept" | "decline" | "cancel";
  content?: JsonObject;
}

export function readQuestion(key: string, params: Json | undefined): Question {
  const schema = member(params, "requestedSchema");
  return {
    key,
    mode: text(params, "mode") === "url" ? "url" : "form",
    message: text(params, "message"),
    schema: isObject(schema) ? schema : {},
    url: text(params, "url"),
  };
}

export function answerText(answer: Answer): string {
  const parts: Part[] = [["action", JSON.stringify(answer.action)]];
  if (answer.action === "accept" && answer.content) parts.push(["content", jsonText(answer.content, true)]);
  return objectText(parts);
}

/** The questions of an input_required result or task; undefined where one asks for what this client cannot do. */
export function questionsOf(requests: Json | undefined): Question[] | undefined {
  if (requests === undefined) return [];
  if (!isObject(requests)) return undefined;
  const found: Question[] = [];
  for (const [key, request] of Object.entries(requests)) {
    if (text(request, "method") !== "elicitation/create") return undefined;
    found.push(readQuestion(key, member(request, "params")));
  }
  return found;
}

/** An id that no other call has. */
export function newID(): string {
  // crypto.randomUUID needs a secure context, which a page beyond loopback may not have.
  const b = crypto.getRandomValues(new Uint8Array(16));
  b[6] = (b[6]! & 0x0f) | 0x40;
  b[8] = (b[8]! & 0x3f) | 0x80;
  const hex = Array.from(b, (x) => x.toString(16).padStart(2, "0")).join("");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
