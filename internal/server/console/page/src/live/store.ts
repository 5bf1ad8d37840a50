// SPDX-License-Identifier: Apache-2.0
// What the page knows of the sidecar: the last message of the stream, the calls of those before, and the numbers of charts.
// Everything in it has a bound, however long the page is open and whatever the sidecar sends.
import type { Call, ToolCounts, WatchResponse } from "../gen/outrigger/admin/v1/admin_pb";
import { epochMillis, millis } from "./format";
import { gapMillis, percentile, Series, Timeline, historyMillis } from "./series";

/** Calls that ended and are kept. */
export const maxCalls = 2000;

/** Tools that a message of the stream names at most. */
const maxNamed = 256;

/** Tools that have charts: the stream does not always name the same. */
const maxTools = 2 * maxNamed;

/** Characters of a text that a row keeps. The page of the call has all of it. */
const maxText = 300;

/** Time that the rates of the header are averaged over, in milliseconds. */
const rateMillis = 10_000;

/** A call in the table. Durations are in milliseconds. */
export interface Row {
  readonly id: string;
  /** Grows with each call of the process. */
  readonly order: number;
  readonly caller: string;
  readonly operator: string;
  readonly tool: string;
  readonly edge: string;
  readonly operation: string;
  /** Milliseconds since 1970. */
  readonly began: number;
  readonly took: number;
  readonly upstream: number;
  /** Canonical code; empty in flight. */
  readonly code: string;
  readonly message: string;
  readonly step: string;
  /** What a filter's words are sought in, in lower case. */
  readonly words: string;
}

/** Rates over the last seconds. Durations are in milliseconds. */
export interface Rates {
  calls: number;
  failed: number;
  /** NaN without a call, infinite beyond longest. */
  p50: number;
  p95: number;
  /** Durations above this are all one. */
  longest: number;
}

/** What is known of a tool. */
export interface Tool {
  readonly name: string;
  readonly series: Series;
  counts: ToolCounts;
  /** Samples with calls, newest last, of the last minute: time and number. For the order of charts. */
  activity: { time: number; calls: number }[];
}

interface Buckets {
  bounds: readonly number[];
  buckets: number[];
}

/** What was counted between two messages. */
interface Counted extends Buckets {
  calls: number;
  failed: number;
}

interface Delta extends Counted {
  time: number;
  millis: number;
}

function cut(text: string): string {
  return text.length > maxText ? text.slice(0, maxText) + "…" : text;
}

/** The row of a call. */
export function row(c: Call): Row {
  const r = {
    id: String(c.id),
    order: Number(c.id),
    caller: cut(c.caller),
    operator: cut(c.operator),
    tool: cut(c.tool),
    edge: cut(c.edge),
    operation: cut(c.operation),
    began: epochMillis(c.began),
    took: millis(c.took),
    upstream: millis(c.upstream),
    code: cut(c.code),
    message: cut(c.message),
    step: cut(c.step),
  };
  const words = [r.id, r.caller, r.operator, r.tool, r.edge, r.operation, r.code, r.message, c.traceId, cut(c.requestId)];
  return { ...r, words: words.join("\n").toLowerCase() };
}

/** The difference of two counts of one tool; all of the counts where the tool is new. */
function difference(now: ToolCounts, before: ToolCounts | undefined): Counted {
  const minus = (a: bigint, b: bigint | undefined) => Math.max(0, Number(a - (b ?? 0n)));
  return {
    calls: minus(now.calls, before?.calls),
    failed: minus(now.failed, before?.failed),
    bounds: now.bounds,
    buckets: now.buckets.map((n, i) => minus(n, before?.buckets[i])),
  };
}

/** The state of the page. It has one reader and one writer, and is not safe beside others. */
export class Store {
  /** The last message; absent until the first. */
  last: WatchResponse | undefined;
  /** Calls in flight at the last message, the oldest first. */
  inFlight: Row[] = [];
  /** Number of calls that ended while the page was open, those that the stream left out included. */
  endedTotal = 0;
  /** Number of calls that ended and that the stream left out. */
  omitted = 0;
  readonly timeline = new Timeline();
  readonly tools = new Map<string, Tool>();
  /** The numbers of all tools together. */
  readonly all = new Series();

  private ended: Row[] = [];
  private known = new Set<string>();
  private deltas: Delta[] = [];
  private lastTime = 0;

  /** Calls that ended, the oldest first; at most maxCalls. */
  calls(): readonly Row[] {
    return this.ended;
  }

  /** Forgets all: the process that the numbers were of is gone. */
  clear() {
    this.last = undefined;
    this.inFlight = [];
    this.ended = [];
    this.known.clear();
    this.endedTotal = 0;
    this.omitted = 0;
    this.tools.clear();
    this.deltas = [];
    this.timeline.clear();
    this.lastTime = 0;
  }

  /**
   * Takes a message of the stream. isFirst says that it is the first of a stream: it repeats calls that the page may know, and
   * may come from another process than the message before. It returns whether it did, in which case all before is forgotten.
   */
  take(m: WatchResponse, isFirst: boolean): boolean {
    const isOther = isFirst && this.last !== undefined && this.isOtherProcess(m);
    if (isOther) this.clear();
    const wasEmpty = this.last === undefined;
    this.last = m;
    this.inFlight = m.inFlight.map(row);
    this.takeEnded(m, isFirst, wasEmpty);
    this.takeCounts(m);
    return isOther;
  }

  private takeEnded(m: WatchResponse, isFirst: boolean, wasEmpty: boolean) {
    let isNew = 0;
    for (const c of m.ended) {
      const r = row(c);
      if (this.known.has(r.id)) continue;
      this.known.add(r.id);
      this.ended.push(r);
      isNew++;
    }
    for (const r of this.ended.splice(0, Math.max(0, this.ended.length - maxCalls))) this.known.delete(r.id);
    // What had ended before the page was opened is in the table, but did not end while it was open.
    if (wasEmpty) return;
    // The first message of a stream leaves out calls that an earlier stream may have sent.
    const omitted = isFirst ? 0 : Number(m.endedOmitted);
    this.omitted += omitted;
    this.endedTotal += isNew + omitted;
  }

  /** Two processes do not start at the same time. */
  private isOtherProcess(m: WatchResponse): boolean {
    const before = this.last?.started;
    return before?.seconds !== m.started?.seconds || before?.nanos !== m.started?.nanos;
  }

  private takeCounts(m: WatchResponse) {
    const time = epochMillis(m.time);
    const elapsed = time - this.lastTime;
    const isKnown = this.lastTime > 0 && elapsed > 0;
    const isGap = !isKnown || elapsed > gapMillis;
    this.lastTime = time;
    const slot = this.timeline.take(time);
    for (const t of this.tools.values()) t.series.set(slot, isGap ? NaN : 0, isGap ? NaN : 0, NaN, NaN);
    const total: Delta = { time, millis: elapsed, calls: 0, failed: 0, bounds: [], buckets: [] };
    for (const counts of m.tools) {
      const before = this.tools.get(counts.name)?.counts;
      const tool = this.tool(counts);
      if (!tool) continue;
      tool.counts = counts;
      // A tool that was not named may have been called before, unless every tool was named.
      if (isGap || (!before && m.tools.length >= maxNamed)) continue;
      const d = difference(counts, before);
      add(total, d);
      sample(tool.series, slot, d, elapsed);
      if (d.calls > 0) tool.activity.push({ time, calls: d.calls });
      while (tool.activity.length > 0 && (tool.activity[0]?.time ?? 0) < time - 60_000) tool.activity.shift();
    }
    if (isGap) {
      this.all.set(slot, NaN, NaN, NaN, NaN);
      this.deltas = [];
      return;
    }
    sample(this.all, slot, total, elapsed);
    this.deltas.push(total);
    while (this.deltas.length > 1 && (this.deltas[0]?.time ?? 0) <= time - rateMillis) this.deltas.shift();
  }

  /** The tool of counts; undefined above the bound. */
  private tool(counts: ToolCounts): Tool | undefined {
    const found = this.tools.get(counts.name);
    if (found || this.tools.size >= maxTools) return found;
    const made: Tool = { name: counts.name, series: new Series(), counts, activity: [] };
    this.tools.set(counts.name, made);
    return made;
  }

  /** Rates of all tools over the last seconds; undefined before two messages have come. */
  rates(): Rates | undefined {
    const sum: Delta = { time: 0, millis: 0, calls: 0, failed: 0, bounds: [], buckets: [] };
    for (const d of this.deltas) {
      sum.millis += d.millis;
      add(sum, d);
    }
    if (sum.millis === 0) return undefined;
    const perSecond = 1000 / sum.millis;
    return { calls: sum.calls * perSecond, failed: sum.failed * perSecond, p50: p(sum, 0.5), p95: p(sum, 0.95), longest: longest(sum) };
  }

  /** Names of tools, those with most calls in the last minute first, then those with most calls. */
  busiest(): string[] {
    const since = epochMillis(this.last?.time) - 60_000;
    const active = (t: Tool) => t.activity.reduce((n, a) => (a.time > since ? n + a.calls : n), 0);
    return [...this.tools.values()]
      .map((t) => ({ name: t.name, active: active(t), calls: Number(t.counts.calls) }))
      .sort((a, b) => b.active - a.active || b.calls - a.calls || (a.name < b.name ? -1 : 1))
      .map((t) => t.name);
  }

  /** Slots of the samples that charts show, the oldest first. */
  slots(): number[] {
    return this.timeline.slots(this.lastTime - historyMillis);
  }
}

function longest(d: Buckets): number {
  return (d.bounds.at(-1) ?? 0) * 1000;
}

/** Sets the sample of a difference. A latency above the last bound is drawn at it. */
function sample(series: Series, slot: number, d: Counted, millis: number) {
  const most = longest(d);
  series.set(slot, (d.calls * 1000) / millis, (d.failed * 1000) / millis, Math.min(p(d, 0.5), most), Math.min(p(d, 0.95), most));
}

function p(d: Buckets, q: number): number {
  return percentile(d.bounds, d.buckets, q) * 1000;
}

function add(sum: Delta, d: Counted) {
  sum.calls += d.calls;
  sum.failed += d.failed;
  // All tools have the same buckets; others could not be added.
  if (sum.bounds.length === 0) sum.bounds = d.bounds;
  if (d.bounds.length !== sum.bounds.length) return;
  d.buckets.forEach((n, i) => (sum.buckets[i] = (sum.buckets[i] ?? 0) + n));
}
