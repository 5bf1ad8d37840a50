// SPDX-License-Identifier: Apache-2.0
import { useEffect, useState } from "preact/hooks";
import { api, errorText, note, returns } from "../api";
import { LongLivedKind, type LongLived, type WatchResponse } from "../gen/outrigger/admin/v1/admin_pb";
import { Badge, Button, ErrorNote, Spinner, Text } from "../ui";
import { epochMillis, span } from "./format";

/** Entries that a list begins with and grows by, and has at most. */
const step = 50;
const most = 1000;

/** Time between looks while a list is open, in milliseconds. */
const againMs = 3000;

/** The sessions, tasks and streams of the sidecar: lists that load when they are opened. */
export function LongLivedLists(props: { state: WatchResponse }) {
  const s = props.state;
  const now = epochMillis(s.time);
  return (
    <section class="stack" aria-labelledby="long-lived">
      <h2 id="long-lived">Sessions, tasks and streams</h2>
      <List name="Sessions" kind={LongLivedKind.SESSION} count={s.sessions} now={now} />
      <List name="Tasks" kind={LongLivedKind.TASK} count={s.tasks} now={now} />
      <List name="Streams" kind={LongLivedKind.STREAM} count={s.streams} now={now} />
    </section>
  );
}

/** The first entries of a kind, the newest first, and how many there are. */
async function load(kind: LongLivedKind, wanted: number, signal: AbortSignal): Promise<{ entries: LongLived[]; total: number }> {
  const entries: LongLived[] = [];
  let pageToken = "";
  for (;;) {
    const r = await api.listLongLived({ kind, pageSize: Math.min(200, wanted - entries.length), pageToken }, { signal, timeoutMs: 10_000 });
    entries.push(...r.entries);
    pageToken = r.nextPageToken;
    if (pageToken === "" || r.entries.length === 0 || entries.length >= wanted) return { entries, total: r.total };
  }
}

function List(props: { name: string; kind: LongLivedKind; count: number; now: number }) {
  const [isOpen, setOpen] = useState(false);
  const [wanted, setWanted] = useState(step);
  const [found, setFound] = useState<{ entries: LongLived[]; total: number }>();
  const [failed, setFailed] = useState("");
  useEffect(() => {
    if (!isOpen) return;
    const stop = new AbortController();
    let timer = 0;
    const look = async () => {
      try {
        if (!document.hidden) setFound(await load(props.kind, wanted, stop.signal));
        setFailed("");
      } catch (cause) {
        if (stop.signal.aborted) return;
        note(cause);
        setFailed(errorText(cause));
      }
      timer = setTimeout(look, againMs);
    };
    void look();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [isOpen, wanted, props.kind, returns.value]);
  const shown = found?.entries ?? [];
  return (
    <details class="fold" open={isOpen} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        {props.name} <Badge>{props.count.toLocaleString("en")}</Badge>
      </summary>
      {failed !== "" && <ErrorNote title={`The ${props.name.toLowerCase()} could not be loaded`} text={failed} />}
      {isOpen && !found && failed === "" && <Spinner label="Loading…" />}
      {isOpen && found && shown.length === 0 && <p class="dim">There are none.</p>}
      {isOpen && shown.length > 0 && (
        <ul class="stack tight" aria-label={props.name}>
          {shown.map((one) => (
            <Entry key={one.id} entry={one} now={props.now} />
          ))}
        </ul>
      )}
      {isOpen && found && found.total > shown.length && (
        <p class="row">
          <span class="dim">
            {shown.length.toLocaleString("en")} of {found.total.toLocaleString("en")}, the newest first
          </span>
          {shown.length < most && (
            <Button kind="quiet" onClick={() => setWanted(Math.min(most, wanted + step))}>
              Show more
            </Button>
          )}
        </p>
      )}
    </details>
  );
}

function Entry(props: { entry: LongLived; now: number }) {
  const e = props.entry;
  const left = e.ends ? epochMillis(e.ends) - props.now : undefined;
  return (
    <li class="part">
      <Badge kind={e.state === "idle" || e.state === "waiting" ? "info" : "ok"}>
        <Text text={e.state} max={20} />
      </Badge>
      <span class="strong">{e.caller === "" ? "anonymous" : <Text text={e.caller} max={120} />}</span>
      {e.tool !== "" && <Text text={e.tool} max={120} />}
      {e.detail !== "" && <Text text={e.detail} max={80} />}
      <span class="dim">
        <Text class="mono" text={e.id} max={20} />, for {span(Math.max(0, props.now - epochMillis(e.began)))}
        {left !== undefined && `, ends ${left <= 0 ? "now" : "in " + span(left)}`}
      </span>
    </li>
  );
}
