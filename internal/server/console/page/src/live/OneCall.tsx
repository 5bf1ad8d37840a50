// SPDX-License-Identifier: Apache-2.0
import { Code, ConnectError } from "@connectrpc/connect";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, errorText, note } from "../api";
import type { Call, GetCallResponse } from "../gen/outrigger/admin/v1/admin_pb";
import { followItems, Items, noItems, type Seen } from "../items";
import { isNumber, member, text, tryJson } from "../json";
import { toolPath } from "../router";
import { announce, Badge, Copy, Empty, ErrorNote, Spinner, Text, Tree, visible } from "../ui";
import { CodeBadge } from "./Calls";
import { anonymous } from "./filter";
import { clock, epochMillis, millis, percent, took } from "./format";
import { Fact } from "./Summary";
import { Waterfall } from "./Waterfall";

/** Time between looks at a call in flight, and after an error, in milliseconds. */
const againMs = 1000;

/** Time after the end of a call after which its lines are all written, in milliseconds. */
const settledMs = 1500;

/** The page of one call. */
export function OneCall(props: { id: string; back: string }) {
  const [found, setFound] = useState<GetCallResponse>();
  const [failed, setFailed] = useState<ConnectError>();
  const isId = /^[0-9]{1,20}$/.test(props.id) && BigInt(props.id) <= 0xffff_ffff_ffff_ffffn;
  const [items, setItems] = useState<Seen>(noItems);
  useEffect(() => {
    if (!isId) return;
    const stop = new AbortController();
    void followItems(BigInt(props.id), stop.signal, setItems);
    return () => stop.abort();
  }, [props.id]);
  const heading = useRef<HTMLHeadingElement>(null);
  // What had the focus is gone with the table.
  useEffect(() => heading.current?.focus({ preventScroll: true }), []);
  useEffect(() => {
    if (!isId) return;
    const stop = new AbortController();
    let timer = 0;
    let wasInFlight = false;
    let looks = 0;
    const look = async () => {
      try {
        const r = await api.getCall({ id: BigInt(props.id) }, { signal: stop.signal, timeoutMs: 10_000 });
        const isOver = r.call?.code !== "";
        setFound(r);
        setFailed(undefined);
        if (wasInFlight && isOver) announce(`The call has ended: ${r.call?.code ?? ""}.`);
        wasInFlight = !isOver;
        if (!isOver) timer = setTimeout(look, againMs);
        // Lines of the log and the audit trail may come just after the end.
        else if (looks++ === 0) timer = setTimeout(look, settledMs);
      } catch (cause) {
        if (stop.signal.aborted) return;
        note(cause);
        const error = ConnectError.from(cause);
        setFailed(error);
        if (error.code !== Code.NotFound && error.code !== Code.PermissionDenied) timer = setTimeout(look, 3 * againMs);
      }
    };
    void look();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [props.id]);

  return (
    <>
      <p>
        <a href={props.back}>← All calls</a>
      </p>
      <div class="row between">
        <h1 ref={heading} tabIndex={-1}>
          Call {props.id.slice(0, 20)}
        </h1>
        {found?.call && found.call.tool !== "" && (
          <a class="button" href={toolPath(found.call.tool)}>
            Try this tool
          </a>
        )}
      </div>
      {!isId || (failed?.code === Code.NotFound && !found) ? (
        <Empty title="The sidecar does not know this call">
          <p>It keeps the calls in flight and the last ones that ended, and numbers begin again when it is started. The audit trail has older calls.</p>
        </Empty>
      ) : (
        <>
          {failed && failed.code === Code.NotFound && <p class="note warn">The sidecar no longer keeps this call. This is what it last said.</p>}
          {failed && failed.code !== Code.NotFound && <ErrorNote title="The call could not be loaded" text={errorText(failed)} />}
          {found?.call ? <Found call={found.call} about={found} items={items} /> : !failed && <Spinner label="Loading…" />}
        </>
      )}
    </>
  );
}

function Found(props: { call: Call; about: GetCallResponse; items: Seen }) {
  const { call: c, about } = props;
  const total = millis(c.took);
  const upstream = millis(c.upstream);
  return (
    <>
      {c.message !== "" && (
        <div class={"note " + (c.code === "OK" ? "" : "bad")}>
          <Text text={c.message} max={4000} />
        </div>
      )}
      <dl class="tiles">
        <Fact name="Code" isWide>
          <CodeBadge code={c.code} step={c.step} />
        </Fact>
        <Fact name="Tool">
          {c.tool === "" ? (
            <span class="dim">none such</span>
          ) : (
            <a href={toolPath(c.tool)} title="Try this tool">
              <Text text={c.tool} max={200} />
            </a>
          )}
        </Fact>
        <Fact name="Caller">{c.caller === "" ? <span class="dim">{anonymous}</span> : <Text text={c.caller} max={300} />}</Fact>
        {c.operator !== "" && (
          <Fact name="Called in the console by">
            <Text text={c.operator} max={300} />
          </Fact>
        )}
        <Fact name="Edge">
          <Text text={c.edge} max={120} />
        </Fact>
        {c.revision !== "" && (
          <Fact name="Revision">
            <Text text={c.revision} max={60} />
          </Fact>
        )}
        <Fact name="Operation">
          <Text text={c.operation} max={120} />
        </Fact>
        <Fact name="Began">
          <time dateTime={new Date(epochMillis(c.began)).toISOString()}>{clock(epochMillis(c.began))}</time>
        </Fact>
        <Fact name={c.code === "" ? "So far" : "Took"}>{took(total)}</Fact>
        <Fact name="In the sidecar">
          {took(Math.max(0, total - upstream))} <span class="dim">({percent(total > 0 ? Math.max(0, total - upstream) / total : 0)})</span>
        </Fact>
        <Fact name="Waiting for backend or user">{took(upstream)}</Fact>
        {c.requestId !== "" && <Id name="Request id" value={c.requestId} />}
        {c.traceId !== "" && <Id name="Trace id" value={c.traceId} />}
        {c.spanId !== "" && <Id name="Span id" value={c.spanId} />}
      </dl>
      {about.advice.length > 0 && (
        <section class="stack tight" aria-labelledby="advice">
          <h2 id="advice">What to try next</h2>
          <ul class="advice">
            {about.advice.map((a, i) => (
              <li key={i}>
                <Advice text={a} />
              </li>
            ))}
          </ul>
        </section>
      )}
      <Items seen={props.items} />
      <section class="stack tight" aria-labelledby="steps">
        <h2 id="steps">Steps</h2>
        {c.steps.length > 0 ? (
          <Waterfall call={c} />
        ) : (
          <p class="dim">No console watched when this call began, so that its steps were not kept.</p>
        )}
      </section>
      <Lines title="Audit trail" lines={about.auditLines} note={about.auditNote} />
      <Lines title="Run record" lines={about.record === "" ? [] : [about.record]} note={about.recordNote} />
      <Lines title="Log" lines={about.logLines} note="No line of the log about this call is kept." />
    </>
  );
}

/** An advice, in which words between backquotes are code. */
function Advice(props: { text: string }) {
  return props.text.split("`").map((part, i) => (i % 2 === 1 ? <code key={i}>{visible(part)}</code> : <Text key={i} text={part} />));
}

function Id(props: { name: string; value: string }) {
  return (
    <Fact name={props.name} isWide>
      <Text class="mono" text={props.value} max={200} />
      <Copy text={props.value} label={`Copy the ${props.name.toLowerCase()}`} />
    </Fact>
  );
}

/** Lines of JSON, each as a tree that opens. */
function Lines(props: { title: string; lines: readonly string[]; note: string }) {
  const id = "lines-" + props.title.toLowerCase().replace(/\W/g, "-");
  return (
    <section class="stack tight" aria-labelledby={id}>
      <h2 id={id}>{props.title}</h2>
      {props.lines.length === 0 ? (
        <p class="dim">
          <Text text={props.note} />
        </p>
      ) : (
        <ul class="stack tight">
          {props.lines.map((line, i) => (
            <Line key={i} line={line} title={`${props.title}, line ${i + 1}`} isOpen={props.lines.length === 1} />
          ))}
        </ul>
      )}
    </section>
  );
}

/** The members that name a line, wherever lines have them. */
const times = ["time", "ts", "timestamp"];
const messages = ["msg", "message", "method", "operation"];

function Line(props: { line: string; title: string; isOpen: boolean }) {
  const value = tryJson(props.line);
  if (value === undefined) {
    return (
      <li class="line">
        <pre>
          <Text text={props.line} max={8000} />
        </pre>
      </li>
    );
  }
  const first = (names: string[]) => names.map((n) => text(value, n)).find((t) => t !== "") ?? "";
  const level = text(value, "level");
  const at = first(times) || (isNumber(member(value, "time")) ? String(member(value, "time")) : "");
  return (
    <li class="line">
      <details open={props.isOpen}>
        <summary>
          {level !== "" && <Badge kind={/^(error|fatal)/i.test(level) ? "bad" : /^warn/i.test(level) ? "warn" : "info"}>{level.slice(0, 12)}</Badge>}{" "}
          <span class="dim mono">
            <Text text={at} max={40} />
          </span>{" "}
          <Text text={first(messages) || "line"} max={200} />
        </summary>
        <Tree value={value} depth={1} />
        <Copy text={props.line} label={`Copy ${props.title.toLowerCase()}`}>
          Copy
        </Copy>
      </details>
    </li>
  );
}
