// SPDX-License-Identifier: Apache-2.0
// The arguments of a call, as a form and as JSON, with what the sidecar finds in them; and the call.
import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, errorText, isAway, returns, server } from "../api";
import type { GetToolResponse } from "../gen/outrigger/admin/v1/admin_pb";
import { jsonText, tryJson, type Json, type JsonObject } from "../json";
import { canonical } from "../mcp/wire";
import { fragment, replaceFragment, toolPath } from "../router";
import { announce, Badge, Button, Confirm, Copy, formatCount, Tabs, Text, visible } from "../ui";
import { CallPanel } from "./CallPanel";
import { snippets } from "./copyas";
import { faultsLeft, type Fault } from "./fields";
import { Form } from "./Form";
import { Run } from "./run";

const checkAfterMs = 250;
const maxLinkChars = 32_768;

// How the operator calls; it stays while tools are changed.
const caller = signal("");
const revision = signal("");

function chosenCaller(): string {
  const callers = server.value?.callers ?? [];
  return callers.includes(caller.value) ? caller.value : (callers[0] ?? "");
}

function revisions(): string[] {
  return [...(server.value?.revisions ?? []), canonical];
}

function chosenRevision(): string {
  const all = revisions();
  return all.includes(revision.value) ? revision.value : all[0]!;
}

/** The arguments that the address has; an empty object if it has none. */
function firstText(): string {
  const given = new URLSearchParams(fragment.peek()).get("args");
  if (given === null) return "{}";
  const value = tryJson(given);
  return value === undefined ? given : jsonText(value);
}

function argsFragment(text: string): string | undefined {
  const value = tryJson(text);
  const short = value === undefined ? text : jsonText(value, true);
  if (short.length > maxLinkChars) return undefined;
  return short === "{}" ? "" : "args=" + encodeURIComponent(short);
}

interface Check {
  faults: Fault[];
  /** What the faults were found in. */
  value: Json;
  /** A refusal for another reason than the arguments. */
  refusal: string;
  isDone: boolean;
}

/** What the sidecar says of arguments: the latest answer to the latest text. */
function useCheck(tool: string, text: string, value: Json | undefined): Check {
  const isJson = value !== undefined;
  const [check, setCheck] = useState<Check>({ faults: [], value: {}, refusal: "", isDone: false });
  const up = server.value !== undefined;
  useEffect(() => {
    if (!up || value === undefined) return;
    const end = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const answer = await api.checkArguments({ tool, arguments: text }, { signal: end.signal, timeoutMs: 10_000 });
        const faults = answer.violations.map((v) => ({ path: v.path, keyword: v.keyword, message: v.message }));
        setCheck({ faults, value, refusal: faults.length === 0 && answer.code !== "" ? `${answer.code}: ${answer.message}` : "", isDone: true });
      } catch (cause) {
        if (!end.signal.aborted && !isAway(cause)) setCheck({ faults: [], value, refusal: errorText(cause), isDone: false });
      }
    }, checkAfterMs);
    return () => {
      clearTimeout(timer);
      end.abort();
    };
  }, [tool, text, isJson, up, returns.value]);
  return check;
}

export function CallTab(props: { tool: GetToolResponse; schema: JsonObject }) {
  const { tool, schema } = props;
  const name = tool.tool!.name;
  const [text, setText] = useState(firstText);
  const [changed, setChanged] = useState(0);
  const [isTouched, setTouched] = useState(text !== "{}");
  const [run, setRun] = useState<Run>();
  const [isAsking, setAsking] = useState(false);
  const value = useMemo(() => tryJson(text), [text]);
  // While the text is no JSON, the form shows the last that was.
  const last = useRef<Json>({});
  if (value !== undefined) last.current = value;
  const isJson = value !== undefined;
  const check = useCheck(name, text, value);
  const faults = useMemo(() => (isTouched && value !== undefined ? faultsLeft(check.faults, check.value, value) : noFaults), [check, value, isTouched]);

  const arrived = useRef(fragment.value);
  useEffect(() => {
    const timer = setTimeout(() => {
      const to = argsFragment(text);
      if (to === undefined) return;
      replaceFragment(to);
      arrived.current = fragment.peek();
    }, 500);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(() => () => run?.leave(), [run]);
  useEffect(() => {
    // Another link to the same tool was opened here.
    if (arrived.current === fragment.value) return;
    arrived.current = fragment.value;
    change(firstText());
  }, [fragment.value]);

  const typed = useCallback((to: string) => {
    setText(to);
    setTouched(true);
  }, []);
  const change = (to: string) => {
    typed(to);
    setChanged((n) => n + 1);
  };
  const changeValue = (to: Json) => change(jsonText(to));

  const about = server.value;
  const refused = about?.callRefusal ?? "";
  const isRunning = run !== undefined && run.seen.value.ended === 0;
  const canCall = about !== undefined && refused === "" && about.callers.length > 0 && isJson && !isRunning;

  const begin = () => {
    setAsking(false);
    const made = new Run({
      revision: chosenRevision(),
      caller: chosenCaller(),
      name,
      mcpName: tool.tool!.mcpName,
      argumentsText: text,
      arguments: last.current,
      inputSchema: schema,
      streams: tool.streams,
    });
    setRun(made);
    announce("The call runs");
    void made.start();
  };
  const callNow = () => {
    setTouched(true);
    if (!canCall) return;
    // The page asks also where the sidecar does: callers that are trusted get no question from it.
    if (tool.tool!.destructive) setAsking(true);
    else begin();
  };
  const now = useRef(callNow);
  now.current = callNow;
  const onKey = (e: KeyboardEvent) => {
    if (!isCallKey(e) || e.defaultPrevented) return;
    e.preventDefault();
    // A field that takes what was typed when it is left takes it now, and the call is made once the arguments have it.
    if (e.target instanceof HTMLInputElement && e.target.type === "text") e.target.dispatchEvent(new Event("change", { bubbles: true }));
    setTimeout(() => now.current());
  };
  // A key that is held down makes one call. The editor has a shortcut as well, so repetitions end before it.
  const onAnyKey = (e: KeyboardEvent) => {
    if (!isCallKey(e) || !e.repeat) return;
    e.preventDefault();
    e.stopPropagation();
  };

  return (
    <div class="stack" onKeyDown={onKey} onKeyDownCapture={onAnyKey}>
      <div class="args">
        <section class="args-form" aria-label="Arguments as a form">
          {!isJson && <p class="note warn">The JSON has a fault. The form shows what was before it.</p>}
          <fieldset disabled={!isJson} class="bare">
            <legend class="unseen">Arguments</legend>
            <Form schema={schema} value={last.current} faults={faults} onChange={changeValue} />
          </fieldset>
        </section>
        <section class="args-json stack" aria-label="Arguments as JSON, and the call">
          <JsonEditor text={text} changed={changed} faults={faults} onText={typed} onCall={() => now.current()} label={`Arguments of ${visible(name.slice(0, 120))} as JSON`} />
          <div class="row between">
            <CheckWord isJson={isJson} check={check} isTouched={isTouched} />
            <div class="row">
              <Button kind="quiet" onClick={() => change(isJson ? jsonText(last.current) : text)} disabled={!isJson}>
                Tidy
              </Button>
              <Button kind="quiet" onClick={() => change("{}")}>
                Clear
              </Button>
              <Copy text={text} label="Copy the arguments" />
            </div>
          </div>
          <CallBar tool={tool} canCall={canCall} isRunning={isRunning} refused={refused} onCall={callNow} text={text} />
        </section>
      </div>
      {run && <CallPanel run={run} />}
      <Confirm open={isAsking} title="Call a destructive tool?" action="Call it" refuse="Do not call" danger onConfirm={begin} onClose={() => setAsking(false)}>
        <p>
          <span class="mono strong">
            <Text text={name} max={200} />
          </span>{" "}
          says of itself that it destroys. The call is made{" "}
          {chosenCaller() === "" ? (
            "as the anonymous local caller"
          ) : (
            <>
              as <Text text={chosenCaller()} max={80} />
            </>
          )}
          , and both names go into the audit trail.
        </p>
      </Confirm>
    </div>
  );
}

const noFaults: Fault[] = [];

const isCallKey = (e: KeyboardEvent) => e.key === "Enter" && (e.ctrlKey || e.metaKey);

function CheckWord(props: { isJson: boolean; check: Check; isTouched: boolean }) {
  const { check } = props;
  if (!props.isJson) return <span class="bad small">This is no JSON.</span>;
  if (check.refusal !== "") {
    return (
      <span class="warn small">
        <Text text={check.refusal} max={400} />
      </span>
    );
  }
  if (!check.isDone) return <span class="dim small">Not checked yet</span>;
  if (check.faults.length === 0) return <span class="ok small">✓ A call would take these arguments</span>;
  return (
    <span class={(props.isTouched ? "bad" : "dim") + " small"} role="status">
      {check.faults.length === 1 ? "1 violation" : `${formatCount(check.faults.length)} violations`}
    </span>
  );
}

function CallBar(props: { tool: GetToolResponse; canCall: boolean; isRunning: boolean; refused: string; onCall: () => void; text: string }) {
  const about = server.value;
  const callers = about?.callers ?? [];
  return (
    <div class="card call-bar stack">
      <div class="row">
        <Button kind="primary" onClick={props.onCall} disabled={!props.canCall} aria-keyshortcuts="Control+Enter" title="Ctrl+Enter">
          {props.isRunning ? "Running…" : "Call"}
        </Button>
        <label class="row">
          <span class="dim">as</span>
          <select value={chosenCaller()} onChange={(e) => (caller.value = e.currentTarget.value)} disabled={callers.length === 0}>
            {callers.map((c) => (
              <option key={c} value={c}>
                {c === "" ? "anonymous local caller" : visible(c.slice(0, 120))}
              </option>
            ))}
          </select>
        </label>
        <label class="row">
          <span class="dim">in</span>
          <select value={chosenRevision()} onChange={(e) => (revision.value = e.currentTarget.value)}>
            {revisions().map((r) => (
              <option key={r} value={r}>
                {r === canonical ? "JSON-RPC (/rpc)" : `MCP ${r}`}
              </option>
            ))}
          </select>
        </label>
        {props.tool.isGated && about?.trust !== "trusted" && (
          <Badge kind="warn" title="Of callers that are not trusted">
            {about?.trust === "confirm" ? "asks before it runs" : "refused unless the caller is trusted"}
          </Badge>
        )}
        <Copy text={() => location.origin + toolPath(props.tool.tool!.name) + hash(props.text)} label="Copy the link to this call">
          link
        </Copy>
      </div>
      {props.refused !== "" && (
        <p class="note warn">
          <Text text={props.refused} max={600} />
        </p>
      )}
      <CopyAs tool={props.tool} text={props.text} />
    </div>
  );
}

function hash(text: string): string {
  const f = argsFragment(text) ?? "";
  return f === "" ? "" : "#" + f;
}

function CopyAs(props: { tool: GetToolResponse; text: string }) {
  const [open, setOpen] = useState(false);
  const [chosen, setChosen] = useState("curl");
  const { tool, text } = props;
  const url = server.value?.url ?? "";
  const hasCallers = server.value?.hasCallers ?? false;
  const revision = chosenRevision();
  const all = useMemo(() => {
    if (!open) return [];
    const { name, mcpName } = tool.tool!;
    return snippets({ url, hasCallers, name, mcpName, rpc: tool.rpc, takesStream: tool.takesStream, argumentsText: text, revision });
  }, [open, tool, text, url, hasCallers, revision]);
  const shown = all.find((s) => s.id === chosen) ?? all[0];
  const made = useMemo(() => shown?.text() ?? "", [shown]);
  return (
    <details class="fold" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Copy this call as…</summary>
      {open && !shown && <p class="note warn">The JSON has a fault.</p>}
      {shown && (
        <Tabs tabs={all} selected={shown.id} onSelect={setChosen} label="Copy as">
          <div class="snippet">
            <pre tabIndex={0} role="region" aria-label={shown.label}>
              {visible(made.slice(0, 16_384))}
            </pre>
            <Copy text={made} label={`Copy as ${shown.label}`} />
          </div>
        </Tabs>
      )}
    </details>
  );
}

interface EditorProps {
  text: string;
  changed: number;
  label: string;
  faults: Fault[];
  onText: (text: string) => void;
  onCall: () => void;
}

/** The editor; a plain field until it is there, or if it does not load. */
function JsonEditor(props: EditorProps) {
  const [made, setMade] = useState<{ Editor: ComponentType<EditorProps> }>();
  useEffect(() => {
    import("./Editor").then(setMade, () => undefined);
  }, []);
  if (made) return <made.Editor {...props} />;
  return (
    <textarea
      class="mono editor-plain"
      rows={8}
      spellcheck={false}
      aria-label={props.label}
      value={props.text}
      onInput={(e) => props.onText(e.currentTarget.value)}
    />
  );
}
