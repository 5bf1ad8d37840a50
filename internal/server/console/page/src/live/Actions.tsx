// SPDX-License-Identifier: Apache-2.0
import { useState } from "preact/hooks";
import { api, away, errorText, keepServer, note, server } from "../api";
import type { WatchResponse } from "../gen/outrigger/admin/v1/admin_pb";
import { announce, Button, Confirm, ErrorNote, Text } from "../ui";
import { counted, millis, took } from "./format";

/** What is asked; trust by the state that it is to have, whatever another operator does meanwhile. */
type Action = "refresh" | "trusted" | "untrusted" | "drain";

/** How long an operator's action may take, in milliseconds. */
const timeoutMs = 60_000;

/** What an operator can change, each asked before it is done. Not there for those who may only see. */
export function Actions(props: { state: WatchResponse }) {
  const s = props.state;
  const [asked, setAsked] = useState<Action>();
  const [busy, setBusy] = useState(false);
  const [said, setSaid] = useState("");
  const [failed, setFailed] = useState("");
  if (!server.value?.canOperate) return null;
  const isBlocked = busy || away.value;
  const close = () => setAsked(undefined);
  const other = s.trust === "trusted" ? "untrusted" : "trusted";
  const trust = asked === "trusted" || asked === "untrusted" ? asked : other;

  const run = async (what: () => Promise<string>) => {
    close();
    setBusy(true);
    setFailed("");
    setSaid("");
    try {
      const text = await what();
      setSaid(text);
      announce(text);
    } catch (cause) {
      note(cause);
      setFailed(errorText(cause));
    }
    setBusy(false);
  };
  const refresh = async () => {
    const r = await api.refresh({}, { timeoutMs });
    const size = counted(r.tools, "tool");
    return `The catalog was loaded in ${took(millis(r.took))}: ${size}, ${r.changed ? "changed" : "as before"}.`;
  };
  const setTrust = async () => {
    const r = await api.setTrust({ trust }, { timeoutMs });
    await keepServer();
    return r.before === r.trust ? `Callers were ${r.trust} already.` : `Callers are ${r.trust} now; before, they were ${r.before}.`;
  };
  const drain = async () => {
    const r = await api.drain({}, { timeoutMs });
    return `The sidecar drains: ${counted(r.inFlight, "request is", "requests are")} still in flight.`;
  };

  return (
    <section class="stack tight" aria-label="Actions">
      <div class="row">
        <Button disabled={isBlocked} onClick={() => setAsked("refresh")}>
          Refresh the catalog
        </Button>
        {s.trust !== "" && (
          <Button disabled={isBlocked} onClick={() => setAsked(other)}>
            {other === "trusted" ? "Trust callers" : "Withdraw trust"}
          </Button>
        )}
        <Button disabled={isBlocked || s.state === "draining"} onClick={() => setAsked("drain")}>
          Drain
        </Button>
        {said !== "" && (
          <span class="said">
            <Text text={said} />
          </span>
        )}
      </div>
      {failed !== "" && <ErrorNote title="It was not done" text={failed} />}
      <Confirm open={asked === "refresh"} title="Load the catalog again?" action="Refresh" onConfirm={() => void run(refresh)} onClose={close}>
        <p>The sidecar asks its backends for their tools. If tools differ, callers see the new list; calls in flight end as they began.</p>
        <AuditNote />
      </Confirm>
      <Confirm
        open={asked === trust}
        title={trust === "trusted" ? "Trust all callers?" : "Withdraw trust from callers?"}
        action={trust === "trusted" ? "Trust callers" : "Withdraw trust"}
        danger={trust === "trusted"}
        onConfirm={() => void run(setTrust)}
        onClose={close}
      >
        {trust === "trusted" ? (
          <p>Callers may then run destructive tools, and no user is asked. It lasts until it is withdrawn, or the sidecar ends.</p>
        ) : (
          <p>Destructive tools are then refused, or a user is asked where the configuration says so. Calls in flight go on.</p>
        )}
        <AuditNote />
      </Confirm>
      <Confirm open={asked === "drain"} title="Drain this sidecar?" action="Drain and end" danger onConfirm={() => void run(drain)} onClose={close}>
        <p>
          It takes no new calls, lets those in flight end ({s.inFlightTotal.toLocaleString("en")} now) within the grace period, and then ends. This
          cannot be undone: this page is gone until something starts the sidecar again.
        </p>
        <AuditNote />
      </Confirm>
    </section>
  );
}

function AuditNote() {
  return <p class="dim">A line of the audit trail says who did it.</p>;
}
