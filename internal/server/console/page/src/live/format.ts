// SPDX-License-Identifier: Apache-2.0
// How times, amounts and names read. Nothing here depends on the page.
import type { Duration, Timestamp } from "@bufbuild/protobuf/wkt";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** Milliseconds of a duration; 0 without one. */
export function millis(d: Duration | undefined): number {
  return d ? Number(d.seconds) * 1000 + d.nanos / 1e6 : 0;
}

/** Milliseconds since 1970 of a time; 0 without one. */
export function epochMillis(t: Timestamp | undefined): number {
  return t ? Number(t.seconds) * 1000 + t.nanos / 1e6 : 0;
}

/** A duration with two or three digits that count: "870 µs", "4.2 ms", "1.25 s", "3 min 5 s". */
export function took(ms: number): string {
  if (!Number.isFinite(ms) || ms < 0) return "–";
  if (ms === 0) return "0 ms";
  if (ms < 0.00995) return `${(ms * 1000).toFixed(1)} µs`;
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 9.95) return `${ms.toFixed(1)} ms`;
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(ms < 9_950 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1000);
  return seconds < 3600 ? `${Math.floor(seconds / 60)} min ${seconds % 60} s` : span(ms);
}

const units: readonly (readonly [name: string, ms: number])[] = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1000],
];

/** A long duration in its largest whole unit: "12 days", "1 hour", "40 seconds". */
export function span(ms: number): string {
  for (const [name, size] of units) {
    const n = Math.floor(ms / size);
    if (n >= 1) return `${whole.format(n)} ${name}${n === 1 ? "" : "s"}`;
  }
  return "less than a second";
}

/** The time of day with milliseconds, in the zone of the reader. */
export function clock(ms: number): string {
  if (ms <= 0) return "–";
  const d = new Date(ms);
  const two = (n: number) => String(n).padStart(2, "0");
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}.${String(d.getMilliseconds()).padStart(3, "0")}`;
}

/** A rate or an amount, short enough for a table: "0", "0.25", "12.4", "3,120". */
export function amount(n: number): string {
  if (!Number.isFinite(n)) return "–";
  if (n === 0) return "0";
  if (Math.abs(n) < 0.995) return n.toFixed(2);
  if (Math.abs(n) < 100 && !Number.isInteger(n)) return n.toFixed(1);
  return whole.format(n);
}

/** A share as a whole percentage; between 0 and 1 percent it reads "< 1 %". */
export function percent(share: number): string {
  if (!Number.isFinite(share)) return "–";
  if (share > 0 && share < 0.01) return "<\u00a01\u00a0%";
  return `${Math.round(share * 100)}\u00a0%`;
}

/** A count with its noun: "1 call", "2 calls". */
export function counted(n: number, noun: string, plural = noun + "s"): string {
  return `${whole.format(n)} ${n === 1 ? noun : plural}`;
}
