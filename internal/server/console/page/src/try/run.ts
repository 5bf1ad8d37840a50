// SPDX-License-Identifier: Apache-2.0
// The state of one call while the page shows it.
import { signal, type Signal } from "@preact/signals";
import { api, note, signedOut } from "../api";
import { followItems, noItems, type Seen as SeenItems } from "../items";
import { call, type CallOptions, type LogLine, type Outcome, type Progress, type Task } from "../mcp/client";
import { readMessage, type Answer, type Question } from "../mcp/wire";

const maxLines = 1_000;
const maxMessages = 400;
const maxMessageChars = 16_384;
const logEveryMs = 100;
// How long the call waits for the watch to be on, and for how many messages of the watch its number is looked for after its end.
const watchFirstMs = 400;
const looksAfterEnd = 2;

export interface Asked {
  question: Question;
  answer(a: Answer): void;
}

export interface Sent {
  direction: "sent" | "received";
  at: number;
  raw: string;
  length: number;
}

/** What is known of a call. Lists are bounded: the oldest go, and are counted. */
export interface Seen {
  began: number;
  ended: number;
  progress: Progress | undefined;
  progressCount: number;
  logs: LogLine[];
  logsDropped: number;
  /** Items of a stream so far. */
  items: SeenItems;
  task: Task | undefined;
  id: string;
  messages: Sent[];
  messagesDropped: number;
  questions: Asked[];
  outcome: Outcome | undefined;
  /** Why there is no outcome. */
  failure: string;
  isCancelling: boolean;
  caller: string;
  revision: string;
}

export interface RunOptions extends Omit<CallOptions, "watcher" | "cancel" | "leave"> {
  /** The tool answers with a stream. */
  streams: boolean;
}

export class Run {
  readonly seen: Signal<Seen>;
  private readonly cancelling = new AbortController();
  private readonly leaving = new AbortController();
  private next: Seen;
  /** The ids of the requests, by which the sidecar knows the call too. */
  private readonly ids = new Set<string>();
  private following: AbortController | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly o: RunOptions) {
    this.next = {
      began: performance.now(),
      ended: 0,
      progress: undefined,
      progressCount: 0,
      logs: [],
      logsDropped: 0,
      items: noItems,
      task: undefined,
      id: "",
      messages: [],
      messagesDropped: 0,
      questions: [],
      outcome: undefined,
      failure: "",
      isCancelling: false,
      caller: o.caller,
      revision: o.revision,
    };
    this.seen = signal(this.next);
  }

  /** Changes what is shown, at most every tenth of a second unless it matters at once. */
  private change(c: Partial<Seen>, now = false): void {
    this.next = { ...this.next, ...c };
    if (now) {
      clearTimeout(this.timer);
      this.timer = undefined;
      this.seen.value = this.next;
    } else {
      this.timer ??= setTimeout(() => {
        this.timer = undefined;
        this.seen.value = this.next;
      }, logEveryMs);
    }
  }

  /**
   * Watches the sidecar while the call runs: then it keeps the call, with its steps, and says its number. Resolves once it watches,
   * or cannot; the call needs none of it.
   */
  private watch(): Promise<void> {
    return new Promise((watching) => {
      setTimeout(watching, watchFirstMs);
      const look = async () => {
        let left = looksAfterEnd;
        for await (const now of api.watch({ interval: { seconds: 1n } }, { signal: this.leaving.signal })) {
          watching();
          for (const c of [...now.ended, ...now.inFlight]) {
            // A message may have an earlier round than the last one that is known.
            if (this.ids.has(c.requestId) && c.id > BigInt(this.next.id || 0)) this.known(String(c.id));
          }
          if (this.next.ended > 0 && (this.next.id !== "" || --left === 0)) return;
        }
      };
      void look().catch(() => watching());
    });
  }

  private sent(raw: string): void {
    const m = readMessage(raw);
    if (m?.kind === "request" && m.method === "tools/call" && typeof m.id === "string") this.ids.add(m.id);
  }

  /** Takes the number of the call. Items of a stream are looked for from then on. */
  private known(id: string): void {
    const isNew = id !== this.next.id;
    this.change({ id });
    if (!isNew || !this.o.streams || this.next.ended > 0) return;
    // A call of several rounds has several numbers: the items are those of the last one.
    this.following?.abort();
    this.following = new AbortController();
    void followItems(BigInt(id), AbortSignal.any([this.following.signal, this.leaving.signal]), (items) => this.change({ items }));
  }

  async start(): Promise<void> {
    await this.watch();
    this.change({ began: performance.now() });
    try {
      const outcome = await call({
        ...this.o,
        cancel: this.cancelling.signal,
        leave: this.leaving.signal,
        watcher: {
          progress: (progress) => this.change({ progress, progressCount: this.next.progressCount + 1 }),
          log: (l) => {
            const logs = [...this.next.logs, l].slice(-maxLines);
            this.change({ logs, logsDropped: this.next.logsDropped + this.next.logs.length + 1 - logs.length });
          },
          task: (task) => this.change({ task }, true),
          id: (id) => this.known(id),
          message: (direction, raw) => {
            if (direction === "sent") this.sent(raw);
            const sent: Sent = { direction, raw: raw.slice(0, maxMessageChars), length: raw.length, at: performance.now() - this.next.began };
            const messages = [...this.next.messages, sent].slice(-maxMessages);
            this.change({ messages, messagesDropped: this.next.messagesDropped + this.next.messages.length + 1 - messages.length });
          },
          ask: (question, ends) => this.ask(question, ends),
        },
      });
      if (outcome.kind === "refused" && outcome.status === 401) signedOut.value = true;
      this.change({ outcome }, true);
    } catch (cause) {
      note(cause);
      this.change({ failure: cause instanceof TypeError ? "The sidecar did not answer. Whether the call happened is not known." : String(cause) }, true);
    }
    this.following?.abort();
    this.change({ ended: performance.now(), questions: [] }, true);
  }

  private ask(question: Question, ends: AbortSignal): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const done = () => this.change({ questions: this.next.questions.filter((a) => a !== asked) }, true);
      const end = () => {
        done();
        reject(ends.reason);
      };
      const asked: Asked = {
        question,
        answer: (a) => {
          ends.removeEventListener("abort", end);
          done();
          resolve(a);
        },
      };
      if (ends.aborted) return reject(ends.reason);
      ends.addEventListener("abort", end, { once: true });
      this.change({ questions: [...this.next.questions, asked] }, true);
    });
  }

  cancel(): void {
    // A second time does not wait for the end of a task.
    if (this.next.isCancelling) this.leave();
    this.change({ isCancelling: true }, true);
    this.cancelling.abort();
  }

  leave(): void {
    this.leaving.abort();
  }
}
