// SPDX-License-Identifier: Apache-2.0
// One tool: as an agent sees it, and as one calls it.
import { Code, ConnectError } from "@connectrpc/connect";
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, errorText, fetchAgain, returns, server } from "../api";
import type { GetToolResponse } from "../gen/outrigger/admin/v1/admin_pb";
import { isObject, jsonText, member, tryJson, type Json, type JsonObject } from "../json";
import { toolPath } from "../router";
import { announce, Badge, Copy, Empty, ErrorNote, formatCount, Spinner, Tabs, Text, Tree, type Tab } from "../ui";
import { CallTab } from "./CallTab";
import { LongText } from "./download";
import { SchemaTree } from "./SchemaTree";

export function ToolPage(props: { name: string }) {
  const [tool, setTool] = useState<GetToolResponse>();
  const [error, setError] = useState<{ text: string; isMissing: boolean }>();
  const up = server.value !== undefined;
  useEffect(() => {
    if (!up) return;
    const end = new AbortController();
    api.getTool({ name: props.name }, { signal: end.signal, timeoutMs: 10_000 }).then(
      (t) => {
        setTool(t);
        setError(undefined);
        announce(`Tool ${t.tool!.name.slice(0, 120)}`);
      },
      (cause: unknown) => {
        if (end.signal.aborted) return;
        const isMissing = ConnectError.from(cause).code === Code.NotFound;
        setError({ text: errorText(cause) + ". The page tries again.", isMissing });
        if (!isMissing) fetchAgain();
      },
    );
    return () => end.abort();
  }, [props.name, up, returns.value]);

  if (tool) return <Tool tool={tool} />;
  if (error?.isMissing) {
    return (
      <Empty title="There is no such tool">
        <p>
          <Text text={props.name} max={200} /> is not in the catalog now.
        </p>
      </Empty>
    );
  }
  return error ? <ErrorNote text={error.text} /> : <Spinner label="Loading the tool…" />;
}

/** The tool as lists of MCP show it. */
function listedOf(tool: GetToolResponse): Json | undefined {
  return tryJson(tool.listed["mcp"] ?? "");
}

const dialects: Record<string, string> = { mcp: "MCP", rpc: "JSON-RPC (/rpc)" };

function Tool(props: { tool: GetToolResponse }) {
  const { tool } = props;
  const summary = tool.tool!;
  const [tab, setTab] = useState("call");
  // The form follows what agents see; the canonical schema has every form that is taken.
  const schema = useMemo<JsonObject>(() => {
    const advertised = member(listedOf(tool), "inputSchema");
    if (isObject(advertised)) return advertised;
    const canonical = tryJson(tool.inputSchema);
    return isObject(canonical) ? canonical : {};
  }, [tool]);
  const tabs: Tab[] = [
    { id: "call", label: "Call" },
    { id: "schema", label: "Schema" },
    { id: "agents", label: "As agents see it" },
    { id: "findings", label: <Counted word="Lint" count={tool.findings.length} kind={tool.findings.some((f) => f.level === "error") ? "bad" : "warn"} /> },
    { id: "changes", label: <Counted word="Changes" count={tool.changes.length} kind="info" /> },
  ];
  return (
    <article class="stack tool">
      <header class="stack tight">
        <div class="row">
          <h1 class="mono">
            <Text text={summary.name} max={200} />
          </h1>
          <Copy text={summary.name} label="Copy the canonical name" />
          <Copy text={location.origin + toolPath(summary.name)} label="Copy the link to this tool">
            link
          </Copy>
        </div>
        {summary.title !== "" && (
          <p class="strong">
            <Text text={summary.title} max={400} />
          </p>
        )}
        <Hints tool={tool} schema={listedOf(tool)} />
        {tool.deprecated !== "" && (
          <p class="note warn">
            Deprecated: <Text text={tool.deprecated} />
          </p>
        )}
        <p class="dim tool-about">
          <Text text={tool.description} max={4_000} />
        </p>
      </header>
      <Tabs tabs={tabs} selected={tab} onSelect={setTab} label="The tool">
        {/* The call stays, with its arguments and its result, while other tabs are looked at. */}
        <div hidden={tab !== "call"}>
          <CallTab tool={tool} schema={schema} />
        </div>
        {tab === "schema" && <Schemas tool={tool} schema={schema} />}
        {tab === "agents" && <Agents tool={tool} />}
        {tab === "findings" && <Findings tool={tool} />}
        {tab === "changes" && <Changes tool={tool} />}
      </Tabs>
    </article>
  );
}

function Counted(props: { word: string; count: number; kind: "bad" | "warn" | "info" }) {
  return (
    <span class="row">
      {props.word} {props.count > 0 && <Badge kind={props.kind}>{formatCount(props.count)}</Badge>}
    </span>
  );
}

function Hints(props: { tool: GetToolResponse; schema: Json | undefined }) {
  const { tool } = props;
  const annotations = member(props.schema, "annotations");
  const hint = (name: string) => member(annotations, name);
  return (
    <ul class="row hints" aria-label="Hints">
      {tool.tool!.readOnly && <Hint kind="ok" word="read-only" title="readOnlyHint" />}
      {tool.tool!.destructive && <Hint kind="bad" word="destructive" title="destructiveHint" />}
      {hint("idempotentHint") === true && <Hint word="idempotent" title="idempotentHint" />}
      {hint("openWorldHint") === true && <Hint word="open world" title="openWorldHint" />}
      {tool.isGated && <Hint kind="warn" word="gated" title="Calls need a user's confirmation, or are refused, unless callers are trusted" />}
      {tool.runsAsTask && <Hint kind="info" word="task" title="Calls can run as tasks" />}
      {tool.kind !== "" && tool.kind !== "unary" && <Hint kind="info" word={tool.kind} title="Kind of the RPC" />}
      <Hint word={`${formatCount(tool.tokens)} tokens`} title={tool.listTokens > 0 ? `Estimated, of ${formatCount(tool.listTokens)} of the whole list` : "Estimated"} />
      {tool.version !== "" && <Hint word={`version ${tool.version}`} title="Version of the tool" />}
      {tool.tool!.backend !== "" && <Hint word={tool.tool!.backend} title="Backend" />}
    </ul>
  );
}

function Hint(props: { kind?: "ok" | "warn" | "bad" | "info"; word: string; title: string }) {
  return (
    <li>
      <Badge {...(props.kind ? { kind: props.kind } : {})} title={props.title}>
        <Text text={props.word} max={80} />
      </Badge>
    </li>
  );
}

function Schemas(props: { tool: GetToolResponse; schema: JsonObject }) {
  const { tool } = props;
  const [which, setWhich] = useState("input");
  const output = useMemo(() => tryJson(tool.outputSchema), [tool]);
  const tabs: Tab[] = [
    { id: "input", label: "Input" },
    { id: "input-json", label: "Input as JSON" },
    { id: "checked", label: "What is checked, as JSON" },
    ...(isObject(output) ? [{ id: "output", label: "Output" }, { id: "output-json", label: "Output as JSON" }] : []),
  ];
  return (
    <Tabs tabs={tabs} selected={which} onSelect={setWhich} label="Schemas">
      {which === "input" && <SchemaTree schema={props.schema} />}
      {which === "input-json" && <JsonView value={props.schema} name="input-schema" />}
      {which === "checked" && <JsonView value={tryJson(tool.inputSchema) ?? {}} name="input-schema-checked" />}
      {which === "output" && isObject(output) && <SchemaTree schema={output} />}
      {which === "output-json" && output !== undefined && <JsonView value={output} name="output-schema" />}
    </Tabs>
  );
}

function JsonView(props: { value: Json; name: string }) {
  const [asText, setAsText] = useState(false);
  const text = useMemo(() => jsonText(props.value), [props.value]);
  return (
    <div class="stack">
      <div class="row between">
        <label class="row">
          <input type="checkbox" checked={asText} onChange={(e) => setAsText(e.currentTarget.checked)} />
          As text
        </label>
        <Copy text={text} label="Copy the JSON" />
      </div>
      {asText ? <LongText text={text} fileName={props.name + ".json"} type="application/json" label="JSON" /> : <Tree value={props.value} />}
    </div>
  );
}

function Agents(props: { tool: GetToolResponse }) {
  const { tool } = props;
  const listedIn = Object.keys(tool.listed).sort();
  const [dialect, setDialect] = useState(listedIn[0] ?? "");
  const listed = tryJson(tool.listed[dialect] ?? "");
  return (
    <div class="stack">
      <table class="tool-facts">
        <tbody>
          <Fact name="Name in MCP" value={tool.tool!.mcpName} />
          <Fact name="Name in JSON-RPC" value={tool.tool!.name} />
          {tool.rpc !== "" && <Fact name="RPC" value={tool.rpc} />}
          <Fact name="Fingerprint" value={tool.fingerprint} />
          <tr>
            <th scope="row">Tokens</th>
            <td>
              {formatCount(tool.tokens)}
              {tool.listTokens > 0 && ` of ${formatCount(tool.listTokens)} in the list (${((100 * tool.tokens) / tool.listTokens).toFixed(1)} %)`}, estimated
            </td>
          </tr>
        </tbody>
      </table>
      {listedIn.length > 0 && (
        <label class="row">
          <span>As listed in</span>
          <select value={dialect} onChange={(e) => setDialect(e.currentTarget.value)}>
            {listedIn.map((d) => (
              <option key={d} value={d}>
                {dialects[d] ?? d}
              </option>
            ))}
          </select>
        </label>
      )}
      {listed !== undefined && <JsonView key={dialect} value={listed} name="tool" />}
    </div>
  );
}

function Fact(props: { name: string; value: string }) {
  return (
    <tr>
      <th scope="row">{props.name}</th>
      <td class="mono">
        <Text text={props.value} max={300} /> <Copy text={props.value} label={`Copy: ${props.name}`} />
      </td>
    </tr>
  );
}

function Findings(props: { tool: GetToolResponse }) {
  const { findings } = props.tool;
  if (findings.length === 0) return <Empty title="No findings">What clients and model providers take, this tool keeps to.</Empty>;
  return (
    <ul class="stack">
      {findings.slice(0, 200).map((f, i) => (
        <li key={i} class="card stack tight">
          <p class="row">
            <Badge kind={f.level === "error" ? "bad" : f.level === "warning" ? "warn" : "info"}>
              <Text text={f.level} max={20} />
            </Badge>
            <span class="mono">
              <Text text={f.rule} max={80} />
            </span>
            {f.path !== "" && (
              <span class="mono dim small">
                <Text text={f.path} max={200} />
              </span>
            )}
          </p>
          <p>
            <Text text={f.message} />
          </p>
          {f.fix !== "" && (
            <p>
              <span class="strong">Fix: </span>
              <Text text={f.fix} />
            </p>
          )}
        </li>
      ))}
      {findings.length > 200 && <li class="dim">… and {formatCount(findings.length - 200)} more</li>}
    </ul>
  );
}

function Changes(props: { tool: GetToolResponse }) {
  const { changes } = props.tool;
  if (changes.length === 0) return <Empty title="No changes">The tool is as it was in the previous catalog of this process, or there was none.</Empty>;
  return (
    <ul class="stack tight changes">
      {changes.slice(0, 500).map((c, i) => (
        <li key={i}>
          <Text text={c} />
        </li>
      ))}
      {changes.length > 500 && <li class="dim">… and {formatCount(changes.length - 500)} more</li>}
    </ul>
  );
}
