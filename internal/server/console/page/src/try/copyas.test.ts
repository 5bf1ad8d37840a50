// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseJson } from "../json";
import { visible } from "../ui";
import { goQuote, shellQuote, snippets, type Source } from "./copyas";
import { columnsOf, isList, listsIn } from "./table";

const source: Source = {
  url: "http://127.0.0.1:8080",
  hasCallers: false,
  name: "lab.echo",
  mcpName: "lab_echo",
  rpc: "outrigger.demo.v1.Lab/Echo",
  takesStream: false,
  argumentsText: `{"nonce": "it's $HOME", "unsigned": 18446744073709551615}`,
  revision: "2026-07-28",
};

const snippet = (id: string, more: Partial<Source> = {}) => snippets({ ...source, ...more }).find((s) => s.id === id)?.text() ?? "";

test("a shell gets each word as it is", () => {
  assert.equal(shellQuote("a.b/c"), "a.b/c");
  assert.equal(shellQuote("it's $x `y`"), `'it'\\''s $x \`y\`'`);
  assert.equal(shellQuote(""), "''");
  assert.ok(snippet("cli").includes(`'{"nonce":"it'\\''s $HOME","unsigned":18446744073709551615}'`));
});

test("Go gets a literal", () => {
  assert.equal(goQuote(`{"a":1}`), '`{"a":1}`');
  assert.equal(goQuote("a`b"), `"a\`b"`);
  assert.equal(goQuote("a`\u202e"), '"a`\\u202e"');
  assert.equal(goQuote("`\u{1f6f6}\u00ed"), '"`\\U0001f6f6\\u00ed"');
});

test("TypeScript gets integers that it can hold", () => {
  assert.ok(snippet("ts").includes(`"unsigned":"18446744073709551615"`));
  assert.ok(snippet("ts", { argumentsText: `{"a":"18446744073709551615, 99999999999999999999","b":1.5,"c":7}` }).includes(`{"a":"18446744073709551615, 99999999999999999999","b":1.5,"c":7}`));
});

test("a text of megabytes is no trouble", () => {
  const argumentsText = JSON.stringify({ a: "x".repeat(8 << 20), b: "\\".repeat(1 << 20), c: 1 });
  assert.ok(snippet("ts", { argumentsText }).includes(argumentsText));
});

test("nothing that acts on a terminal is in a snippet, and what is no JSON has none", () => {
  assert.deepEqual(snippets({ ...source, argumentsText: "\u001b[31m" }), []);
  const argumentsText = `{"items":[{"a":"\u009b31m\u202e\u200b\ufeff"}]}`;
  for (const takesStream of [false, true]) {
    for (const s of snippets({ ...source, takesStream, argumentsText })) {
      assert.ok(!/[\u007f-\u009f\u200b-\u200f\u2028-\u202e\ufeff]/.test(s.text()), s.id);
      assert.ok(s.text().includes("\\u009b31m\\u202e\\u200b\\ufeff"), s.id);
    }
  }
});

test("an address of IPv6 is one word", () => {
  assert.ok(snippet("grpcurl", { url: "http://[::1]:8080" }).includes("'[::1]:8080' outrigger.demo.v1.Lab/Echo"));
});

test("a stream's messages follow each other, and native tools have no RPC", () => {
  assert.ok(snippet("grpcurl", { takesStream: true, argumentsText: `{"items":[{"a":1},{"a":2}]}` }).includes(`'{"a":1}\n{"a":2}'`));
  assert.equal(snippet("grpcurl", { rpc: "" }), "");
});

test("a token is named where callers need one", () => {
  for (const id of ["curl", "grpcurl", "go", "ts", "cli"]) assert.ok(/token/i.test(snippet(id, { hasCallers: true })), id);
});

test("what is invisible or acts on the text around it is shown", () => {
  const cases: [string, string][] = [
    ["plain\ttext\n", "plain\ttext\n"],
    ["\u001b[31m", "\\u001b[31m"],
    ["a\u202eb\u2066", "a\\u202eb\\u2066"],
    ["\u0000\u009f\ufeff", "\\u0000\\u009f\\ufeff"],
    ["\ud800x", "\\ud800x"],
    ["\u{e0041}", "\\u{e0041}"],
    ["Motu Nuí 🛶", "Motu Nuí 🛶"],
  ];
  for (const [text, want] of cases) assert.equal(visible(text), want);
});

test("lists that are tables", () => {
  const lists = (text: string) => listsIn(parseJson(text)).map((l) => l.path);
  assert.deepEqual(lists(`{"items":[{"a":1}],"truncated":false}`), ["items"]);
  assert.deepEqual(lists(`[{"a":1}]`), [""]);
  assert.deepEqual(lists(`{"a":{"b":[{}]},"c":[1],"d":[]}`), ["a.b"]);
  assert.ok(isList(parseJson(`{"orders":[{"id":"1"}],"nextPageToken":""}`)));
  assert.ok(!isList(parseJson(`{"id":"1","to":{},"parcels":[{"x":1}]}`)));
  assert.deepEqual(columnsOf(listsIn(parseJson(`[{"a":1},{"b":2,"a":3}]`))[0]!.rows), ["a", "b"]);
});
