// SPDX-License-Identifier: Apache-2.0
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import assert from "node:assert/strict";
import { test } from "node:test";
import { AdminService } from "./gen/outrigger/admin/v1/admin_pb";

// What the page reads of a browser when it is loaded.
const address = { origin: "http://127.0.0.1:9901", pathname: "/console/try/lab.echo", hash: "#args=old" };
const history = { replaceState: (_: unknown, __: string, to: string) => (address.hash = to.slice(address.pathname.length)) };
Object.assign(globalThis, { location: address, history });

/** What a call comes to where the answer is this. */
async function failure(answer: () => Response): Promise<unknown> {
  const client = createClient(AdminService, createConnectTransport({ baseUrl: address.origin, fetch: () => Promise.resolve().then(answer) }));
  try {
    await client.refresh({});
  } catch (cause) {
    return cause;
  }
  throw new Error("the call succeeded");
}

test("a sidecar that says that something is unavailable is there", async () => {
  const { isAway } = await import("./api");
  const json = { "Content-Type": "application/json" };
  const cases: [name: string, answer: () => Response, want: boolean][] = [
    ["its own error", () => new Response(`{"code":"unavailable","message":"the backend is away"}`, { status: 503, headers: json }), false],
    ["too many requests", () => new Response("", { status: 429 }), false],
    ["a proxy without it", () => new Response("Bad Gateway", { status: 502 }), true],
    ["no connection", () => { throw new TypeError("Failed to fetch"); }, true],
  ];
  for (const [name, answer, want] of cases) assert.equal(isAway(await failure(answer)), want, name);
  assert.equal(isAway(new ConnectError("draining", Code.Unavailable)), false);
});

test("a fragment that is replaced is the one that a link is compared with", async () => {
  const { fragment, replaceFragment } = await import("./router");
  assert.equal(fragment.value, "args=old");
  replaceFragment("args=new");
  assert.equal(fragment.value, "args=new");
  replaceFragment("");
  assert.equal(fragment.value, "");
});
