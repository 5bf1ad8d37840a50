// SPDX-License-Identifier: Apache-2.0
// The search and the list of tools. Only rows that can be seen are in the page, and pages of tools are fetched as they are needed.
import { ConnectError, Code } from "@connectrpc/connect";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { api, errorText, fetchAgain, returns, server } from "../api";
import type { ToolSummary } from "../gen/outrigger/admin/v1/admin_pb";
import { navigate, toolPath } from "../router";
import { announce, Badge, ErrorNote, formatCount, Text } from "../ui";

const rowHeight = 54;
const pageSize = 200;
const quietMs = 120;
const maxQueryBytes = 1_000;

interface Listing {
  query: string;
  tools: ToolSummary[];
  next: string;
  total: number;
}

const none: Listing = { query: "", tools: [], next: "", total: 0 };

export function ToolList(props: { selected: string }) {
  const [query, setQuery] = useState("");
  const [list, setList] = useState<Listing>(none);
  const [error, setError] = useState("");
  const input = useRef<HTMLInputElement>(null);
  const loading = useRef<AbortController | undefined>(undefined);

  const load = async (from: Listing, token: string) => {
    loading.current?.abort();
    const mine = (loading.current = new AbortController());
    try {
      const answer = await api.searchTools({ query: from.query, pageSize, pageToken: token }, { signal: mine.signal, timeoutMs: 10_000 });
      const tools = token === "" ? answer.tools : [...from.tools, ...answer.tools];
      setList({ query: from.query, tools, next: answer.nextPageToken, total: answer.total });
      setError("");
      if (token === "") announce(from.query === "" ? `${answer.total} tools` : `${tools.length}${answer.nextPageToken ? " and more" : ""} tools found`);
    } catch (cause) {
      if (mine.signal.aborted) return;
      if (ConnectError.from(cause).code === Code.Unauthenticated) return;
      setError(errorText(cause) + ". The page tries again.");
      fetchAgain();
    } finally {
      if (loading.current === mine) loading.current = undefined;
    }
  };

  const up = server.value !== undefined;
  useEffect(() => {
    if (!up) return;
    const cut = new TextDecoder().decode(new TextEncoder().encode(query.trim()).subarray(0, maxQueryBytes)).replace(/\ufffd$/, "");
    const timer = setTimeout(() => void load({ ...none, query: cut }, ""), query === "" ? 0 : quietMs);
    return () => clearTimeout(timer);
  }, [query, up, returns.value]);

  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || isEditing(e)) return;
      e.preventDefault();
      input.current?.focus();
      input.current?.select();
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, []);

  const more = () => {
    if (list.next !== "" && !loading.current) void load(list, list.next);
  };

  return (
    <div class="tools">
      <search class="tools-search">
        <label class="unseen" for="tool-search">
          Search tools
        </label>
        <input
          id="tool-search"
          ref={input}
          type="search"
          placeholder="Search tools ( / )"
          autocomplete="off"
          spellcheck={false}
          value={query}
          onInput={(e) => setQuery(e.currentTarget.value)}
          onKeyDown={(e) => {
            if (e.key === "ArrowDown") {
              e.preventDefault();
              document.querySelector<HTMLElement>(".tools-rows a")?.focus();
            }
            if (e.key === "Enter" && list.tools[0]) navigate(toolPath(list.tools[0].name));
          }}
        />
        <span class="dim small" aria-hidden="true">
          {list.query === "" ? `${formatCount(list.total)} tools` : `${formatCount(list.tools.length)}${list.next ? "+" : ""} of ${formatCount(list.total)}`}
        </span>
      </search>
      {error !== "" && <ErrorNote text={error} />}
      {list.total > 0 && list.tools.length === 0 && <p class="dim tools-none">No tool fits these words.</p>}
      <Rows list={list} selected={props.selected} onEnd={more} />
    </div>
  );
}

/** Whether a key is meant for something that takes text. */
function isEditing(e: KeyboardEvent): boolean {
  const at = e.composedPath()[0];
  return at instanceof HTMLElement && (at.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(at.tagName));
}

function Rows(props: { list: Listing; selected: string; onEnd: () => void }) {
  const { tools } = props.list;
  const box = useRef<HTMLElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  // Of the rows one is reached by Tab; arrow keys move among them.
  const [current, setCurrent] = useState(0);
  const focusNext = useRef<number | undefined>(undefined);

  useLayoutEffect(() => {
    const watch = new ResizeObserver(() => setHeight(box.current!.clientHeight));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  useLayoutEffect(() => {
    box.current!.scrollTop = 0;
    setTop(0);
  }, [props.list.query]);
  useEffect(() => {
    const at = tools.findIndex((t) => isTool(t, props.selected));
    setCurrent(Math.max(0, at));
    const y = at * rowHeight;
    const scroller = box.current!;
    if (at >= 0 && (y < scroller.scrollTop || y + rowHeight > scroller.scrollTop + scroller.clientHeight)) scroller.scrollTop = y - scroller.clientHeight / 2;
  }, [props.list.query, props.selected, tools.length > 0]);

  const first = Math.max(0, Math.floor(top / rowHeight) - 4);
  const last = Math.min(tools.length, Math.ceil((top + height) / rowHeight) + 4);
  const reached = current >= first && current < last ? current : Math.min(Math.ceil(top / rowHeight), tools.length - 1);
  useEffect(() => {
    if (last > tools.length - 40) props.onEnd();
  }, [last, tools.length, props.list.next]);
  useLayoutEffect(() => {
    if (focusNext.current === undefined) return;
    const row = box.current!.querySelector<HTMLElement>(`[data-row="${focusNext.current}"]`);
    if (row) {
      focusNext.current = undefined;
      row.focus();
    }
  });

  const go = (to: number) => {
    if (to < 0) return document.getElementById("tool-search")?.focus();
    if (to >= tools.length) return;
    const scroller = box.current!;
    const y = to * rowHeight;
    if (y < scroller.scrollTop) scroller.scrollTop = y;
    if (y + rowHeight > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = y + rowHeight - scroller.clientHeight;
    focusNext.current = to;
    setTop(scroller.scrollTop);
    scroller.querySelector<HTMLElement>(`[data-row="${to}"]`)?.focus();
  };
  const key = (e: KeyboardEvent) => {
    const at = Number((e.target as HTMLElement).dataset["row"]);
    if (Number.isNaN(at)) return;
    const page = Math.max(1, Math.floor(height / rowHeight) - 1);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: Math.min(at + page, tools.length - 1), PageUp: Math.max(at - page, 0), Home: 0, End: tools.length - 1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    go(to);
  };

  const focused = (e: FocusEvent) => {
    const at = Number((e.target as HTMLElement).dataset["row"]);
    if (!Number.isNaN(at)) setCurrent(at);
  };

  return (
    <nav class="tools-rows" aria-label="Tools" ref={box} onScroll={(e) => setTop(e.currentTarget.scrollTop)} onKeyDown={key} onFocusIn={focused}>
      <ul style={{ height: `${tools.length * rowHeight}px` }}>
        {tools.slice(first, last).map((t, i) => (
          <Row key={t.name} tool={t} at={first + i} count={tools.length} isReached={first + i === reached} isSelected={isTool(t, props.selected)} />
        ))}
      </ul>
    </nav>
  );
}

const isTool = (t: ToolSummary, name: string) => t.name === name || t.mcpName === name;

function Row(props: { tool: ToolSummary; at: number; count: number; isReached: boolean; isSelected: boolean }) {
  const { tool } = props;
  return (
    <li style={{ transform: `translateY(${props.at * rowHeight}px)` }} aria-setsize={props.count} aria-posinset={props.at + 1}>
      <a href={toolPath(tool.name)} data-row={props.at} tabIndex={props.isReached ? 0 : -1} aria-current={props.isSelected ? "true" : undefined}>
        <span class="tools-name mono">
          <Text text={tool.name} max={120} />
          {tool.destructive && (
            <Badge kind="bad" title="Destructive">
              !<span class="unseen"> destructive</span>
            </Badge>
          )}
          {tool.readOnly && <span class="unseen"> read-only</span>}
        </span>{" "}
        <span class="tools-about dim small">
          {tool.backend !== "" && <Text text={tool.backend + " · "} max={40} />}
          <Text text={tool.title || tool.summary} max={160} />
        </span>
      </a>
    </li>
  );
}
