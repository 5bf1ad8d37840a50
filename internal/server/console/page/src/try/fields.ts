// SPDX-License-Identifier: Apache-2.0
// What a form shows for an input schema. Schemas are those that the sidecar derives from Protobuf, advertised or canonical, and
// those that native backends declare. What no part of a form fits is edited as JSON.
import { isNumber, isObject, member, number, setMember, text, type Json, type JsonObject } from "../json";

/** How a value is edited. */
export type Kind =
  | "text"
  | "number"
  | "digits" // a 64-bit integer: digits in a text, exact
  | "boolean"
  | "enum"
  | "bytes"
  | "timestamp"
  | "duration"
  | "null"
  | "object"
  | "map"
  | "list"
  | "variants"
  | "json";

export interface Option {
  value: Json;
  label: string;
  about: string;
}

/** A group of fields of which at most one is set. */
export interface Oneof {
  name: string;
  members: string[];
  isRequired: boolean;
}

/** A field, or an element of a list or map. Its parts are derived when they are asked for, since schemas may be recursive. */
export interface Field {
  kind: Kind;
  schema: JsonObject;
  title: string;
  about: string;
  options: Option[];
  isDeprecated: boolean;
}

/** A named field of an object. */
export interface Property {
  name: string;
  field: Field;
  isRequired: boolean;
}

const maxRefs = 32;

/** Follows $ref within the document, and takes from unions what is no null and no second form of the same value. */
function resolve(schema: Json | undefined, root: JsonObject): JsonObject {
  let at = isObject(schema) ? schema : {};
  for (let i = 0; i < maxRefs; i++) {
    const ref = text(at, "$ref");
    const target = ref === "" ? single(at) : pointer(root, ref);
    if (!target) return at;
    // What is beside a reference, such as a description, is about the place and wins.
    const rest: JsonObject = {};
    for (const [key, value] of Object.entries(at)) {
      if (key !== "$ref" && key !== "anyOf" && key !== "oneOf") setMember(rest, key, value);
    }
    at = { ...target, ...rest };
  }
  return {};
}

function pointer(root: JsonObject, ref: string): JsonObject | undefined {
  if (!ref.startsWith("#")) return {};
  let decoded: string;
  try {
    decoded = decodeURIComponent(ref.slice(1));
  } catch {
    return {};
  }
  let at: Json | undefined = root;
  for (const part of splitPointer(decoded)) {
    at = Array.isArray(at) ? at[Number(part)] : member(at, part);
  }
  return isObject(at) ? at : {};
}

/** The only schema of a union that is not null. */
function single(schema: JsonObject): JsonObject | undefined {
  const some = branches(schema);
  return some.length === 1 ? some[0] : undefined;
}

function branches(schema: JsonObject): JsonObject[] {
  const all = member(schema, "anyOf") ?? member(schema, "oneOf");
  if (!Array.isArray(all)) return [];
  return all.filter(isObject).filter((b) => !(text(b, "type") === "null" && Object.keys(b).length === 1));
}

function types(schema: JsonObject): string[] {
  const type = member(schema, "type");
  if (typeof type === "string") return [type];
  return Array.isArray(type) ? type.filter((t): t is string => typeof t === "string") : [];
}

/** The field of a schema within the document root. */
export function fieldOf(schema: Json | undefined, root: JsonObject): Field {
  const resolved = resolve(schema, root);
  const about = text(resolved, "description");
  const options = optionsOf(resolved, about);
  return {
    kind: kindOf(resolved, options),
    schema: resolved,
    title: text(resolved, "title"),
    about: options.length > 0 ? withoutWords(about, options) : about,
    options,
    isDeprecated: member(resolved, "deprecated") === true,
  };
}

function kindOf(schema: JsonObject, options: Option[]): Kind {
  const all = types(schema);
  const some = all.filter((t) => t !== "null");
  if (options.length > 0 && !some.includes("boolean")) return "enum";
  if (all.length > 0 && some.length === 0) return "null";
  if (some.includes("object")) return objectKind(schema);
  if (some.includes("array")) return "list";
  if (some.includes("boolean")) return "boolean";
  if (some.includes("string")) return textKind(schema, some);
  if (some.includes("integer") || some.includes("number")) return "number";
  const union = branches(schema);
  if (union.some((b) => ["number", "integer"].includes(text(b, "type"))) && !union.some((b) => ["object", "array"].includes(text(b, "type")))) {
    return "number"; // a number, or one of the words NaN, Infinity and -Infinity
  }
  return union.length > 1 ? "variants" : "json";
}

function objectKind(schema: JsonObject): Kind {
  const properties = member(schema, "properties");
  const named = isObject(properties) ? Object.keys(properties) : [];
  const more = member(schema, "additionalProperties");
  if (named.length === 0 && isObject(more) && Object.keys(more).length > 0) return "map";
  if (named.length === 0) return more === false ? "object" : branches(schema).length > 1 ? "variants" : "json";
  // An Any: what is beside its type is not in the schema.
  if (named.length === 1 && named[0] === "@type") return "json";
  return "object";
}

// A 64-bit integer that the advertised schema shows as a text: its pattern has nothing but digits and signs.
const digitsPattern = /^\^(?:[()|?,{}[\]0-9-]|\\d)+\$$/;

function textKind(schema: JsonObject, some: string[]): Kind {
  const format = text(schema, "format");
  if (format === "byte" || text(schema, "contentEncoding") === "base64") return "bytes";
  if (format === "date-time") return "timestamp";
  if (format === "google-duration" || text(schema, "pattern").endsWith("s$") && text(schema, "pattern").startsWith("^-?(0|")) return "duration";
  if (format === "int64" || format === "uint64") return "digits";
  if (some.includes("integer") || some.includes("number")) return "number";
  const pattern = text(schema, "pattern");
  return pattern !== "" && digitsPattern.test(pattern) ? "digits" : "text";
}

function optionsOf(schema: JsonObject, about: string): Option[] {
  const given = constants(schema);
  if (given.length > 0) return given;
  let values = enumValues(schema);
  for (const branch of values.length === 0 ? branches(schema) : []) {
    const inner = enumValues(branch);
    // An enum and its numbers are two forms of one value: the words are shown.
    if (inner.length > 0 && values.length === 0 && typeof inner[0] === "string") values = inner;
  }
  const words = describedWords(about);
  // NaN and its like are words beside numbers, and no enum.
  if (values.every((v) => typeof v === "string" && /^-?(NaN|Infinity)$/.test(v))) return [];
  return values.filter((v) => v !== null && !isDouble(v, values)).map((v) => ({
    value: v,
    label: typeof v === "string" ? v : isNumber(v) ? v.toString() : String(v),
    about: typeof v === "string" ? (words.get(v) ?? "") : "",
  }));
}

function enumValues(schema: JsonObject): Json[] {
  const values = member(schema, "enum");
  if (Array.isArray(values)) return values;
  return Object.hasOwn(schema, "const") ? [schema["const"]!] : [];
}

/** Options as unions of constants, each with its title. */
function constants(schema: JsonObject): Option[] {
  const union = branches(schema);
  if (union.length < 2 || !union.every((b) => Object.hasOwn(b, "const"))) return [];
  return union.map((b) => {
    const value = b["const"]!;
    const label = typeof value === "string" ? value : isNumber(value) ? value.toString() : String(value);
    return { value, label, about: text(b, "title") || text(b, "description") };
  });
}

/** The canonical schema lists a number as such and as a text. */
function isDouble(value: Json, among: Json[]): boolean {
  return typeof value === "string" && among.some((v) => isNumber(v) && v.toString() === value);
}

/** The lines "NAME: text" of a description. */
function describedWords(about: string): Map<string, string> {
  const words = new Map<string, string>();
  for (const line of about.split("\n")) {
    const found = /^([A-Za-z_][A-Za-z0-9_]*): (.*)$/.exec(line);
    if (found) words.set(found[1]!, found[2]!);
  }
  return words;
}

function withoutWords(about: string, options: Option[]): string {
  const names = new Set(options.map((o) => o.label));
  return about
    .split("\n")
    .filter((line) => !names.has(line.split(": ", 1)[0]!))
    .join("\n");
}

/** The fields of an object in the order of the schema, without second names of the same field. */
export function propertiesOf(field: Field, root: JsonObject): Property[] {
  const properties = member(field.schema, "properties");
  if (!isObject(properties)) return [];
  const required = requiredNames(field.schema);
  return Object.entries(properties)
    .filter(([, schema]) => !text(schema, "$ref").includes("/properties/"))
    .map(([name, schema]) => ({ name, field: fieldOf(schema, root), isRequired: required.has(name) }));
}

/** What has to be set, also where the canonical schema takes two names for it. */
function requiredNames(schema: JsonObject): Set<string> {
  const names = new Set<string>();
  const add = (list: Json | undefined) => {
    if (Array.isArray(list)) for (const n of list) if (typeof n === "string") names.add(n);
  };
  add(member(schema, "required"));
  const all = member(schema, "allOf");
  for (const part of Array.isArray(all) ? all : []) {
    const either = member(part, "anyOf");
    if (Array.isArray(either)) for (const e of either) add(member(e, "required"));
  }
  return names;
}

/** The oneofs of an object. */
export function oneofsOf(field: Field, properties: Property[]): Oneof[] {
  const known = new Set(properties.map((p) => p.name));
  const all = member(field.schema, "allOf");
  const conditions: Json[] = [field.schema, ...(Array.isArray(all) ? all : [])];
  const found: Oneof[] = [];
  for (const condition of conditions) {
    const listed = member(member(condition, "if"), "oneOf") ?? member(condition, "oneOf");
    if (!Array.isArray(listed)) continue;
    const members: string[] = [];
    let isRequired = true;
    for (const branch of listed) {
      const required = member(branch, "required");
      if (Array.isArray(required) && required.length === 1 && typeof required[0] === "string") members.push(required[0]);
      else isRequired = false;
    }
    const shown = members.filter((m) => known.has(m));
    if (shown.length < 2) continue;
    const about = text(condition, "description") || field.about;
    found.push({ name: oneofName(about, shown), members: shown, isRequired });
  }
  return found;
}

/** The name that the sentence about a oneof ends with, in parentheses. */
function oneofName(about: string, members: string[]): string {
  const list = members.join(", ");
  for (const sentence of about.split("\n")) {
    const at = sentence.indexOf(`one of ${list} m`);
    const name = at < 0 ? null : /\((\w+)\)\.$/.exec(sentence);
    if (name) return name[1]!;
  }
  return list;
}

export function itemField(field: Field, root: JsonObject): Field {
  const items = member(field.schema, field.kind === "map" ? "additionalProperties" : "items");
  return fieldOf(items, root);
}

const maxWords = 4;

/** The type of a field in words, such as "list of map of text". */
export function typeWord(field: Field, root: JsonObject, depth = 0): string {
  const { schema } = field;
  switch (field.kind) {
    case "object":
      return "message";
    case "list":
    case "map":
      // A list may be a list of itself.
      return depth < maxWords ? `${field.kind} of ${typeWord(itemField(field, root), root, depth + 1)}` : field.kind;
    case "digits":
      return text(schema, "format") || "64-bit integer";
    case "number":
      return text(schema, "format") || firstType(schema);
    case "variants":
      return "one of several";
    case "json":
      return firstType(schema) === "object" ? "any JSON object" : "any JSON";
    case "text":
      return text(schema, "format") || "text";
    default:
      return field.kind;
  }
}

function firstType(schema: JsonObject): string {
  return types(schema).find((t) => t !== "null") ?? "number";
}

/** The fields of a union. */
export function variantsOf(field: Field, root: JsonObject): Field[] {
  const rest: JsonObject = {};
  for (const [key, value] of Object.entries(field.schema)) {
    if (key !== "anyOf" && key !== "oneOf" && key !== "description") setMember(rest, key, value);
  }
  return branches(field.schema).map((b) => fieldOf({ ...rest, ...resolve(b, root) }, root));
}

/** The variant that a value looks most like. Among equals it is chosen if that is one of them, else the first. */
export function variantOf(value: Json | undefined, variants: Field[], root: JsonObject, chosen = 0): number {
  const score = (f: Field): number => {
    if (value === undefined) return 0;
    if (!looksLike(value, f)) return -1;
    if (!isObject(value) || f.kind !== "object") return 1;
    let points = 1;
    for (const p of propertiesOf(f, root)) {
      const v = member(value, p.name);
      if (v === undefined) points -= p.isRequired ? 1 : 0;
      else points += p.field.options.length === 1 ? (p.field.options[0]!.value === v ? 5 : -5) : 1;
    }
    return points;
  };
  const scores = variants.map(score);
  const best = Math.max(...scores);
  return scores[chosen] === best ? chosen : Math.max(0, scores.indexOf(best));
}

/** Whether the form's part of a field can show a value; it is edited as JSON else. */
export function looksLike(value: Json, field: Field): boolean {
  switch (field.kind) {
    case "object":
    case "map":
      return isObject(value);
    case "list":
      return Array.isArray(value);
    case "boolean":
      return typeof value === "boolean";
    case "enum":
      return field.options.some((o) => sameScalar(o.value, value));
    case "null":
      return value === null;
    case "json":
    case "variants":
      return true;
    case "bytes":
    case "timestamp":
    case "duration":
      return typeof value === "string";
    case "text":
      return typeof value === "string";
    case "number":
    case "digits":
      return typeof value === "string" || isNumber(value);
  }
}

/** Whether a field of the form shows a text as it is: those of browsers take carriage returns away. */
export function isPlain(value: string): boolean {
  return !value.includes("\r");
}

export function sameScalar(a: Json, b: Json): boolean {
  return a === b || isNumber(a) && isNumber(b) && a.toString() === b.toString();
}

// How many unions within unions are gone into: a union may have itself as its first variant.
const maxUnions = 8;

/** The value that a field has when it is first set. */
export function firstValue(field: Field, root: JsonObject, now: () => Date = () => new Date(), depth = 0): Json {
  const given = member(field.schema, "default");
  if (given !== undefined) return given;
  switch (field.kind) {
    case "text":
    case "bytes":
      return "";
    case "number":
      return number(0);
    case "digits":
      return "0";
    case "boolean":
      return field.options.length === 1 ? field.options[0]!.value : false;
    case "enum":
      return field.options[0]!.value;
    case "timestamp":
      return now().toISOString();
    case "duration":
      return "0s";
    case "list":
      return [];
    case "map":
    case "object":
      return {};
    case "null":
      return null;
    case "variants": {
      const variants = variantsOf(field, root);
      return variants.length > 0 && depth < maxUnions ? firstValue(variants[0]!, root, now, depth + 1) : null;
    }
    case "json":
      return types(field.schema).includes("object") ? {} : null;
  }
}

/** The JSON of what was typed into a field for numbers: the number itself, or the text, whose fault the sidecar names. */
export function typedNumber(typed: string): Json {
  const trimmed = typed.trim();
  return /^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$/.test(trimmed) ? number(trimmed) : typed;
}

export type Path = (string | number)[];

/** A copy of root in which the value at path is value, or is left out. What is missing on the way is made. */
export function withValue(root: Json, path: Path, value: Json | undefined): Json {
  if (path.length === 0) return value === undefined ? {} : value;
  const [key, ...rest] = path as [string | number, ...Path];
  if (typeof key === "number") {
    const list = Array.isArray(root) ? [...root] : [];
    if (rest.length === 0 && value === undefined) list.splice(key, 1);
    else list[key] = withValue(list[key] ?? {}, rest, value);
    return list;
  }
  const object: JsonObject = {};
  for (const [k, v] of isObject(root) ? Object.entries(root) : []) {
    if (k !== key || rest.length > 0 || value !== undefined) setMember(object, k, v);
  }
  if (rest.length === 0 && value === undefined) return object;
  setMember(object, key, withValue(member(object, key) ?? {}, rest, value));
  return object;
}

/** A copy of a map in which one key has another name, at the same place. */
export function withKey(map: JsonObject, from: string, to: string): JsonObject {
  const renamed: JsonObject = {};
  for (const [k, v] of Object.entries(map)) setMember(renamed, k === from ? to : k, v);
  return renamed;
}

/** A copy of an object in which of some members at most one is left. */
export function withOnly(object: JsonObject, members: string[], chosen: string | undefined, value: Json): JsonObject {
  const copy: JsonObject = {};
  for (const [k, v] of Object.entries(object)) if (!members.includes(k)) setMember(copy, k, v);
  if (chosen !== undefined) setMember(copy, chosen, member(object, chosen) ?? value);
  return copy;
}

export function joinPointer(path: Path): string {
  return path.map((p) => "/" + String(p).replace(/~/g, "~0").replace(/\//g, "~1")).join("");
}

export function splitPointer(pointer: string): string[] {
  if (pointer === "") return [];
  return pointer
    .split("/")
    .slice(1)
    .map((p) => p.replace(/~1/g, "/").replace(/~0/g, "~"));
}

export interface Fault {
  path: string;
  keyword: string;
  message: string;
}

/** The faults that a field shows: its own, and those below it that no part of the form shows. */
export function faultsAt(faults: Fault[], path: Path, parts: readonly string[]): Fault[] {
  const here = joinPointer(path);
  return faults.filter((f) => {
    if (f.path === here) return true;
    if (!f.path.startsWith(here + "/")) return false;
    const next = splitPointer(f.path.slice(here.length))[0]!;
    return !parts.includes(next);
  });
}

/** The value at a JSON Pointer; undefined if there is none. */
function valueAt(value: Json | undefined, pointer: string): Json | undefined {
  let at = value;
  for (const part of splitPointer(pointer)) at = Array.isArray(at) ? at[Number(part)] : member(at, part);
  return at;
}

/** Whether two values are the same as far as a fault of their own is about it: of lists and objects, what they have and not what that is. */
function isAlike(a: Json | undefined, b: Json | undefined): boolean {
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length;
  if (isObject(a) && isObject(b)) return Object.keys(a).join("\n") === Object.keys(b).join("\n");
  return a === b || (a !== undefined && b !== undefined && sameScalar(a, b));
}

/** The faults found in one value that another may still have: those at places that did not change. */
export function faultsLeft(faults: Fault[], found: Json, now: Json): Fault[] {
  return found === now ? faults : faults.filter((f) => isAlike(valueAt(found, f.path), valueAt(now, f.path)));
}

const units: [string, bigint][] = [
  ["ns", 1n],
  ["us", 1_000n],
  ["µs", 1_000n],
  ["ms", 1_000_000n],
  ["s", 1_000_000_000n],
  ["m", 60_000_000_000n],
  ["min", 60_000_000_000n],
  ["h", 3_600_000_000_000n],
  ["d", 86_400_000_000_000n],
];

/** A duration in the words of people, such as "1h30m" or "250 ms", in the form of ProtoJSON; undefined if it is none. Exact to a nanosecond. */
export function durationText(typed: string): string | undefined {
  const found = /^(-?)((?:[0-9]+(?:\.[0-9]{1,15})?(?:ns|us|µs|ms|min|s|m|h|d))+)$/.exec(typed.replace(/\s+/g, ""));
  if (!found) return undefined;
  let total = 0n;
  for (const [, whole, fraction = "", unit] of found[2]!.matchAll(/([0-9]+)(?:\.([0-9]+))?(ns|us|µs|ms|min|s|m|h|d)/g)) {
    const size = units.find(([u]) => u === unit)![1];
    const scale = 10n ** BigInt(fraction.length);
    const scaled = BigInt(whole + fraction) * size;
    if (scaled % scale !== 0n) return undefined;
    total += scaled / scale;
  }
  const seconds = total / 1_000_000_000n;
  const nanos = (total % 1_000_000_000n).toString().padStart(9, "0").replace(/0+$/, "");
  return `${found[1]}${seconds}${nanos === "" ? "" : "." + nanos}s`;
}

/** Bytes as base64. */
export function toBase64(bytes: Uint8Array): string {
  let binary = "";
  for (let i = 0; i < bytes.length; i += 32_768) binary += String.fromCharCode(...bytes.subarray(i, i + 32_768));
  return btoa(binary);
}

/** The bytes of base64, standard or URL-safe; undefined if it is none. */
export function fromBase64(encoded: string): Uint8Array | undefined {
  try {
    const binary = atob(encoded.replace(/-/g, "+").replace(/_/g, "/"));
    const bytes = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
    return bytes;
  } catch {
    return undefined;
  }
}

/** The text of base64 if it is UTF-8; undefined else. */
export function textOfBase64(encoded: string): string | undefined {
  const bytes = fromBase64(encoded);
  if (!bytes) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** The text of base64 that a field can edit without loss; undefined if it is none. */
export function editableText(encoded: string): string | undefined {
  const found = textOfBase64(encoded);
  return found !== undefined && isPlain(found) ? found : undefined;
}
