// SPDX-License-Identifier: Apache-2.0
// The stream of the sidecar's state, for as long as a page shows it: it is opened again whenever it ends.
import { Code, ConnectError } from "@connectrpc/connect";
import type { WatchResponse } from "../gen/outrigger/admin/v1/admin_pb";

/** Time between messages while the page is seen, and while it is not. */
export const seenMillis = 1000;
export const hiddenMillis = 10_000;

const firstWait = 1000;
const longestWait = 10_000;

/** How the stream is, with the error that ended the last one until there is another. */
export type Link =
  | { readonly state: "connecting"; readonly error?: ConnectError }
  | { readonly state: "here" }
  | { readonly state: "away"; readonly error: ConnectError };

/** What a Watcher needs of the world. */
export interface Source {
  /** Opens the stream. */
  open(intervalMillis: number, signal: AbortSignal): AsyncIterable<WatchResponse>;
  /** The page is not seen. */
  isHidden(): boolean;
  /** Takes a message; isFirst for the first of each stream. */
  take(m: WatchResponse, isFirst: boolean): void;
  /** Is called whenever the link changes. */
  link(l: Link): void;
}

/** The wait before attempt n after a failure, in milliseconds: doubled from a second to ten, less up to a quarter by chance. */
export function wait(n: number, chance: number): number {
  return Math.min(longestWait, firstWait * 2 ** Math.min(n, 10)) * (1 - chance / 4);
}

/** A stream that is kept open until stop. */
export class Watcher {
  private stream: AbortController | undefined;
  private isStopped = false;
  private wake: (() => void) | undefined;

  constructor(private readonly source: Source) {}

  /** Keeps the stream open; it ends after stop. */
  async run(): Promise<void> {
    let failures = 0;
    while (!this.isStopped) {
      const stream = new AbortController();
      this.stream = stream;
      let isFirst = true;
      let error: ConnectError;
      try {
        for await (const m of this.source.open(this.source.isHidden() ? hiddenMillis : seenMillis, stream.signal)) {
          if (this.isStopped) return;
          if (isFirst) this.source.link({ state: "here" });
          this.source.take(m, isFirst);
          isFirst = false;
          failures = 0;
        }
        error = new ConnectError("the sidecar ended the stream", Code.Unavailable);
      } catch (e) {
        error = ConnectError.from(e);
      }
      if (this.isStopped) return;
      // The interval changed: nothing failed.
      if (stream.signal.aborted) continue;
      const pause = wait(failures++, Math.random());
      this.source.link({ state: "away", error });
      await this.sleep(pause);
      if (!this.isStopped) this.source.link({ state: "connecting", error });
    }
  }

  /** Opens the stream again now, with the interval that fits. */
  again() {
    this.stream?.abort();
    this.wake?.();
  }

  /** Ends the stream for good. */
  stop() {
    this.isStopped = true;
    this.again();
  }

  private sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
