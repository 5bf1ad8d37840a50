// SPDX-License-Identifier: Apache-2.0
import type { ComponentChildren } from "preact";
import type { WatchResponse } from "../gen/outrigger/admin/v1/admin_pb";
import { Text } from "../ui";
import { amount, epochMillis, span, took } from "./format";
import { store } from "./stream";

/** The numbers at the head of the page. */
export function Summary(props: { state: WatchResponse }) {
  const s = props.state;
  const r = store.rates();
  const started = new Date(epochMillis(s.started)).toISOString();
  const isFailing = r !== undefined && r.failed > 0;
  return (
    <dl class="tiles strip" aria-label="State">
      <Fact name="State" kind={s.ready ? "ok" : "bad"}>
        <Text text={s.state || "unknown"} max={40} />
        {!s.ready && s.state === "ready" ? ", but not ready" : ""}
        {s.started && (
          <time class="dim small since" dateTime={started} title={`Started at ${started}`}>
            up {span(epochMillis(s.time) - epochMillis(s.started))}
          </time>
        )}
      </Fact>
      <Fact name="Calls/s">{r ? amount(r.calls) : "–"}</Fact>
      <Fact name="Errors/s" kind={isFailing ? "bad" : ""}>
        {r ? amount(r.failed) : "–"}
      </Fact>
      <Fact name="Latency p50">{r ? latency(r.p50, r.longest) : "–"}</Fact>
      <Fact name="Latency p95">{r ? latency(r.p95, r.longest) : "–"}</Fact>
      <Fact name="In flight">{amount(s.inFlightTotal)}</Fact>
      <Fact name="Sessions">{amount(s.sessions)}</Fact>
      <Fact name="Tasks">{amount(s.tasks)}</Fact>
      {s.approvals > 0 && (
        <Fact name="Approvals" kind="warn">
          {amount(s.approvals)} waiting
        </Fact>
      )}
      <Fact name="Streams">{amount(s.streams)}</Fact>
      <Fact name="Tools">{amount(s.catalogTools)}</Fact>
      <Fact name="Trust" kind={s.trust === "trusted" ? "warn" : ""}>
        <Text text={s.trust || "–"} max={40} />
      </Fact>
      <Fact name="Watching">{amount(s.watchers)}</Fact>
    </dl>
  );
}

/** A percentile; beyond the last bucket there is only a lower bound. */
export function latency(ms: number, longest: number): string {
  return ms === Infinity ? "> " + took(longest) : took(ms);
}

/** A name with its value, in a list of facts. */
export function Fact(props: { name: string; kind?: string; isWide?: boolean; children: ComponentChildren }) {
  return (
    <div class={"tile" + (props.isWide ? " wide" : "")}>
      <dt>{props.name}</dt>
      <dd class={props.kind ?? ""}>{props.children}</dd>
    </div>
  );
}
