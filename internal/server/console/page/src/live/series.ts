// SPDX-License-Identifier: Apache-2.0
// The charts' numbers: one sample for each message of the stream, in arrays that never grow.

/** How far back charts show, in milliseconds. */
export const historyMillis = 15 * 60 * 1000;

/** Samples that are kept: a second each. */
export const historySamples = 900;

/** Samples further apart than this are not joined: nothing is known of the time between them. */
export const gapMillis = 15_000;

/**
 * The value below which the share q of durations lies, in seconds, from the counts of buckets. Within a bucket durations are
 * taken as spread evenly. NaN without a count; infinite if it lies above the last bound.
 */
export function percentile(bounds: readonly number[], counts: ArrayLike<number>, q: number): number {
  let total = 0;
  for (let i = 0; i < counts.length; i++) total += counts[i] ?? 0;
  if (total === 0) return NaN;
  let rest = q * total;
  for (let i = 0; i < counts.length; i++) {
    const n = counts[i] ?? 0;
    if (n === 0) continue;
    if (rest <= n) {
      const upper = bounds[i];
      if (upper === undefined) return Infinity;
      const lower = i === 0 ? 0 : (bounds[i - 1] ?? 0);
      return lower + (upper - lower) * (rest / n);
    }
    rest -= n;
  }
  return Infinity;
}

/** The values of one tool, by sample. Times are those of the Timeline that it belongs to. */
export class Series {
  readonly calls = new Float32Array(historySamples).fill(NaN);
  readonly failed = new Float32Array(historySamples).fill(NaN);
  readonly p50 = new Float32Array(historySamples).fill(NaN);
  readonly p95 = new Float32Array(historySamples).fill(NaN);

  /** Sets the sample at a slot; all are NaN where nothing is known. */
  set(slot: number, calls: number, failed: number, p50: number, p95: number) {
    this.calls[slot] = calls;
    this.failed[slot] = failed;
    this.p50[slot] = p50;
    this.p95[slot] = p95;
  }
}

/** One value of a series. */
export type Value = "calls" | "failed" | "p50" | "p95";

/** The times of samples, in milliseconds since 1970, in a ring of historySamples slots. */
export class Timeline {
  private readonly times = new Float64Array(historySamples);
  private next = 0;
  private count = 0;

  /** Takes the slot of the next sample; the oldest sample gives way. */
  take(time: number): number {
    const slot = this.next;
    this.times[slot] = time;
    this.next = (slot + 1) % historySamples;
    this.count = Math.min(this.count + 1, historySamples);
    return slot;
  }

  clear() {
    this.next = 0;
    this.count = 0;
  }

  /** Slots of the samples that began at a time or later, the oldest first. */
  slots(since: number): number[] {
    const found: number[] = [];
    for (let i = this.count; i > 0; i--) {
      const slot = (this.next - i + historySamples) % historySamples;
      if ((this.times[slot] ?? 0) >= since) found.push(slot);
    }
    return found;
  }

  /** Times of slots in seconds, as charts take them. */
  seconds(slots: readonly number[]): Float64Array {
    return Float64Array.from(slots, (s) => (this.times[s] ?? 0) / 1000);
  }
}

/** Samples without a call, at most so many, do not break a line of latencies. */
const idleSamples = 15;

/**
 * The values at slots, for charts: null where nothing is known, which breaks the line, and undefined where there was no call for
 * a short time, which does not.
 */
export function values(series: Series, value: Value, slots: readonly number[]): (number | null | undefined)[] {
  const all = series[value];
  const found: (number | null | undefined)[] = [];
  let idle = 0;
  for (const s of slots) {
    const v = all[s];
    const isValue = v !== undefined && Number.isFinite(v);
    const isIdle = !isValue && series.calls[s] === 0;
    idle = isIdle ? idle + 1 : 0;
    found.push(isValue ? v : isIdle ? undefined : null);
    if (idle === idleSamples) found.fill(null, found.length - idleSamples);
    else if (idle > idleSamples) found[found.length - 1] = null;
  }
  return found;
}
