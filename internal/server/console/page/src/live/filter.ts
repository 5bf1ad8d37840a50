// SPDX-License-Identifier: Apache-2.0
// Which calls the table shows, in which order, and how that is written in the address of the page.
import type { Row } from "./store";

/** Columns that calls are sorted by. "time" has the calls in flight first, then those that ended last. */
export const sortable = ["time", "caller", "tool", "edge", "took", "sidecar", "code"] as const;
export type Column = (typeof sortable)[number];

/** What the table shows. An empty text, tool, caller or edge keeps every call. */
export interface Filter {
  text: string;
  tool: string;
  caller: string;
  edge: string;
  failures: boolean;
  sort: Column;
  ascending: boolean;
}

export const noFilter: Filter = {
  text: "",
  tool: "",
  caller: "",
  edge: "",
  failures: false,
  sort: "time",
  ascending: false,
};

/** The most characters of a filter that are read from an address. */
const maxFilter = 500;

/** Reads a filter from the query of an address; what it does not know is ignored. */
export function parseFilter(query: string): Filter {
  const q = new URLSearchParams(query);
  const get = (name: string) => (q.get(name) ?? "").slice(0, maxFilter);
  const sort = sortable.find((c) => c === get("sort")) ?? "time";
  return {
    text: get("q"),
    tool: get("tool"),
    caller: get("caller"),
    edge: get("edge"),
    failures: get("failures") === "1",
    sort,
    ascending: get("order") === "up",
  };
}

/** Writes a filter as a query with its question mark; empty for noFilter. */
export function formatFilter(f: Filter): string {
  const q = new URLSearchParams();
  if (f.text) q.set("q", f.text);
  if (f.tool) q.set("tool", f.tool);
  if (f.caller) q.set("caller", f.caller);
  if (f.edge) q.set("edge", f.edge);
  if (f.failures) q.set("failures", "1");
  if (f.sort !== "time") q.set("sort", f.sort);
  if (f.ascending) q.set("order", "up");
  const text = q.toString();
  return text ? "?" + text : "";
}

/** A filter leaves out calls. */
export function narrows(f: Filter): boolean {
  return f.text !== "" || f.tool !== "" || f.caller !== "" || f.edge !== "" || f.failures;
}

/** Calls without a caller's name are those of anonymous callers; in a filter they have this name. */
export const anonymous = "anonymous";

function matches(f: Filter, words: readonly string[], r: Row): boolean {
  if (f.failures && (r.code === "" || r.code === "OK")) return false;
  if (f.tool && r.tool !== f.tool) return false;
  if (f.caller && (r.caller || anonymous) !== f.caller) return false;
  if (f.edge && r.edge !== f.edge) return false;
  return words.every((w) => r.words.includes(w));
}

function compare(column: Column, a: Row, b: Row): number {
  switch (column) {
    case "time":
      return recent(a) - recent(b);
    case "took":
      return a.took - b.took;
    case "sidecar":
      return a.took - a.upstream - (b.took - b.upstream);
    case "caller":
      return order(a.caller, b.caller);
    case "tool":
      return order(a.tool, b.tool);
    case "edge":
      return order(a.edge, b.edge);
    case "code":
      return order(a.code, b.code);
  }
}

function order(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function recent(r: Row): number {
  // Calls in flight are newer than all that ended, among themselves by when they began.
  return r.code === "" ? Number.MAX_SAFE_INTEGER / 2 + r.began : r.began + r.took;
}

/** The calls that a filter shows, in its order. Calls that are equal keep the newest first. */
export function select(rows: readonly Row[], f: Filter): Row[] {
  const words = f.text.toLowerCase().split(/\s+/).filter((w) => w !== "");
  const kept = rows.filter((r) => matches(f, words, r));
  const sign = f.ascending ? 1 : -1;
  return kept.sort((a, b) => sign * compare(f.sort, a, b) || recent(b) - recent(a) || b.order - a.order);
}
