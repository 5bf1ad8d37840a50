// SPDX-License-Identifier: Apache-2.0
// Items of a stream while it runs, as the sidecar keeps them for the operator that called it.
import { api, note } from "./api";
import type { ListStreamItemsResponse, StreamItem } from "./gen/outrigger/admin/v1/admin_pb";
import { formatBytes, formatCount, Text } from "./ui";

/** Items that the page keeps of one stream, and time between looks, in milliseconds. */
export const maxItems = 200;
const lookMs = 500;

/** The last items of a stream, and how many came before them and are gone. */
export interface Seen {
  readonly items: readonly StreamItem[];
  readonly dropped: number;
}

export const noItems: Seen = { items: [], dropped: 0 };

/** What is known once an answer of the sidecar has come: the oldest give way. */
export function withAnswer(before: Seen, r: ListStreamItemsResponse): Seen {
  const items = [...before.items, ...r.items];
  const over = Math.max(0, items.length - maxItems);
  return { items: items.slice(over), dropped: before.dropped + over + Number(r.omitted) };
}

/** Looks for items of a call until it has ended or signal ends it; changed gets all that are known whenever there are more. */
export async function followItems(callId: bigint, signal: AbortSignal, changed: (s: Seen) => void): Promise<void> {
  let seen = noItems;
  while (!signal.aborted) {
    try {
      const r = await api.listStreamItems({ callId, after: seen.items.at(-1)?.number ?? 0n }, { signal, timeoutMs: 10_000 });
      if (r.ended) return;
      if (r.items.length > 0) changed((seen = withAnswer(seen, r)));
    } catch (cause) {
      if (!signal.aborted) note(cause);
    }
    await new Promise((resolve) => setTimeout(resolve, lookMs));
  }
}

/** The items, the newest at the top. */
export function Items(props: { seen: Seen }) {
  const { items, dropped } = props.seen;
  if (items.length === 0) return null;
  return (
    <section class="stack tight" aria-label="Items so far">
      <h2>
        Items so far: {formatCount(items.at(-1)!.number)}
        {dropped > 0 && <span class="dim small"> ({formatCount(dropped)} earlier ones are not shown)</span>}
      </h2>
      <ol class="lines mono small" tabIndex={0} aria-label="Items, the newest first">
        {items.toReversed().map((i) => (
          <li key={i.number}>
            <span class="dim">{formatCount(i.number)}</span> <Text text={i.json} max={1_000} />
            {i.size > 4096n && <span class="dim"> ({formatBytes(Number(i.size))} in all)</span>}
          </li>
        ))}
      </ol>
    </section>
  );
}
