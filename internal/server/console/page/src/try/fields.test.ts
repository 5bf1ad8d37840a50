// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { jsonText, member, number, parseJson, type Json, type JsonObject } from "../json";
import {
  durationText,
  editableText,
  faultsAt,
  faultsLeft,
  fieldOf,
  firstValue,
  fromBase64,
  itemField,
  joinPointer,
  oneofsOf,
  propertiesOf,
  splitPointer,
  textOfBase64,
  toBase64,
  typedNumber,
  typeWord,
  variantOf,
  variantsOf,
  withKey,
  withOnly,
  withValue,
  type Property,
} from "./fields";

// The schemas are those that the sidecar derives, from its own golden files: the input as agents see it, and as it is checked.
function golden(message: string, which: "advertised" | "canonical"): JsonObject {
  const file = readFileSync(`../../../schema/testdata/golden/${message}.txt`, "utf8");
  const part = file.split(`-- input ${which} --\n`)[1]!.split("\n-- ")[0]!;
  return parseJson(part) as JsonObject;
}

function properties(schema: JsonObject): Property[] {
  return propertiesOf(fieldOf(schema, schema), schema);
}

const kinds = (list: Property[]) => Object.fromEntries(list.map((p) => [p.name, p.field.kind]));

const echo = parseJson(`{"type":"object","properties":{
  "nonce":{"type":"string","maxLength":1024},
  "signed":{"type":"string","pattern":"^(0|-?[1-9]\\\\d{0,18})$","format":"int64"},
  "unsigned":{"type":"string","pattern":"^(0|[1-9]\\\\d{0,19})$"},
  "payload":{"type":"string","format":"byte","maxLength":2796204}},"additionalProperties":false}`) as JsonObject;

test("the lab's echo: a text, exact numbers and bytes", () => {
  assert.deepEqual(kinds(properties(echo)), { nonce: "text", signed: "digits", unsigned: "digits", payload: "bytes" });
});

for (const which of ["advertised", "canonical"] as const) {
  test(`well-known types, ${which}`, () => {
    const found = kinds(properties(golden("shapes.v1.WellKnown", which)));
    assert.equal(found["atTime"], "timestamp");
    assert.equal(found["howLong"], "duration");
    assert.equal(found["updateMask"], "text");
    assert.equal(found["aStruct"], "json");
    assert.equal(found["aValue"], "json");
    assert.equal(found["aList"], "list");
    assert.equal(found["aNull"], which === "advertised" ? "null" : found["aNull"]);
    assert.equal(found["boolValue"], "boolean");
    assert.equal(found["bytesValue"], "bytes");
    assert.equal(found["int32Value"], "number");
    assert.equal(found["int64Value"], "digits");
    assert.equal(found["uint64Value"], "digits");
    assert.equal(found["doubleValue"], "number");
    assert.equal(found["at_time"], undefined, "second names are not shown");
  });

  test(`maps, ${which}`, () => {
    const schema = golden("shapes.v1.Maps", which);
    const list = properties(schema);
    for (const p of list) assert.equal(p.field.kind, "map", p.name);
    const kindOf = (name: string) => itemField(list.find((p) => p.name === name)!.field, schema).kind;
    assert.equal(kindOf("int32Keys"), "text");
    assert.equal(kindOf("leaves"), "object");
    assert.equal(kindOf("longs"), "digits");
    assert.equal(kindOf("doubles"), "number");
  });

  test(`oneofs, enums and recursion, ${which}`, () => {
    const schema = golden("shapes.v1.Choices", which);
    const field = fieldOf(schema, schema);
    const list = properties(schema);
    assert.deepEqual(oneofsOf(field, list), [{ name: "contact", members: ["phone", "mail"], isRequired: true }]);
    const level = list.find((p) => p.name === "level")!;
    assert.equal(level.field.kind, "enum");
    assert.deepEqual(level.field.options.map((o) => o.value), ["LEVEL_LOW", "LEVEL_HIGH"]);
    assert.ok(level.isRequired);
    const inner = list.find((p) => p.name === "inner")!.field;
    const deeper = propertiesOf(inner, schema).find((p) => p.name === "deeper")!.field;
    assert.deepEqual(propertiesOf(deeper, schema).map((p) => p.name), ["code", "deeper"]);
  });

  test(`a oneof that may be empty, ${which}`, () => {
    const schema = golden("shapes.v1.Payment", which);
    const list = properties(schema);
    assert.deepEqual(oneofsOf(fieldOf(schema, schema), list), [
      { name: "method", members: ["cardNumber", "accountId", "leaf", "noCharge", "other"], isRequired: false },
    ]);
  });

  test(`numbers, ${which}`, () => {
    const list = properties(golden("shapes.v1.Numbers", which));
    const found = kinds(list);
    for (const name of ["positiveId", "smallId", "largeId", "notSeven", "wrapped"]) assert.equal(found[name], "digits", name);
    for (const name of ["pageSize", "ratio", "outside", "maybeBig"]) assert.equal(found[name], "number", name);
    const three = list.find((p) => p.name === "oneOfThree")!.field;
    assert.deepEqual(three.options.map((o) => o.label), ["0", "7", "9"]);
  });

  test(`numbers that may be NaN, ${which}`, () => {
    const found = kinds(properties(golden("shapes.v1.Scalars", which)));
    for (const [name, kind] of Object.entries(found)) {
      if (/float|double/i.test(name)) assert.equal(kind, "number", name);
    }
  });
}

test("an Any is JSON", () => {
  const schema = golden("google.protobuf.Any", "advertised");
  assert.equal(fieldOf(schema, schema).kind, "json");
});

test("words of enums come from the description, and are not said twice", () => {
  const schema = parseJson(`{"enum":["A_LOW","A_HIGH"],"type":"string","description":"How much.\\nA_LOW: A little.\\nNote: more."}`) as JsonObject;
  const field = fieldOf(schema, schema);
  assert.deepEqual(field.options.map((o) => o.about), ["A little.", ""]);
  assert.equal(field.about, "How much.\nNote: more.");
});

test("declared unions are variants, and the one that fits is chosen", () => {
  const schema = parseJson(`{"oneOf":[
    {"type":"object","properties":{"kind":{"const":"a"},"x":{"type":"string"}},"required":["kind"]},
    {"type":"object","properties":{"kind":{"const":"b"},"y":{"type":"integer"}},"required":["kind"]},
    {"type":"string"}]}`) as JsonObject;
  const field = fieldOf(schema, schema);
  assert.equal(field.kind, "variants");
  const variants = variantsOf(field, schema);
  const at = (value: string) => variantOf(parseJson(value), variants, schema);
  assert.equal(at(`{"kind":"a"}`), 0);
  assert.equal(at(`{"kind":"b","y":1}`), 1);
  assert.equal(at(`"text"`), 2);
  assert.equal(at(`7`), 0);
  assert.equal(variantOf({}, variants, schema, 1), 1, "a choice that fits as well as others stays");
  assert.equal(variantOf("text", variants, schema, 1), 2);
});

test("unions of constants are enums", () => {
  const schema = parseJson(`{"oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}]}`) as JsonObject;
  const field = fieldOf(schema, schema);
  assert.equal(field.kind, "enum");
  assert.deepEqual(field.options.map((o) => o.about), ["Red", "Green"]);
});

test("references in circles and to nowhere end", () => {
  for (const text of [`{"$ref":"#"}`, `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, `{"$ref":"#/none"}`, `{"$ref":"#/%E0%A4%A"}`, `{"$ref":"https://example.com/x"}`]) {
    const schema = parseJson(text) as JsonObject;
    assert.equal(fieldOf(schema, schema).kind, "json", text);
  }
});

test("lists of themselves and unions of themselves end", () => {
  const list = parseJson(`{"type":"array","items":{"$ref":"#"}}`) as JsonObject;
  assert.equal(typeWord(fieldOf(list, list), list), "list of list of list of list of list");
  const union = parseJson(`{"anyOf":[{"$ref":"#"},{"type":"object","properties":{"a":{"type":"string"}}}]}`) as JsonObject;
  assert.equal(firstValue(fieldOf(union, union), union), null);
});

test("edits change one place, and keep every digit of the others", () => {
  const before = parseJson(`{"id":18446744073709551615,"at":{"x":1.10},"list":[1,{"a":2}]}`);
  const cases: [(string | number)[], Json | undefined, string][] = [
    [["at", "x"], "y", `{"id":18446744073709551615,"at":{"x":"y"},"list":[1,{"a":2}]}`],
    [["at"], undefined, `{"id":18446744073709551615,"list":[1,{"a":2}]}`],
    [["list", 0], undefined, `{"id":18446744073709551615,"at":{"x":1.10},"list":[{"a":2}]}`],
    [["list", 1, "a"], number("9007199254740993"), `{"id":18446744073709551615,"at":{"x":1.10},"list":[1,{"a":9007199254740993}]}`],
    [["new", "deep"], true, `{"id":18446744073709551615,"at":{"x":1.10},"list":[1,{"a":2}],"new":{"deep":true}}`],
    [["at", "x"], null, `{"id":18446744073709551615,"at":{"x":null},"list":[1,{"a":2}]}`],
    [["list", 0], null, `{"id":18446744073709551615,"at":{"x":1.10},"list":[null,{"a":2}]}`],
    [[], null, "null"],
    [[], undefined, "{}"],
    [["__proto__"], "p", `{"id":18446744073709551615,"at":{"x":1.10},"list":[1,{"a":2}],"__proto__":"p"}`],
  ];
  for (const [path, value, want] of cases) assert.equal(jsonText(withValue(before, path, value), true), want);
  assert.equal(jsonText(before, true), `{"id":18446744073709551615,"at":{"x":1.10},"list":[1,{"a":2}]}`);
});

test("keys are renamed in place, and a oneof keeps one member", () => {
  assert.equal(jsonText(withKey({ a: "1", b: "2" }, "a", "c"), true), `{"c":"1","b":"2"}`);
  assert.equal(jsonText(withOnly({ a: "1", b: "2", z: "3" }, ["a", "b"], "b", "new"), true), `{"z":"3","b":"2"}`);
  assert.equal(jsonText(withOnly({ a: "1" }, ["a", "b"], "b", "new"), true), `{"b":"new"}`);
  assert.equal(jsonText(withOnly({ a: "1" }, ["a", "b"], undefined, null), true), `{}`);
});

test("what is no number is sent as it was typed", () => {
  assert.equal(jsonText(typedNumber("9223372036854775808")), "9223372036854775808");
  assert.equal(jsonText(typedNumber(" -1.5e3 ")), "-1.5e3");
  for (const typed of ["", "01", "1.", "+1", "0x1", "NaN", "-"]) assert.equal(typedNumber(typed), typed);
});

test("faults are shown where the form has a place for them", () => {
  const faults = ["/a", "/a/b", "/a/x", "/c~1d/0"].map((path) => ({ path, keyword: "k", message: "m" }));
  const paths = (at: (string | number)[], parts: string[]) => faultsAt(faults, at, parts).map((f) => f.path);
  assert.deepEqual(paths([], ["a", "c/d"]), []);
  assert.deepEqual(paths([], ["c/d"]), ["/a", "/a/b", "/a/x"]);
  assert.deepEqual(paths(["a"], ["b"]), ["/a", "/a/x"]);
  assert.deepEqual(paths(["a", "b"], []), ["/a/b"]);
  assert.deepEqual(paths(["c/d"], []), ["/c~1d/0"]);
  assert.equal(joinPointer(["a/b", 0, "~"]), "/a~1b/0/~0");
  assert.deepEqual(splitPointer("/a~1b/0/~0"), ["a/b", "0", "~"]);
});

test("a fault is not shown at what was changed since it was found", () => {
  const faults = ["", "/a", "/n", "/list/1", "/list", "/absent"].map((path) => ({ path, keyword: "k", message: "m" }));
  const found = parseJson(`{"a":"x","n":18446744073709551615,"list":[1,2]}`);
  const left = (now: string) => faultsLeft(faults, found, parseJson(now)).map((f) => f.path);
  assert.deepEqual(left(`{"a":"x","n":18446744073709551615,"list":[1,2]}`), ["", "/a", "/n", "/list/1", "/list", "/absent"]);
  assert.deepEqual(left(`{"a":"y","n":18446744073709551616,"list":[1,2]}`), ["", "/list/1", "/list", "/absent"]);
  assert.deepEqual(left(`{"a":"x","n":18446744073709551615,"list":[1],"absent":null}`), ["/a", "/n"]);
});

test("durations in the words of people", () => {
  const cases: [string, string | undefined][] = [
    ["3.5s", "3.5s"],
    ["250ms", "0.25s"],
    ["1h30m", "5400s"],
    ["1 h 30 min", "5400s"],
    ["-1.5s", "-1.5s"],
    ["1ns", "0.000000001s"],
    ["315576000000s", "315576000000s"],
    ["0.1ns", undefined],
    ["5", undefined],
    ["", undefined],
    ["s", undefined],
  ];
  for (const [typed, want] of cases) assert.equal(durationText(typed), want, typed);
});

test("bytes as text and back", () => {
  const bytes = new Uint8Array(100_000).map((_, i) => i);
  assert.deepEqual(fromBase64(toBase64(bytes)), bytes);
  assert.equal(textOfBase64(toBase64(new TextEncoder().encode("Motu Nuí\n"))), "Motu Nuí\n");
  assert.equal(textOfBase64(toBase64(new Uint8Array([0xff]))), undefined);
  assert.equal(editableText(btoa("a\nb")), "a\nb");
  assert.equal(editableText(btoa("a\r\nb")), undefined);
  assert.deepEqual(fromBase64("-_8"), new Uint8Array([0xfb, 0xff]));
  assert.equal(fromBase64("%"), undefined);
});

test("a first value fits its field", () => {
  const schema = golden("shapes.v1.WellKnown", "advertised");
  const first = Object.fromEntries(properties(schema).map((p) => [p.name, firstValue(p.field, schema, () => new Date(0))])) as JsonObject;
  assert.equal(member(first, "atTime"), "1970-01-01T00:00:00.000Z");
  assert.equal(member(first, "howLong"), "0s");
  assert.equal(member(first, "int64Value"), "0");
  assert.equal(jsonText(member(first, "aStruct")!, true), "{}");
});
