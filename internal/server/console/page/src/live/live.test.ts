// SPDX-License-Identifier: Apache-2.0
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import assert from "node:assert/strict";
import { test } from "node:test";
import { CallSchema, LimitSchema, ToolCountsSchema, WatchResponseSchema, type Call, type ToolCounts, type WatchResponse } from "../gen/outrigger/admin/v1/admin_pb";
import { formatFilter, noFilter, parseFilter, select, type Filter } from "./filter";
import { amount, counted, percent, span, took } from "./format";
import { byPressure, limitText } from "./pressure";
import { historySamples, percentile, Series, Timeline, values } from "./series";
import { maxCalls, Store } from "./store";
import { wait, Watcher, type Source } from "./watch";

/** A call that ended well. */
const call = (id: number, more: MessageInitShape<typeof CallSchema> = {}): Call =>
  create(CallSchema, {
    id: BigInt(id),
    caller: "agent",
    tool: "lab.echo",
    edge: "mcp",
    operation: "call",
    began: timestampFromMs(1_000_000 + id),
    took: durationFromMs(5),
    upstream: durationFromMs(3),
    code: "OK",
    ...more,
  });

const counts = (name: string, calls: number, failed: number, buckets: number[]): ToolCounts =>
  create(ToolCountsSchema, { name, calls: BigInt(calls), failed: BigInt(failed), bounds: [0.01, 0.1, 1], buckets: buckets.map(BigInt) });

const message = (ms: number, more: MessageInitShape<typeof WatchResponseSchema> = {}): WatchResponse =>
  create(WatchResponseSchema, { time: timestampFromMs(ms), ...more });

const ids = (s: Store) => s.calls().map((r) => r.id);
const series = (s: Store, name: string) => s.tools.get(name)?.series ?? new Series();

test("a stream that is opened again repeats no call", () => {
  const s = new Store();
  s.take(message(1000, { ended: [call(1), call(2)] }), true);
  s.take(message(2000, { ended: [call(3)] }), false);
  assert.equal(s.take(message(9000, { ended: [call(2), call(3), call(4)] }), true), false);
  assert.deepEqual(ids(s), ["1", "2", "3", "4"]);
});

test("what ended before the page was opened is shown and not counted", () => {
  const s = new Store();
  s.take(message(1000, { ended: [call(1), call(2)] }), true);
  assert.equal(s.endedTotal, 0);
  s.take(message(2000, { ended: [call(3)], endedOmitted: 7n }), false);
  assert.equal(s.endedTotal, 8);
  assert.equal(s.omitted, 7);
});

test("what a new stream leaves out is not what ended since", () => {
  const s = new Store();
  s.take(message(1000, { ended: [call(1)], endedOmitted: 300n }), true);
  s.take(message(2000, { ended: [call(2)] }), false);
  s.take(message(3000, { ended: [call(2), call(3)], endedOmitted: 301n }), true);
  assert.equal(s.omitted, 0);
  assert.equal(s.endedTotal, 2);
});

test("a process that started at another time clears the page", () => {
  const started = timestampFromMs(500);
  const cases: [name: string, first: WatchResponse, isOther: boolean][] = [
    ["the same process", message(9000, { started, ended: [call(1)] }), false],
    ["the same process, which left out the newest calls", message(9000, { started, ended: [call(2)], endedOmitted: 9n }), false],
    ["another one", message(9000, { started: timestampFromMs(8000), ended: [call(1)] }), true],
    ["another one within a millisecond", message(9000, { started: { ...started, nanos: started.nanos + 1 } }), true],
    ["one that does not say it", message(9000), true],
  ];
  for (const [name, first, isOther] of cases) {
    const s = new Store();
    s.take(message(1000, { started, ended: [call(7)] }), true);
    assert.equal(s.take(first, true), isOther, name);
    const now = first.ended.map((c) => String(c.id));
    assert.deepEqual(ids(s), isOther ? now : ["7", ...now], name);
    assert.equal(s.endedTotal, isOther ? 0 : now.length, name);
  }
});

test("calls that are kept have a bound", () => {
  const s = new Store();
  s.take(message(1000), true);
  for (let i = 0; i < 50; i++) {
    s.take(message(2000 + i * 1000, { ended: Array.from({ length: 200 }, (_, n) => call(i * 200 + n + 1)) }), false);
  }
  assert.equal(s.calls().length, maxCalls);
  assert.equal(ids(s)[0], String(10_000 - maxCalls + 1));
  assert.equal(s.endedTotal, 10_000);
});

test("texts in rows have a bound", () => {
  const s = new Store();
  s.take(message(1000, { ended: [call(1, { message: "x".repeat(1 << 20), tool: "y".repeat(1 << 20) })] }), true);
  const r = s.calls()[0]!;
  assert.ok(r.message.length < 400 && r.tool.length < 400 && r.words.length < 2000);
});

test("rates are differences over the time that passed", () => {
  const s = new Store();
  s.take(message(1000, { tools: [counts("lab.echo", 100, 10, [50, 50, 0, 0])] }), true);
  assert.equal(s.rates(), undefined);
  s.take(message(3000, { tools: [counts("lab.echo", 120, 14, [60, 60, 0, 0])] }), false);
  const r = s.rates()!;
  assert.equal(r.calls, 10);
  assert.equal(r.failed, 2);
  assert.ok(Math.abs(r.p50 - 10) < 1e-9);
  assert.ok(r.p95 > 80 && r.p95 <= 100);
  const slots = s.slots();
  assert.deepEqual(values(series(s, "lab.echo"), "calls", slots), [null, 10]);
});

test("rates forget what is more than ten seconds old", () => {
  const s = new Store();
  for (let i = 0; i < 30; i++) {
    s.take(message(1000 * (i + 1), { tools: [counts("a", i < 5 ? i * 100 : 400, 0, [i < 5 ? i * 100 : 400, 0, 0, 0])] }), i === 0);
  }
  assert.equal(s.rates()!.calls, 0);
});

test("a time that nothing is known of is a gap", () => {
  const s = new Store();
  s.take(message(1000, { tools: [counts("a", 1, 0, [1, 0, 0, 0])] }), true);
  s.take(message(2000, { tools: [counts("a", 2, 0, [2, 0, 0, 0])] }), false);
  s.take(message(60_000, { tools: [counts("a", 900, 0, [900, 0, 0, 0])] }), true);
  s.take(message(61_000, { tools: [counts("a", 901, 0, [901, 0, 0, 0])] }), false);
  assert.deepEqual(values(series(s, "a"), "calls", s.slots()), [null, 1, null, 1]);
});

test("a tool that is new has all its calls, unless the message left tools out", () => {
  const s = new Store();
  s.take(message(1000, { tools: [counts("a", 1, 0, [1, 0, 0, 0])] }), true);
  s.take(message(2000, { tools: [counts("a", 1, 0, [1, 0, 0, 0]), counts("b", 4, 0, [4, 0, 0, 0])] }), false);
  assert.equal(s.rates()!.calls, 4);
  const many = (n: number) => Array.from({ length: 256 }, (_, i) => counts("t" + (i + n), 1, 0, [1, 0, 0, 0]));
  const full = new Store();
  full.take(message(1000, { tools: many(0) }), true);
  full.take(message(2000, { tools: many(10) }), false);
  assert.equal(full.rates()!.calls, 0);
});

test("tools have a bound", () => {
  const s = new Store();
  for (let i = 0; i < 20; i++) {
    s.take(message(1000 * i + 1000, { tools: Array.from({ length: 256 }, (_, n) => counts(`t${i}.${n}`, 1, 0, [1, 0, 0, 0])) }), false);
  }
  assert.equal(s.tools.size, 512);
});

test("the busiest tools are those of the last minute", () => {
  const s = new Store();
  const take = (ms: number, a: number, b: number) => s.take(message(ms, { tools: [counts("a", a, 0, [a, 0, 0, 0]), counts("b", b, 0, [b, 0, 0, 0])] }), false);
  take(1000, 1000, 1);
  take(2000, 1000, 2);
  assert.deepEqual(s.busiest(), ["b", "a"]);
  take(3000, 1010, 2);
  assert.deepEqual(s.busiest(), ["a", "b"]);
});

test("percentile", () => {
  const bounds = [1, 2, 4];
  assert.ok(Number.isNaN(percentile(bounds, [0, 0, 0, 0], 0.5)));
  assert.equal(percentile(bounds, [0, 10, 0, 0], 0.5), 1.5);
  assert.equal(percentile(bounds, [10, 0, 0, 0], 0.5), 0.5);
  assert.equal(percentile(bounds, [0, 0, 0, 3], 0.5), Infinity);
  assert.equal(percentile(bounds, [5, 0, 5, 0], 0.95), 3.8);
});

test("a timeline keeps its newest samples", () => {
  const t = new Timeline();
  for (let i = 1; i <= historySamples + 5; i++) t.take(i * 1000);
  const slots = t.slots(0);
  assert.equal(slots.length, historySamples);
  assert.equal(t.seconds(slots)[0], 6);
  assert.equal(t.seconds(slots).at(-1), historySamples + 5);
  assert.equal(t.slots(historySamples * 1000).length, 6);
});

test("values that are not finite are absent", () => {
  const s = new Series();
  s.set(0, 1, 0, NaN, Infinity);
  assert.deepEqual(values(s, "p95", [0, 1]), [null, null]);
});

test("filters select and order", () => {
  const s = new Store();
  s.take(message(1000, {
    inFlight: [call(9, { code: "", step: "unary" })],
    ended: [
      call(1, { code: "TIMEOUT", message: "The backend took too long", took: durationFromMs(500), upstream: durationFromMs(499) }),
      call(2, { caller: "", tool: "lab.sum", edge: "rpc" }),
      call(3, { took: durationFromMs(70) }),
    ],
  }), true);
  const rows = [...s.inFlight, ...s.calls()];
  const shown = (f: Partial<Filter>) => select(rows, { ...noFilter, ...f }).map((r) => r.id);
  assert.deepEqual(shown({}), ["9", "1", "3", "2"]);
  assert.deepEqual(shown({ failures: true }), ["1"]);
  assert.deepEqual(shown({ caller: "anonymous" }), ["2"]);
  assert.deepEqual(shown({ tool: "lab.sum" }), ["2"]);
  assert.deepEqual(shown({ edge: "rpc" }), ["2"]);
  assert.deepEqual(shown({ text: "TOO  long" }), ["1"]);
  assert.deepEqual(shown({ sort: "took" }), ["1", "3", "9", "2"]);
  assert.deepEqual(shown({ sort: "took", ascending: true }), ["9", "2", "3", "1"]);
  assert.deepEqual(shown({ sort: "sidecar" }), ["3", "9", "2", "1"]);
});

test("a filter survives the address", () => {
  const f: Filter = { text: "a & b", tool: "lab.echo", caller: "x=y", edge: "mcp", failures: true, sort: "took", ascending: true };
  assert.deepEqual(parseFilter(formatFilter(f)), f);
  assert.equal(formatFilter(noFilter), "");
  assert.deepEqual(parseFilter("?sort=nonsense&failures=yes&x=1"), noFilter);
  assert.equal(parseFilter("?q=" + "x".repeat(9999)).text.length, 500);
});

test("formats", () => {
  assert.deepEqual([0, 0.001, 0.4567, 4.21, 421, 9_949, 1250, 65_000, 3_600_000].map(took),
    ["0 ms", "1.0 µs", "457 µs", "4.2 ms", "421 ms", "9.95 s", "1.25 s", "1 min 5 s", "1 hour"]);
  assert.deepEqual([500, 1000, 86_400_000 * 12].map(span), ["less than a second", "1 second", "12 days"]);
  assert.deepEqual([0, 0.25, 12.44, 3120, NaN].map(amount), ["0", "0.25", "12.4", "3,120", "–"]);
  assert.deepEqual([0, 0.001, 0.5, 1].map(percent), ["0\u00a0%", "<\u00a01\u00a0%", "50\u00a0%", "100\u00a0%"]);
  assert.equal(counted(1, "call"), "1 call");
  assert.equal(counted(1200, "call"), "1,200 calls");
});

test("waits grow to a bound", () => {
  assert.deepEqual([0, 1, 2, 3, 4, 99].map((n) => wait(n, 0)), [1000, 2000, 4000, 8000, 10_000, 10_000]);
  assert.equal(wait(0, 1), 750);
});

/** A source whose streams a test plays, one for each time that one is opened; after them, streams without a message. */
function played(plays: (() => AsyncIterable<WatchResponse>)[]) {
  const log = { intervals: [] as number[], links: [] as string[], taken: [] as [number, boolean][], isHidden: false };
  const source: Source = {
    open: (interval, signal) => {
      log.intervals.push(interval);
      return plays[log.intervals.length - 1]?.() ?? silent(signal);
    },
    isHidden: () => log.isHidden,
    take: (m, isFirst) => log.taken.push([m.watchers, isFirst]),
    link: (l) => log.links.push(l.state),
  };
  return { source, log };
}

/** A stream without a message, until it is aborted. */
async function* silent(signal: AbortSignal): AsyncGenerator<WatchResponse> {
  await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  yield message(0);
}

const settle = () => new Promise((r) => setTimeout(r, 5));

test("a stream that ends is opened again, and each begins with a first message", async () => {
  const { source, log } = played([
    async function* () {
      yield message(0, { watchers: 1 });
      yield message(0, { watchers: 2 });
      throw new Error("gone");
    },
    async function* () {
      yield message(0, { watchers: 3 });
    },
  ]);
  const w = new Watcher(source);
  const done = w.run();
  await settle();
  assert.deepEqual(log.links, ["here", "away"]);
  w.again();
  await settle();
  assert.deepEqual(log.taken, [
    [1, true],
    [2, false],
    [3, true],
  ]);
  assert.deepEqual(log.links, ["here", "away", "connecting", "here", "away"]);
  w.stop();
  await done;
});

test("a page that is hidden asks for less, without an error", async () => {
  const { source, log } = played([]);
  const w = new Watcher(source);
  const done = w.run();
  await settle();
  log.isHidden = true;
  w.again();
  await settle();
  assert.deepEqual(log.intervals, [1000, 10_000]);
  assert.deepEqual(log.links, []);
  w.stop();
  await done;
});

test("limits under most pressure come first", () => {
  const limit = (name: string, used: number | undefined, most: number, refused = 0) =>
    create(LimitSchema, { name, most, refused: BigInt(refused), ...(used === undefined ? {} : { used }) });
  const limits = [limit("a", 1, 10), limit("b", undefined, 10, 4), limit("c", 9, 10), limit("d", 5, 0), limit("e", undefined, 10)];
  assert.deepEqual(byPressure(limits).map((l) => l.name), ["c", "a", "b", "d", "e"]);
});

test("amounts of limits have units", () => {
  assert.equal(limitText("max_queue_wait", 2.5), "2.50 s");
  assert.equal(limitText("held_ttl", 600), "10 min 0 s");
  assert.equal(limitText("max_message_bytes", 4_000_000), "4.0 MB");
  assert.equal(limitText("caller_share_percent", 80), "80 %");
  assert.equal(limitText("caller_rate", 0), "none");
  assert.equal(limitText("tool_rate", 2.5), "2.5/s");
  assert.equal(limitText("max_sessions", 1000), "1,000");
});

test("idle seconds do not break a line, and longer ones do", () => {
  const s = new Store();
  const calls = (at: number) => (at < 3 ? at : at < 6 ? 3 : at < 40 ? 4 : 5);
  for (let i = 0; i < 45; i++) s.take(message(1000 * (i + 1), { tools: [counts("a", calls(i), 0, [calls(i), 0, 0, 0])] }), i === 0);
  const p50 = values(series(s, "a"), "p50", s.slots());
  assert.deepEqual(p50.slice(0, 8), [null, 5, 5, 5, undefined, undefined, 5, null]);
  assert.deepEqual(p50.slice(38), [null, null, 5, undefined, undefined, undefined, undefined]);
});
