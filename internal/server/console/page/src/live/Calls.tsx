// SPDX-License-Identifier: Apache-2.0
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { callPath, navigate } from "../router";
import { announce, Badge, Button, Text, visible } from "../ui";
import { anonymous, narrows, noFilter, select, sortable, type Column, type Filter } from "./filter";
import { clock, counted, percent, took } from "./format";
import type { Row } from "./store";
import { restarted, store, tick } from "./stream";

const columns: readonly { readonly id: Column; readonly name: string }[] = [
  { id: "time", name: "Ended" },
  { id: "caller", name: "Caller" },
  { id: "tool", name: "Tool" },
  { id: "edge", name: "Edge" },
  { id: "took", name: "Took" },
  { id: "sidecar", name: "In the sidecar" },
  { id: "code", name: "Code" },
];

/** The view that is kept during a pause. */
interface Kept {
  readonly rows: readonly Row[];
  readonly ended: number;
}

/** The calls in flight and just ended. from is the id of the call whose page was left, or empty. */
export function Calls(props: { from: string; filter: Filter; setFilter: (f: Filter) => void }) {
  const version = tick.value;
  const { filter, setFilter } = props;
  const [kept, setKept] = useState<Kept>();
  const rows = useMemo(() => kept?.rows ?? [...store.calls(), ...store.inFlight], [version, kept]);
  const shown = useMemo(() => select(rows, filter), [rows, filter]);
  const pause = () => {
    setKept(kept ? undefined : { rows, ended: store.endedTotal });
    announce(kept ? "The table goes on." : "The table is paused.");
  };
  return (
    <section class="stack" aria-labelledby="calls">
      <div class="row between">
        <h2 id="calls">Calls in flight and just ended</h2>
        <Button onClick={pause} aria-pressed={kept !== undefined}>
          {kept ? "Go on" : "Pause"}
        </Button>
      </div>
      <Filters rows={rows} filter={filter} setFilter={setFilter} />
      <p class="dim small">
        {kept && <span class="strong">Paused: {counted(Math.max(0, store.endedTotal - kept.ended), "call")} ended meanwhile. </span>}
        {counted(shown.length, "call")} shown{narrows(filter) ? ` of ${rows.length.toLocaleString("en")}` : ""}.
        {restarted.value > 0 && ` The sidecar was started again at ${clock(restarted.value).slice(0, 8)}, while this page was open; calls before are gone.`}
        {store.omitted > 0 && ` ${counted(store.omitted, "call")} ended too fast to be listed; charts count them.`}
        {(store.last?.inFlightTotal ?? 0) > store.inFlight.length &&
          ` Of ${counted(store.last?.inFlightTotal ?? 0, "call")} in flight, the oldest ${store.inFlight.length} are listed.`}
      </p>
      {shown.length > 0 ? (
        <Table from={props.from} rows={shown} filter={filter} setFilter={setFilter} />
      ) : (
        <p class="nothing">{rows.length === 0 ? "No call has been made yet." : "No call fits the filters."}</p>
      )}
    </section>
  );
}

function Filters(props: { rows: readonly Row[]; filter: Filter; setFilter: (f: Filter) => void }) {
  const { rows, filter: f } = props;
  const set = (change: Partial<Filter>) => props.setFilter({ ...f, ...change });
  return (
    <form class="row filters" role="search" aria-label="Filter calls" onSubmit={(e) => e.preventDefault()}>
      <label class="field grow">
        <span class="unseen">Text, such as a message, a code or a trace id</span>
        <input
          type="search"
          placeholder="Text, code, trace id…"
          maxLength={500}
          spellcheck={false}
          value={f.text}
          onInput={(e) => set({ text: e.currentTarget.value })}
        />
      </label>
      <Choice name="Tool" all="All tools" value={f.tool} of={distinct(rows, (r) => r.tool)} onChoose={(tool) => set({ tool })} />
      <Choice name="Caller" all="All callers" value={f.caller} of={distinct(rows, (r) => r.caller || anonymous)} onChoose={(caller) => set({ caller })} />
      <Choice name="Edge" all="All edges" value={f.edge} of={distinct(rows, (r) => r.edge)} onChoose={(edge) => set({ edge })} />
      <label class="row check">
        <input type="checkbox" checked={f.failures} onChange={(e) => set({ failures: e.currentTarget.checked })} />
        Only failures
      </label>
      <label class="row sorting">
        Sort by
        <select
          value={f.sort + (f.ascending ? " up" : "")}
          onChange={(e) => {
            const [column, order] = e.currentTarget.value.split(" ");
            set({ sort: sortable.find((c) => c === column) ?? "time", ascending: order === "up" });
          }}
        >
          {columns.map((c) => [
            <option key={c.id} value={c.id}>{c.name}, falling</option>,
            <option key={c.id + "up"} value={c.id + " up"}>{c.name}, rising</option>,
          ])}
        </select>
      </label>
      {narrows(f) && (
        <Button kind="quiet" onClick={() => props.setFilter({ ...noFilter, sort: f.sort, ascending: f.ascending })}>
          Clear filters
        </Button>
      )}
    </form>
  );
}

/** The most choices that a list offers. */
const maxChoices = 200;

function distinct(rows: readonly Row[], of: (r: Row) => string): string[] {
  const found = new Set<string>();
  for (const r of rows) {
    if (found.size >= maxChoices) break;
    const v = of(r);
    if (v !== "") found.add(v);
  }
  return [...found].sort();
}

function Choice(props: { name: string; all: string; value: string; of: string[]; onChoose: (v: string) => void }) {
  const of = props.value === "" || props.of.includes(props.value) ? props.of : [props.value, ...props.of];
  return (
    <select aria-label={props.name} value={props.value} onChange={(e) => props.onChoose(e.currentTarget.value)}>
      <option value="">{props.all}</option>
      {of.map((v) => (
        <option key={v} value={v}>
          {shorten(v)}
        </option>
      ))}
    </select>
  );
}

/** Rows beyond the edges of what is seen, so that scrolling shows no blank. */
const overscan = 8;

/** Height of a row in pixels, as in live.css. */
const tableRow = 34;
const cardRow = 96;

/** The table. Only rows that are seen are in the page. Arrow keys move among calls, and Enter opens one. */
function Table(props: { from: string; rows: readonly Row[]; filter: Filter; setFilter: (f: Filter) => void }) {
  const { rows, filter } = props;
  const box = useRef<HTMLDivElement>(null);
  const isNarrow = useMedia("(max-width: 720px)");
  const height = isNarrow ? cardRow : tableRow;
  const [top, setTop] = useState(0);
  const [seen, setSeen] = useState(600);
  const [active, setActive] = useState(props.from);
  const [isInside, setInside] = useState(false);
  const focusNext = useRef(props.from);
  useEffect(() => {
    const el = box.current;
    if (!el) return;
    const at = rows.findIndex((r) => r.id === props.from);
    if (at >= 0) el.scrollTop = Math.max(0, at * height - el.clientHeight / 2);
    else focusNext.current = "";
    const observer = new ResizeObserver(() => setSeen(el.clientHeight));
    observer.observe(el);
    return () => observer.disconnect();
  }, []);

  const found = rows.findIndex((r) => r.id === active);
  const lastAt = useRef(0);
  // A call that is gone, for a filter or for its age, leaves the keyboard at the one in its place.
  const activeAt = found >= 0 ? found : isInside ? Math.min(lastAt.current, rows.length - 1) : 0;
  lastAt.current = activeAt;
  useAnchor(box, rows, height, isInside ? active : "", setTop);
  useLayoutEffect(() => {
    if (isInside && found < 0 && rows[activeAt]) focusNext.current = rows[activeAt].id;
    if (focusNext.current === "") return;
    const link = box.current?.querySelector<HTMLElement>(`a[data-id="${CSS.escape(focusNext.current)}"]`);
    if (!link) return;
    focusNext.current = "";
    link.focus({ preventScroll: true });
  });

  const first = Math.max(0, Math.floor(top / height) - overscan);
  const last = Math.min(rows.length, Math.ceil((top + seen) / height) + overscan);
  const slots: number[] = [];
  // The call that the keyboard is at stays in the page, however far away the pointer has scrolled.
  if (activeAt < first) slots.push(activeAt);
  for (let i = first; i < last; i++) slots.push(i);
  if (activeAt >= last && activeAt < rows.length) slots.push(activeAt);

  const key = (e: KeyboardEvent) => {
    const page = Math.max(1, Math.floor(seen / height) - 2);
    const to = { ArrowDown: activeAt + 1, ArrowUp: activeAt - 1, PageDown: activeAt + page, PageUp: activeAt - page, Home: 0, End: rows.length - 1 }[e.key];
    const el = box.current;
    if (to === undefined || !el || e.altKey || e.ctrlKey || e.metaKey) return;
    e.preventDefault();
    const at = Math.min(rows.length - 1, Math.max(0, to));
    const next = rows[at]?.id ?? "";
    focusNext.current = next;
    setActive(next);
    const head = isNarrow ? 0 : tableRow;
    if (at * height < el.scrollTop) el.scrollTop = at * height;
    if ((at + 1) * height + head > el.scrollTop + el.clientHeight) el.scrollTop = (at + 1) * height + head - el.clientHeight;
    setTop(el.scrollTop);
  };

  return (
    <div class="calls" ref={box} onScroll={(e) => setTop(e.currentTarget.scrollTop)}>
      <table role="table" aria-label="Calls" aria-rowcount={rows.length + 1}>
        <thead role="rowgroup">
          <tr role="row" aria-rowindex={1}>
            {columns.map((c) => (
              <Head key={c.id} id={c.id} name={c.name} filter={filter} setFilter={props.setFilter} />
            ))}
          </tr>
        </thead>
        <tbody
          role="rowgroup"
          style={{ height: `${rows.length * height}px` }}
          onKeyDown={key}
          onFocusIn={(e: FocusEvent) => {
            const id = e.target instanceof HTMLElement ? e.target.dataset["id"] : undefined;
            if (id) setActive(id);
            setInside(true);
          }}
          onFocusOut={(e: FocusEvent) => {
            // An element that is taken out of the page has not been left.
            if (e.target instanceof Element && e.target.isConnected) setInside(false);
          }}
        >
          {slots.map((i) => {
            const r = rows[i];
            return r && <CallRow key={r.id} row={r} at={i} top={i * height} isActive={i === activeAt} />;
          })}
        </tbody>
      </table>
    </div>
  );
}

/** Keeps what is read in its place while calls come above it: the call of the keyboard, or the first that is seen. */
function useAnchor(box: { current: HTMLDivElement | null }, rows: readonly Row[], height: number, active: string, setTop: (n: number) => void) {
  const before = useRef<readonly Row[]>(rows);
  useLayoutEffect(() => {
    const old = before.current;
    before.current = rows;
    const el = box.current;
    if (!el || old === rows) return;
    const id = active || (el.scrollTop > height / 2 ? old[Math.floor(el.scrollTop / height)]?.id : undefined);
    if (!id) return;
    const from = old.findIndex((r) => r.id === id);
    const to = rows.findIndex((r) => r.id === id);
    if (from < 0 || to < 0 || from === to) return;
    el.scrollTop += (to - from) * height;
    setTop(el.scrollTop);
  }, [rows]);
}

function Head(props: { id: Column; name: string; filter: Filter; setFilter: (f: Filter) => void }) {
  const f = props.filter;
  const isSorted = f.sort === props.id;
  const sort = () => props.setFilter({ ...f, sort: props.id, ascending: isSorted ? !f.ascending : false });
  return (
    <th role="columnheader" scope="col" class={"at-" + props.id} aria-sort={isSorted ? (f.ascending ? "ascending" : "descending") : "none"}>
      <button type="button" onClick={sort}>
        {props.name}
        <span aria-hidden="true">{isSorted ? (f.ascending ? " ▲" : " ▼") : ""}</span>
      </button>
    </th>
  );
}

function CallRow(props: { row: Row; at: number; top: number; isActive: boolean }) {
  const r = props.row;
  const own = Math.max(0, r.took - r.upstream);
  const when = r.code === "" ? "since " + clock(r.began).slice(0, 8) : clock(r.began + r.took);
  const open = (e: MouseEvent) => {
    // The link does it for clicks on it, and text that is selected is meant to be copied.
    if (e.defaultPrevented || (e.target instanceof Element && e.target.closest("a")) || getSelection()?.toString()) return;
    navigate(callPath(r.id));
  };
  return (
    <tr role="row" aria-rowindex={props.at + 2} class={r.code === "" ? "running" : ""} style={{ transform: `translateY(${props.top}px)` }} onClick={open}>
      <td role="cell" class="at-time">
        <a href={callPath(r.id)} data-id={r.id} tabIndex={props.isActive ? 0 : -1} aria-label={`${when}, call ${r.id}`}>
          {when}
        </a>
      </td>
      <td role="cell" class="at-caller" title={short(r.caller)}>
        {r.caller === "" ? <span class="dim">{anonymous}</span> : <Text text={r.caller} max={80} />}
        {r.operator !== "" && (
          <span class="dim">
            {" by "}
            <Text text={r.operator} max={60} />
          </span>
        )}
      </td>
      <td role="cell" class="at-tool" title={short(r.tool)}>
        {r.tool === "" ? <span class="dim">{r.operation || "no such tool"}</span> : <Text text={r.tool} max={120} />}
      </td>
      <td role="cell" class="at-edge">
        <Text text={r.edge} max={40} />
      </td>
      <td role="cell" class="at-took num">{took(r.took)}</td>
      <td role="cell" class="at-sidecar">
        <Share own={own} took={r.took} />
      </td>
      <td role="cell" class="at-code">
        <CodeBadge code={r.code} step={r.step} />
      </td>
    </tr>
  );
}

function short(text: string): string {
  return shorten(text, 200);
}

/** A text for a tooltip or a choice, where markup cannot be. */
function shorten(text: string, max = 60): string {
  const seen = visible(text.slice(0, max));
  return text.length > max ? seen + "…" : seen;
}

/** What of a call's time the sidecar took; the rest it waited. */
function Share(props: { own: number; took: number }) {
  const share = props.took > 0 ? props.own / props.took : 0;
  return (
    <span class="share" title={`${took(props.own)} in the sidecar, ${took(props.took - props.own)} waiting for the backend or a user`}>
      <span class="bar" aria-hidden="true">
        <span style={{ width: `${(100 * share).toFixed(1)}%` }} />
      </span>
      <span>
        {took(props.own)} <span class="dim">({percent(share)})</span>
      </span>
    </span>
  );
}

/** The code of a call, or the step that it is in. */
export function CodeBadge(props: { code: string; step: string }) {
  if (props.code === "OK") return <Badge kind="ok">OK</Badge>;
  if (props.code !== "") {
    return (
      <Badge kind="bad">
        <Text text={props.code} max={60} />
      </Badge>
    );
  }
  return (
    <Badge kind="info">
      in flight
      {props.step !== "" && (
        <>
          {": "}
          <Text text={props.step} max={40} />
        </>
      )}
    </Badge>
  );
}

/** Whether a media query holds, now and later. */
export function useMedia(query: string): boolean {
  const [holds, setHolds] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const changed = () => setHolds(list.matches);
    list.addEventListener("change", changed);
    return () => list.removeEventListener("change", changed);
  }, [query]);
  return holds;
}
