// SPDX-License-Identifier: Apache-2.0
// What the page says of calls that wait for approval. Nothing here depends on the page.
import type { Approval } from "../gen/outrigger/admin/v1/admin_pb";
import { epochMillis, span } from "./format";

/** Approvals that were decided and are shown: the newest. */
const maxDecided = 20;

/** Bytes that a reason may have. */
export const maxReason = 1024;

/** Those that wait, the oldest first, and those that do not, the newest first. */
export function split(all: readonly Approval[]): { waiting: Approval[]; over: Approval[] } {
  const waiting = all.filter((a) => a.state === "waiting");
  const over = all.filter((a) => a.state !== "waiting").reverse();
  return { waiting, over: over.slice(0, maxDecided) };
}

/** How many approved of how many that must: "1 of 2". */
export function agreed(a: Approval): string {
  return `${a.decisions.filter((d) => d.approved).length} of ${a.needed}`;
}

/** How long a call has waited. */
export function age(a: Approval, now: number): string {
  return span(Math.max(0, now - epochMillis(a.created)));
}

/** When it expires: "in 2 hours", "now". */
export function expiry(a: Approval, now: number): string {
  const left = epochMillis(a.expires) - now;
  return left <= 0 ? "now" : "in " + span(left);
}

/** Why a reason cannot be sent; empty if it can. */
export function reasonFault(reason: string): string {
  const size = new TextEncoder().encode(reason.trim()).length;
  if (size === 0) return "Say why: the audit trail keeps it, and the requester may see it.";
  return size > maxReason ? `The reason has ${size} bytes; at most ${maxReason} are kept.` : "";
}

/** What came of a decision. */
export function outcome(a: Approval): string {
  switch (a.state) {
    case "waiting":
      return `You approved; ${agreed(a)} so far.`;
    case "denied":
      return "You denied the call; it will not run.";
    case "approved":
    case "running":
    case "done":
      return `You approved; ${agreed(a)}, so the call runs.`;
    default:
      return `The call is ${a.state}.`;
  }
}
