// SPDX-License-Identifier: Apache-2.0
// A call as others would make it: commands and programs to paste.
import { isObject, jsonText, tryJson, type Json } from "../json";
import { isModern, metaText, requestText, type Part } from "../mcp/wire";

export interface Source {
  /** Address of the listener for callers; empty without one. */
  url: string;
  /** Callers have to give credentials. */
  hasCallers: boolean;
  name: string;
  mcpName: string;
  /** Such as outrigger.demo.v1.Lab/Echo; empty for a native tool. */
  rpc: string;
  takesStream: boolean;
  argumentsText: string;
  revision: string;
}

export interface Snippet {
  id: string;
  label: string;
  /** Makes the text. It takes as long as the arguments are large. */
  text: () => string;
}

const placeholder = "http://127.0.0.1:8080";

/** A word for a POSIX shell. */
export function shellQuote(word: string): string {
  return /^[A-Za-z0-9_./:=@%+,-]+$/.test(word) ? word : `'${word.replace(/'/g, `'\\''`)}'`;
}

/** A literal of Go. */
export function goQuote(value: string): string {
  // A raw literal has neither backquotes nor carriage returns, and is read by people.
  if (!/[`\r\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/.test(value)) return "`" + value + "`";
  return JSON.stringify(value).replace(/[\u007f-\u{10ffff}]/gu, (c) => {
    const code = c.codePointAt(0)!;
    return code > 0xffff ? "\\U" + hex(code, 8) : "\\u" + hex(code, 4);
  });
}

function hex(code: number, digits: number): string {
  return code.toString(16).padStart(digits, "0");
}

/** Compact JSON in which nothing acts on the terminal or the text around it: such characters are only within its texts. */
function compact(value: Json): string {
  return jsonText(value, true).replace(/[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, (c) => "\\u" + hex(c.charCodeAt(0), 4));
}

/** The ways to make a call; none while the arguments are no JSON, since any text could be in them. */
export function snippets(s: Source): Snippet[] {
  const value = tryJson(s.argumentsText);
  if (value === undefined) return [];
  return [
    { id: "curl", label: "curl", text: () => curl(s, value) },
    ...(s.rpc === "" ? [] : [{ id: "grpcurl", label: "grpcurl", text: () => grpcurl(s, value) }]),
    { id: "go", label: "Go (connect)", text: () => goProgram(s, value) },
    { id: "ts", label: "TypeScript", text: () => typescript(s, value) },
    { id: "cli", label: "sidecar call", text: () => sidecarCall(s, value) },
    { id: "mcp", label: "MCP message", text: () => message(s, value) },
  ];
}

function base(s: Source): string {
  return s.url || placeholder;
}

function curl(s: Source, value: Json): string {
  const lines = [`curl -sS ${shellQuote(base(s) + "/rpc")}`, `-H 'Content-Type: application/json'`];
  if (s.hasCallers) lines.push(`-H "Authorization: Bearer $TOKEN"`);
  const body = requestText("1", "tools/call", [
    ["name", JSON.stringify(s.name)],
    ["arguments", compact(value)],
  ]);
  lines.push(`-d ${shellQuote(body)}`);
  return lines.join(" \\\n  ");
}

function grpcurl(s: Source, value: Json): string {
  const target = new URL(base(s));
  const isPlain = target.protocol === "http:";
  const port = target.port || (isPlain ? "80" : "443");
  const lines = [`grpcurl${isPlain ? " -plaintext" : ""}`];
  if (s.hasCallers) lines.push(`-H "Authorization: Bearer $TOKEN"`);
  lines.push(`-d ${shellQuote(streamed(s, value))}`, `${shellQuote(`${target.hostname}:${port}`)} ${shellQuote(s.rpc)}`);
  return lines.join(" \\\n  ");
}

/** The messages of the request: those of a stream one after another. */
function streamed(s: Source, value: Json): string {
  if (!s.takesStream || !isObject(value) || !Array.isArray(value["items"])) return compact(value);
  return value["items"].map(compact).join("\n");
}

function goProgram(s: Source, value: Json): string {
  const token = s.hasCallers ? `\treq.Header().Set("Authorization", "Bearer "+os.Getenv("TOKEN"))\n` : "";
  return `package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
${s.hasCallers ? '\t"os"\n' : ""}
	"connectrpc.com/connect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
)

func main() {
	client := outriggerv1connect.NewToolServiceClient(http.DefaultClient, ${JSON.stringify(base(s))})
	req := connect.NewRequest(&outriggerv1.ToolCall{
		ToolName:      ${JSON.stringify(s.name)},
		ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(${goQuote(compact(value))})},
	})
${token}	res, err := client.CallTool(context.Background(), req)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Msg)
}
`;
}

function typescript(s: Source, value: Json): string {
  const headers = s.hasCallers ? ", { requestInit: { headers: { Authorization: `Bearer ${process.env.TOKEN}` } } }" : "";
  const mode = isModern(s.revision) ? `{ pin: ${JSON.stringify(s.revision)} }` : "'auto'";
  return `import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const client = new Client({ name: 'app', version: '1.0.0' }, { versionNegotiation: { mode: ${mode} } });
await client.connect(new StreamableHTTPClientTransport(new URL(${JSON.stringify(base(s) + "/mcp")})${headers}));
const result = await client.callTool({
  name: ${JSON.stringify(s.mcpName)},
  arguments: ${safeNumbers(compact(value))},
});
console.log(result);
`;
}

/** JSON as an expression of TypeScript. Integers that a number of JavaScript cannot hold are texts, which the sidecar takes too. */
function safeNumbers(json: string): string {
  // An alternative that is repeated for each character would exhaust the stack.
  return json.replace(/"[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/g, (token) => {
    if (token.startsWith('"') || !/^-?[0-9]+$/.test(token) || Number.isSafeInteger(Number(token))) return token;
    return `"${token}"`;
  });
}

function sidecarCall(s: Source, value: Json): string {
  const token = s.hasCallers ? " --token-file token.txt" : "";
  return `sidecar call ${shellQuote(s.name)} ${shellQuote(compact(value))} --server ${shellQuote(base(s))}${token}`;
}

function message(s: Source, value: Json): string {
  const revision = s.revision.startsWith("/") ? "" : s.revision;
  const params: Part[] = [
    ["name", JSON.stringify(revision === "" ? s.name : s.mcpName)],
    ["arguments", compact(value)],
  ];
  if (isModern(revision)) params.push(["_meta", metaText(revision)]);
  return requestText("1", "tools/call", params);
}
