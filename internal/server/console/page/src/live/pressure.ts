// SPDX-License-Identifier: Apache-2.0
// The limits of the configuration.
import type { Limit } from "../gen/outrigger/admin/v1/admin_pb";
import { formatBytes } from "../ui";
import { amount, took } from "./format";

/** The share of a limit that is in use; 0 for one that has no amount. */
export function pressure(l: Limit): number {
  return l.used !== undefined && l.most > 0 ? l.used / l.most : 0;
}

/** Limits with the one under most pressure first: by the share in use, then by what was refused. */
export function byPressure(limits: readonly Limit[]): Limit[] {
  return [...limits].sort((a, b) => pressure(b) - pressure(a) || Number(b.refused - a.refused) || (a.name < b.name ? -1 : 1));
}

/** An amount of a limit with its unit, which is in the limit's name: times are in seconds, sizes in bytes. */
export function limitText(name: string, n: number): string {
  if (/_(wait|ttl|timeout|time|age|interval|grace)$/.test(name)) return took(1000 * n);
  if (name.endsWith("_bytes")) return formatBytes(n);
  if (name.endsWith("_percent")) return `${amount(n)} %`;
  if (name.endsWith("_rate")) return n === 0 ? "none" : `${amount(n)}/s`;
  return amount(n);
}
