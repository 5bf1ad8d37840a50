// SPDX-License-Identifier: Apache-2.0
import type { Limit } from "../gen/outrigger/admin/v1/admin_pb";

/** The share of a limit that is in use; 0 for one that has no amount. */
export function pressure(l: Limit): number {
  return l.used !== undefined && l.most > 0 ? l.used / l.most : 0;
}

/** Limits with the one under most pressure first: by the share in use, then by what was refused. */
export function byPressure(limits: readonly Limit[]): Limit[] {
  return [...limits].sort((a, b) => pressure(b) - pressure(a) || Number(b.refused - a.refused) || (a.name < b.name ? -1 : 1));
}
