// SPDX-License-Identifier: Apache-2.0
// JSON without loss: numbers keep their digits, as 64-bit integers need it.
import { LosslessNumber, parse as parseLossless, stringify } from "lossless-json";

export type Json = null | boolean | string | LosslessNumber | Json[] | JsonObject;
export type JsonObject = { [key: string]: Json };

/** The value of a JSON text. Throws a SyntaxError. */
export function parseJson(text: string): Json {
  return parseLossless(text) as Json;
}

/** The value of a JSON text, or undefined if it is none. */
export function tryJson(text: string): Json | undefined {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** The text of a value; indented by two spaces, or compact. */
export function jsonText(value: Json, compact = false): string {
  return (compact ? stringify(value) : stringify(value, null, 2)) ?? "null";
}

export function number(digits: string | number): LosslessNumber {
  return new LosslessNumber(String(digits));
}

export function isNumber(value: unknown): value is LosslessNumber {
  return value instanceof LosslessNumber;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !isNumber(value);
}

/** A member of an object, without what objects inherit; undefined if there is none. */
export function member(value: Json | undefined, key: string): Json | undefined {
  return isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
}

/** A member that is a text; empty if there is none. */
export function text(value: Json | undefined, key: string): string {
  const found = member(value, key);
  return typeof found === "string" ? found : "";
}

/** Sets a member, also one called __proto__. */
export function setMember(object: JsonObject, key: string, value: Json): void {
  Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
}
