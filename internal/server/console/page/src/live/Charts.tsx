// SPDX-License-Identifier: Apache-2.0
import { useEffect, useRef, useState } from "preact/hooks";
import { toolPath } from "../router";
import { Button, ErrorNote, Text, visible } from "../ui";
import { useMedia } from "./Calls";
import { amount, clock, took } from "./format";
import type { Line, plot as plotFunction } from "./plot";
import { values, type Series, type Value } from "./series";
import { store, tick } from "./stream";

/** Charts that are shown unless tools are chosen. */
const busiest = 12;

/** The most charts at once. */
const most = 48;

/** What counts are of that are no tool's: those beyond the bound of metrics, and calls that named no tool there is. */
const labels = new Map([
  ["other", "All other tools"],
  ["", "No such tool"],
]);

const accent: Line = { color: "var(--accent)", isDashed: false, isFilled: true };
const bad: Line = { color: "var(--bad)", isDashed: true, isFilled: false };
const half: Line = { color: "var(--ok)", isDashed: false, isFilled: false };
const high: Line = { color: "var(--warn)", isDashed: true, isFilled: false };

interface Kind {
  readonly title: string;
  readonly lines: readonly [Line, Line];
  readonly values: readonly [Value, Value];
  readonly names: readonly [string, string];
  readonly format: (n: number) => string;
  readonly isLog: boolean;
}

const rate: Kind = { title: "Calls per second", lines: [accent, bad], values: ["calls", "failed"], names: ["calls", "errors"], format: amount, isLog: false };
const time: Kind = { title: "Latency, log scale", lines: [half, high], values: ["p50", "p95"], names: ["p50", "p95"], format: took, isLog: true };

/** Charts of throughput, errors and latency: of all tools, of the busiest, or of those that are chosen. */
export function Charts(props: { onTool: (name: string) => void }) {
  void tick.value;
  const [chosen, setChosen] = useState<readonly string[]>();
  const [ranked, setRanked] = useState<readonly string[]>([]);
  const order = store.busiest();
  // The charts keep their places, so that they can be read; the busiest are found again when that is asked for.
  const kept = ranked.filter((n) => store.tools.has(n));
  const auto = [...kept, ...order.filter((n) => !kept.includes(n))].slice(0, busiest);
  useEffect(() => {
    if (auto.join("\n") !== ranked.join("\n")) setRanked(auto);
  });
  const names = chosen?.filter((n) => store.tools.has(n)) ?? auto;
  return (
    <section class="stack" aria-labelledby="charts">
      <div class="row between">
        <h2 id="charts">Throughput, errors and latency</h2>
        {chosen ? (
          <Button kind="quiet" onClick={() => setChosen(undefined)}>
            Show the busiest
          </Button>
        ) : (
          <Button kind="quiet" onClick={() => setRanked(order.slice(0, busiest))}>
            Order by calls of the last minute
          </Button>
        )}
      </div>
      <Chooser order={order} shown={names} onChoose={setChosen} />
      <div class="charts">
        <Card name="All tools" series={store.all} />
        {names.map((n) => {
          const tool = store.tools.get(n);
          return tool && <Card key={n} name={n} series={tool.series} isTool={!labels.has(n)} onTool={props.onTool} />;
        })}
      </div>
    </section>
  );
}

/** Tools that the list of choices shows at most. */
const maxListed = 100;

function Chooser(props: { order: string[]; shown: readonly string[]; onChoose: (names: string[]) => void }) {
  const [isOpen, setOpen] = useState(false);
  const [text, setText] = useState("");
  const fit = isOpen ? [...props.order].sort().filter((n) => n.toLowerCase().includes(text.toLowerCase())) : [];
  const isFull = props.shown.length >= most;
  return (
    <details open={isOpen} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Choose tools</summary>
      {isOpen && (
        <fieldset class="choose stack tight">
          <legend class="unseen">Tools with charts, at most {most}</legend>
          <input
            type="search"
            aria-label="Find a tool"
            placeholder="Find a tool"
            spellcheck={false}
            maxLength={200}
            value={text}
            onInput={(e) => setText(e.currentTarget.value)}
          />
          <div class="names">
            {fit.slice(0, maxListed).map((n) => {
              const isShown = props.shown.includes(n);
              const toggle = () => props.onChoose(isShown ? props.shown.filter((s) => s !== n) : [...props.shown, n]);
              return (
                <label key={n} class="row check">
                  <input type="checkbox" checked={isShown} disabled={isFull && !isShown} onChange={toggle} />
                  <Text text={labels.get(n) ?? n} max={120} />
                </label>
              );
            })}
          </div>
          {fit.length === 0 && <p class="dim">No tool that was called has such a name.</p>}
          {fit.length > maxListed && <p class="dim">{fit.length - maxListed} more: write a part of the name.</p>}
        </fieldset>
      )}
    </details>
  );
}

function Card(props: { name: string; series: Series; isTool?: boolean; onTool?: (name: string) => void }) {
  return (
    <article class="card chart" aria-label={visible((labels.get(props.name) ?? props.name).slice(0, 200))}>
      <div class="row between">
        <h3>
          {props.isTool ? (
            <a href={toolPath(props.name)}>
              <Text text={props.name} max={80} />
            </a>
          ) : (
            <Text text={labels.get(props.name) ?? props.name} max={80} />
          )}
        </h3>
        {props.isTool && (
          <Button kind="quiet" onClick={() => props.onTool?.(props.name)}>
            Its calls
          </Button>
        )}
      </div>
      <Chart kind={rate} series={props.series} name={props.name} />
      <Chart kind={time} series={props.series} name={props.name} />
    </article>
  );
}

/** One chart, drawn only while it is seen. Its caption says in words what it shows now, or under the pointer. */
function Chart(props: { kind: Kind; series: Series; name: string }) {
  const { kind, series } = props;
  const version = tick.value;
  const el = useRef<HTMLDivElement>(null);
  const drawn = useRef<ReturnType<typeof plotFunction> | undefined>(undefined);
  const [isReady, setReady] = useState(false);
  const [hasFailed, setFailed] = useState(false);
  const [hover, setHover] = useState<number>();
  const isDark = useMedia("(prefers-color-scheme: dark)");
  const isSeen = useSeen(el);

  useEffect(() => {
    const at = el.current;
    if (!isSeen || !at) return;
    let isGone = false;
    import("./plot").then(
      ({ plot }) => {
        if (isGone) return;
        drawn.current = plot(at, { lines: kind.lines, value: kind.format, isLog: kind.isLog, onHover: setHover });
        setReady(true);
      },
      () => setFailed(true),
    );
    const observer = new ResizeObserver(() => drawn.current?.setSize({ width: Math.max(120, at.clientWidth), height: drawn.current.height }));
    observer.observe(at);
    return () => {
      isGone = true;
      observer.disconnect();
      drawn.current?.destroy();
      drawn.current = undefined;
      setReady(false);
    };
  }, [isSeen, isDark]);

  const slots = isSeen ? store.slots() : [];
  const x = store.timeline.seconds(slots);
  const a = values(series, kind.values[0], slots);
  const b = values(series, kind.values[1], slots);
  useEffect(() => {
    const chart = drawn.current;
    if (!chart || !isReady) return;
    chart.setData([x, a, b], false);
    const now = x.at(-1) ?? 0;
    chart.batch(() => {
      chart.setScale("x", { min: Math.min(x[0] ?? now, now - 60), max: now });
    });
  }, [version, isReady]);

  const at = hover !== undefined && hover < slots.length ? hover : slots.length - 1;
  const shown = (v: number | null | undefined) => (v === null || v === undefined ? "–" : kind.format(v));
  const when = hover === undefined ? "" : ` at ${clock((x[at] ?? 0) * 1000).slice(0, 8)}`;
  const highest = a.reduce<number>((m, v) => Math.max(m, v ?? 0), 0);
  return (
    <figure>
      <figcaption class="small">
        <span class="dim">
          {kind.title}
          {when}:{" "}
        </span>
        <span class="sign">
          <Key line={kind.lines[0]} /> {kind.names[0]} {shown(a[at])}
        </span>{" "}
        <span class="sign">
          <Key line={kind.lines[1]} /> {kind.names[1]} {shown(b[at])}
        </span>
      </figcaption>
      <div
        class="plot"
        ref={el}
        role="img"
        aria-label={`${kind.title} over the last 15 minutes: ${kind.names[0]} now ${shown(a.at(-1))}, highest ${kind.format(highest)}; ${kind.names[1]} now ${shown(b.at(-1))}`}
      />
      {hasFailed && <ErrorNote text="The charts did not load. Reload the page once the sidecar answers." />}
    </figure>
  );
}

function Key(props: { line: Line }) {
  const { line } = props;
  return (
    <svg width="16" height="8" aria-hidden="true">
      <line x1="0" y1="4" x2="16" y2="4" style={{ stroke: line.color }} stroke-width="2" stroke-dasharray={line.isDashed ? "4 3" : undefined} />
    </svg>
  );
}

/** Whether an element is in, or near, what the window shows. */
function useSeen(el: { current: HTMLElement | null }): boolean {
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    if (!el.current) return;
    const observer = new IntersectionObserver((entries) => setSeen(entries.at(-1)?.isIntersecting ?? false), { rootMargin: "200px" });
    observer.observe(el.current);
    return () => observer.disconnect();
  }, []);
  return isSeen;
}
