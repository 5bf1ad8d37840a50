// SPDX-License-Identifier: Apache-2.0
// A call as others would make it: commands and programs to paste.
import { jsonText, tryJson } from "../json";
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
  text: string;
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
  return JSON.stringify(value).replace(/[\u007f-\uffff]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

function compact(text: string): string {
  const value = tryJson(text);
  return value === undefined ? text : jsonText(value, true);
}

export function snippets(s: Source): Snippet[] {
  const made: Snippet[] = [
    { id: "curl", label: "curl", text: curl(s) },
    ...(s.rpc === "" ? [] : [{ id: "grpcurl", label: "grpcurl", text: grpcurl(s) }]),
    { id: "go", label: "Go (connect)", text: goProgram(s) },
    { id: "ts", label: "TypeScript", text: typescript(s) },
    { id: "cli", label: "sidecar call", text: sidecarCall(s) },
    { id: "mcp", label: "MCP message", text: message(s) },
  ];
  return made;
}

function base(s: Source): string {
  return s.url || placeholder;
}

function curl(s: Source): string {
  const lines = [`curl -sS ${shellQuote(base(s) + "/rpc")}`, `-H 'Content-Type: application/json'`];
  if (s.hasCallers) lines.push(`-H "Authorization: Bearer $TOKEN"`);
  const body = requestText("1", "tools/call", [
    ["name", JSON.stringify(s.name)],
    ["arguments", compact(s.argumentsText)],
  ]);
  lines.push(`-d ${shellQuote(body)}`);
  return lines.join(" \\\n  ");
}

function grpcurl(s: Source): string {
  const target = new URL(base(s));
  const isPlain = target.protocol === "http:";
  const port = target.port || (isPlain ? "80" : "443");
  const lines = [`grpcurl${isPlain ? " -plaintext" : ""}`];
  if (s.hasCallers) lines.push(`-H "Authorization: Bearer $TOKEN"`);
  lines.push(`-d ${shellQuote(streamed(s))}`, `${target.hostname}:${port} ${shellQuote(s.rpc)}`);
  return lines.join(" \\\n  ");
}

/** The messages of the request: those of a stream one after another. */
function streamed(s: Source): string {
  const value = tryJson(s.argumentsText);
  if (!s.takesStream || typeof value !== "object" || value === null || !("items" in value) || !Array.isArray(value.items)) return compact(s.argumentsText);
  return value.items.map((i) => jsonText(i, true)).join("\n");
}

function goProgram(s: Source): string {
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
		ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(${goQuote(compact(s.argumentsText))})},
	})
${token}	res, err := client.CallTool(context.Background(), req)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Msg)
}
`;
}

function typescript(s: Source): string {
  const headers = s.hasCallers ? ", { requestInit: { headers: { Authorization: `Bearer ${process.env.TOKEN}` } } }" : "";
  const mode = isModern(s.revision) ? `{ pin: ${JSON.stringify(s.revision)} }` : "'auto'";
  return `import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const client = new Client({ name: 'app', version: '1.0.0' }, { versionNegotiation: { mode: ${mode} } });
await client.connect(new StreamableHTTPClientTransport(new URL(${JSON.stringify(base(s) + "/mcp")})${headers}));
const result = await client.callTool({
  name: ${JSON.stringify(s.mcpName)},
  arguments: ${safeNumbers(s.argumentsText)},
});
console.log(result);
`;
}

/** JSON as an expression of TypeScript. Integers that a number of JavaScript cannot hold are texts, which the sidecar takes too. */
function safeNumbers(text: string): string {
  return compact(text).replace(/"(?:[^"\\]|\\.)*"|-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/g, (token) => {
    if (token.startsWith('"') || !/^-?[0-9]+$/.test(token) || Number.isSafeInteger(Number(token))) return token;
    return `"${token}"`;
  });
}

function sidecarCall(s: Source): string {
  const token = s.hasCallers ? " --token-file token.txt" : "";
  return `sidecar call ${shellQuote(s.name)} ${shellQuote(compact(s.argumentsText))} --server ${shellQuote(base(s))}${token}`;
}

function message(s: Source): string {
  const revision = s.revision.startsWith("/") ? "" : s.revision;
  const params: Part[] = [
    ["name", JSON.stringify(revision === "" ? s.name : s.mcpName)],
    ["arguments", compact(s.argumentsText)],
  ];
  if (isModern(revision)) params.push(["_meta", metaText(revision)]);
  return requestText("1", "tools/call", params);
}
