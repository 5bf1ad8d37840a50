// SPDX-License-Identifier: Apache-2.0
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { api, errorText, note, returns } from "../api";
import type { Approval } from "../gen/outrigger/admin/v1/admin_pb";
import { tryJson } from "../json";
import { announce, Badge, Button, Dialog, ErrorNote, Spinner, Text, Tree } from "../ui";
import { age, agreed, expiry, outcome, reasonFault, split } from "./deciding";
import { clock, epochMillis } from "./format";

/** Time between looks while calls wait: others decide too. In milliseconds. */
const againMs = 3000;

const timeoutMs = 10_000;

/** The calls that wait for approval, and those that were decided. It is not there while there are none. */
export function Approvals(props: { waiting: number; now: number }) {
  const [all, setAll] = useState<Approval[]>([]);
  const [failed, setFailed] = useState("");
  const [open, setOpen] = useState("");
  const [said, setSaid] = useState("");
  const [looks, setLooks] = useState(0);
  const { waiting, over } = split(all);
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const look = async () => {
      try {
        const r = await api.listApprovals({ decided: true }, { signal: stop.signal, timeoutMs });
        setAll(r.approvals);
        setFailed("");
      } catch (cause) {
        if (stop.signal.aborted) return;
        note(cause);
        setFailed(errorText(cause));
      }
      if (props.waiting > 0) timer = setTimeout(look, againMs);
    };
    void look();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [props.waiting, looks, returns.value]);
  const before = useRef(props.waiting);
  useEffect(() => {
    if (props.waiting > before.current) announce(`${props.waiting === 1 ? "One call waits" : `${props.waiting} calls wait`} for approval.`);
    before.current = props.waiting;
  }, [props.waiting]);
  const decided = (text: string) => {
    setOpen("");
    setSaid(text);
    announce(text);
    setLooks(looks + 1);
  };
  if (all.length === 0 && props.waiting === 0 && open === "") return null;
  return (
    <section class="stack" aria-labelledby="approvals">
      <h2 id="approvals">
        Approvals {props.waiting > 0 && <Badge kind="warn">{props.waiting.toLocaleString("en")} waiting</Badge>}
      </h2>
      {failed !== "" && <ErrorNote title="The calls that wait could not be loaded" text={failed} />}
      {said !== "" && (
        <p class="said">
          <Text text={said} />
        </p>
      )}
      {waiting.length > 0 ? (
        <ul class="stack tight">
          {waiting.map((a) => (
            <Row key={a.id} approval={a} now={props.now} onOpen={() => setOpen(a.id)} />
          ))}
        </ul>
      ) : (
        <p class="dim">No call waits.</p>
      )}
      {over.length > 0 && (
        <details>
          <summary>Decided ({over.length})</summary>
          <ul class="stack tight">
            {over.map((a) => (
              <Row key={a.id} approval={a} now={props.now} onOpen={() => setOpen(a.id)} />
            ))}
          </ul>
        </details>
      )}
      <Dialog open={open !== ""} title="A call that needs approval" onClose={() => setOpen("")}>
        <Opened id={open} now={props.now} onDecided={decided} onClose={() => setOpen("")} />
      </Dialog>
    </section>
  );
}

function Row(props: { approval: Approval; now: number; onOpen: () => void }) {
  const a = props.approval;
  const isWaiting = a.state === "waiting";
  return (
    <li class="part">
      <StateBadge state={a.state} />
      <span class="strong">
        <Text text={a.title || a.tool} max={120} />
      </span>
      <span>
        by <Text text={a.requester} max={120} />
      </span>
      <span class="dim">
        rule <Text text={a.rule} max={80} />, {agreed(a)} approved
        {isWaiting ? `, waiting for ${age(a, props.now)}, expires ${expiry(a, props.now)}` : `, asked ${age(a, props.now)} ago`}
      </span>
      <Button aria-haspopup="dialog" aria-label={`Open ${a.tool.slice(0, 120)} of ${a.requester.slice(0, 120)}`} onClick={props.onOpen}>
        Open
      </Button>
    </li>
  );
}

function StateBadge(props: { state: string }) {
  const kind = { waiting: "warn", approved: "ok", running: "ok", done: "ok", denied: "bad" }[props.state] as "warn" | "ok" | "bad" | undefined;
  return (
    <Badge kind={kind ?? "info"}>
      <Text text={props.state} max={20} />
    </Badge>
  );
}

/** One call in the dialog, with its arguments, and the decision. */
function Opened(props: { id: string; now: number; onDecided: (said: string) => void; onClose: () => void }) {
  const [found, setFound] = useState<Approval>();
  const [failed, setFailed] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    api.getApproval({ id: props.id }, { signal: stop.signal, timeoutMs }).then(
      (r) => setFound(r.approval),
      (cause) => {
        if (stop.signal.aborted) return;
        note(cause);
        setFailed(errorText(cause));
      },
    );
    return () => stop.abort();
  }, [props.id]);
  return (
    <div class="stack approval">
      {failed !== "" && <ErrorNote title="The call could not be loaded" text={failed} />}
      {found ? <Details approval={found} now={props.now} /> : failed === "" && <Spinner label="Loading…" />}
      {found?.mayDecide ? (
        <Decision id={props.id} onDecided={props.onDecided} onClose={props.onClose} />
      ) : (
        <>
          {found && found.state === "waiting" && (
            <p class="note">
              You may not decide: <Text text={found.whyNot} max={1000} />
            </p>
          )}
          <div class="row end">
            <Button onClick={props.onClose}>Close</Button>
          </div>
        </>
      )}
    </div>
  );
}

function Details(props: { approval: Approval; now: number }) {
  const a = props.approval;
  const value = tryJson(a.argumentsJson);
  return (
    <>
      <p class="row">
        <StateBadge state={a.state} />
        <Text class="strong" text={a.title || a.tool} max={200} />
        <Text class="mono" text={a.tool} max={200} />
      </p>
      <p>
        <Text class="strong" text={a.requester} max={200} /> called it {age(a, props.now)} ago. Rule <Text text={a.rule} max={80} /> asks for {a.needed === 1 ? "one approval" : `${a.needed} approvals`}
        {a.state === "waiting" && `; it expires ${expiry(a, props.now)}`}.
      </p>
      {a.ended !== "" && (
        <p class="dim">
          <Text text={a.ended} max={2000} />
        </p>
      )}
      {a.decisions.length > 0 && (
        <ul class="stack tight" aria-label="Decisions">
          {a.decisions.map((d) => (
            <li key={d.approver} class="part">
              <Badge kind={d.approved ? "ok" : "bad"}>{d.approved ? "approved" : "denied"}</Badge>
              <Text class="strong" text={d.approver} max={120} />
              <span class="dim">at {clock(epochMillis(d.time))}</span>
              <Text text={d.reason} />
            </li>
          ))}
        </ul>
      )}
      {a.preview !== "" && (
        <>
          <h3>Preview</h3>
          <pre class="note">
            <Text text={a.preview} max={16_000} />
          </pre>
        </>
      )}
      <h3>Arguments</h3>
      {value === undefined ? <p class="dim">They are not shown.</p> : <Tree value={value} depth={3} />}
    </>
  );
}

/** The reason, and the two ways to decide. */
function Decision(props: { id: string; onDecided: (said: string) => void; onClose: () => void }) {
  const [reason, setReason] = useState("");
  const [fault, setFault] = useState("");
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  const label = useId();
  const decide = async (approve: boolean) => {
    const wrong = reasonFault(reason);
    setFault(wrong);
    if (wrong !== "") {
      field.current?.focus();
      return;
    }
    setBusy(true);
    setFailed("");
    try {
      const r = await api.decideApproval({ id: props.id, approve, reason: reason.trim() }, { timeoutMs });
      props.onDecided(r.approval ? outcome(r.approval) : "");
    } catch (cause) {
      note(cause);
      setFailed(errorText(cause));
      setBusy(false);
    }
  };
  return (
    <>
      {failed !== "" && <ErrorNote title="It was not decided" text={failed} />}
      <div class="field">
        <label class="label" for={label}>
          Reason
        </label>
        <textarea
          id={label}
          ref={field}
          rows={2}
          value={reason}
          aria-invalid={fault !== ""}
          aria-describedby={label + "-fault"}
          onInput={(e) => {
            setReason(e.currentTarget.value);
            setFault("");
          }}
        />
        <span id={label + "-fault"} role="status" class={fault === "" ? "dim small" : "bad small"}>
          {fault || "The audit trail keeps it, and the requester may see it."}
        </span>
      </div>
      <div class="row end">
        <Button onClick={props.onClose}>Decide later</Button>
        <Button kind="danger" disabled={busy} onClick={() => void decide(false)}>
          Deny
        </Button>
        <Button kind="primary" disabled={busy} onClick={() => void decide(true)}>
          Approve
        </Button>
      </div>
    </>
  );
}
