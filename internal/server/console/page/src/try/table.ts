// SPDX-License-Identifier: Apache-2.0
// Lists in a result that can be shown as tables.
import { isNumber, isObject, jsonText, type Json, type JsonObject } from "../json";

export interface List {
  path: string;
  rows: JsonObject[];
}

const maxDepth = 3;
const maxLists = 20;
const maxColumns = 24;
const sampledRows = 200;

/** The lists of objects in a value, the outermost first. */
export function listsIn(value: Json): List[] {
  const found: List[] = [];
  let level: [string, Json][] = [["", value]];
  for (let depth = 0; depth <= maxDepth; depth++) {
    const next: [string, Json][] = [];
    for (const [path, v] of level) {
      if (Array.isArray(v) && v.length > 0 && v.every(isObject)) {
        if (found.length < maxLists) found.push({ path, rows: v as JsonObject[] });
      } else if (isObject(v)) {
        for (const [k, of] of Object.entries(v).slice(0, 100)) next.push([path === "" ? k : `${path}.${k}`, of]);
      }
    }
    level = next;
  }
  return found;
}

/** Whether a value is a list of objects before all: one itself, or with nothing beside it but a few words, such as a page token. */
export function isList(value: Json): boolean {
  if (!isObject(value)) return listsIn(value).length > 0;
  const members = Object.values(value);
  const lists = members.filter((v) => Array.isArray(v) && v.length > 0);
  return members.length <= 4 && lists.length === 1 && (lists[0] as Json[]).every(isObject) && !members.some(isObject);
}

/** The columns of a table: the members of the first rows, in the order in which they come. */
export function columnsOf(rows: JsonObject[]): string[] {
  const names = new Set<string>();
  for (const row of rows.slice(0, sampledRows)) {
    for (const name of Object.keys(row)) if (names.size < maxColumns) names.add(name);
  }
  return [...names];
}

/** What a cell shows. */
export function cellText(value: Json | undefined): string {
  if (value === undefined) return "";
  if (typeof value === "string") return value;
  return isNumber(value) ? value.toString() : jsonText(value, true);
}
