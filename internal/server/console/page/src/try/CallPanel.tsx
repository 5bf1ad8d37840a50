// SPDX-License-Identifier: Apache-2.0
// One call while it runs, and what it came to.
import { useEffect, useRef, useState } from "preact/hooks";
import { Items } from "../items";
import { jsonText } from "../json";
import { took } from "../live/format";
import { callPath } from "../router";
import { announce, Badge, Button, Copy, ErrorNote, formatCount, Text } from "../ui";
import { QuestionForm } from "./QuestionForm";
import { Result } from "./Result";
import type { Run, Seen } from "./run";

export function CallPanel(props: { run: Run }) {
  const seen = props.run.seen.value;
  const isRunning = seen.ended === 0;
  const box = useRef<HTMLElement>(null);
  useEffect(() => {
    if (!isRunning) announce(endWord(seen));
    box.current?.scrollIntoView({ block: "nearest" });
  }, [isRunning, props.run]);
  return (
    <section class="card stack call" aria-label="The call" ref={box}>
      <div class="row between">
        <div class="row">
          <State seen={seen} />
          <Elapsed seen={seen} />
          {seen.task && (
            <Badge kind="info" title={seen.task.id}>
              task <Text text={seen.task.status} max={40} />
            </Badge>
          )}
          {seen.caller !== "" && (
            <span class="dim small">
              as <Text text={seen.caller} max={80} />
            </span>
          )}
          <span class="dim small mono">{seen.revision}</span>
        </div>
        <div class="row">
          {/^[0-9]+$/.test(seen.id) && <a href={callPath(seen.id)}>This call in Live</a>}
          {isRunning && (
            <Button {...(seen.isCancelling ? { kind: "danger" as const } : {})} onClick={() => props.run.cancel()}>
              {seen.isCancelling ? "Leave it" : "Cancel"}
            </Button>
          )}
        </div>
      </div>
      {isRunning && seen.isCancelling && <p class="dim">Asked to end. Waiting for it…</p>}
      {seen.task && seen.task.message !== "" && (
        <p class="dim">
          <Text text={seen.task.message} max={600} />
        </p>
      )}
      <ProgressLine seen={seen} />
      {seen.questions.map((a) => (
        <QuestionForm key={a.question.key} asked={a} />
      ))}
      {seen.outcome?.kind !== "result" && <Items seen={seen.items} />}
      {seen.failure !== "" && <ErrorNote title="The call broke off" text={seen.failure} />}
      {seen.outcome && <Result outcome={seen.outcome} caller={seen.caller} />}
      <Logs seen={seen} />
      <Messages seen={seen} />
    </section>
  );
}

function endWord(seen: Seen): string {
  if (seen.failure !== "") return "The call broke off";
  switch (seen.outcome?.kind) {
    case "result":
      return seen.outcome.result["isError"] === true ? "The call failed" : "The call succeeded";
    case "error":
    case "refused":
      return "The call failed";
    default:
      return "The call was cancelled";
  }
}

function State(props: { seen: Seen }) {
  const { seen } = props;
  if (seen.ended === 0) {
    return (
      <span class="row strong">
        <span class="wheel" aria-hidden="true" /> Running
      </span>
    );
  }
  const word = endWord(seen);
  return <Badge kind={word.endsWith("succeeded") ? "ok" : word.endsWith("cancelled") ? "warn" : "bad"}>{word.replace(/^The call (was )?/, "")}</Badge>;
}

function Elapsed(props: { seen: Seen }) {
  const { began, ended } = props.seen;
  const [now, setNow] = useState(performance.now());
  useEffect(() => {
    if (ended > 0) return;
    const timer = setInterval(() => setNow(performance.now()), 200);
    return () => clearInterval(timer);
  }, [ended]);
  return <span class="dim mono small">{took(Math.max(0, (ended || now) - began))}</span>;
}

function ProgressLine(props: { seen: Seen }) {
  const p = props.seen.progress;
  if (!p) return null;
  return (
    <div class="stack tight">
      <div class="row">
        {p.total !== undefined && p.total > 0 ? (
          <progress class="grow" aria-label="Progress" max={p.total} value={Math.min(p.progress, p.total)} />
        ) : (
          <span class="mono">{formatCount(p.progress)}</span>
        )}
        {p.total !== undefined && (
          <span class="mono small">
            {formatCount(p.progress)} of {formatCount(p.total)}
          </span>
        )}
        <span class="dim">
          <Text text={p.message} max={400} />
        </span>
      </div>
    </div>
  );
}

function Logs(props: { seen: Seen }) {
  const { logs, logsDropped } = props.seen;
  if (logs.length === 0) return null;
  return (
    <details class="fold">
      <summary>
        Log lines <Badge>{formatCount(logs.length + logsDropped)}</Badge>
      </summary>
      <ol class="lines mono small" tabIndex={0} aria-label="Log lines">
        {logsDropped > 0 && <li class="dim">{formatCount(logsDropped)} earlier lines are not kept</li>}
        {logs.slice(-200).map((l, i) => (
          <li key={i}>
            <span class={["error", "critical", "alert", "emergency"].includes(l.level) ? "bad" : l.level === "warning" ? "warn" : "dim"}>
              <Text text={l.level} max={20} />
            </span>{" "}
            {l.logger !== "" && <Text text={l.logger + " "} max={60} class="dim" />}
            <Text text={typeof l.data === "string" ? l.data : jsonText(l.data, true)} max={1_000} />
          </li>
        ))}
      </ol>
    </details>
  );
}

function Messages(props: { seen: Seen }) {
  const { messages, messagesDropped } = props.seen;
  const [open, setOpen] = useState(false);
  if (messages.length === 0) return null;
  return (
    <details class="fold" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        Messages on the wire <Badge>{formatCount(messages.length + messagesDropped)}</Badge>
      </summary>
      {open && (
        <ol class="lines small" tabIndex={0} aria-label="Messages on the wire">
          {messagesDropped > 0 && <li class="dim">{formatCount(messagesDropped)} earlier messages are not kept</li>}
          {messages.slice(-100).map((m, i) => (
            <li key={i} class="row">
              <Badge kind={m.direction === "sent" ? "info" : "ok"}>{m.direction === "sent" ? "→ sent" : "← received"}</Badge>
              <span class="dim mono">{took(m.at)}</span>
              <Copy text={m.raw} label="Copy this message" />
              <code class="grow">
                <Text text={m.raw} max={4_000} />
                {m.length > m.raw.length && <span class="dim"> ({formatCount(m.length)} characters in all)</span>}
              </code>
            </li>
          ))}
        </ol>
      )}
    </details>
  );
}
