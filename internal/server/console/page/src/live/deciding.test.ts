// SPDX-License-Identifier: Apache-2.0
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import assert from "node:assert/strict";
import { test } from "node:test";
import { ApprovalSchema } from "../gen/outrigger/admin/v1/admin_pb";
import { age, agreed, expiry, maxReason, outcome, reasonFault, split } from "./deciding";

const approval = (id: string, more: MessageInitShape<typeof ApprovalSchema> = {}) =>
  create(ApprovalSchema, { id, state: "waiting", needed: 2, created: timestampFromMs(1000), expires: timestampFromMs(7_200_000), ...more });

test("what waits comes first, the oldest first, and of what was decided the newest", () => {
  const over = Array.from({ length: 30 }, (_, i) => approval(`d${i}`, { state: i % 2 === 0 ? "denied" : "done" }));
  const { waiting, over: shown } = split([approval("a"), ...over, approval("b")]);
  assert.deepEqual(
    waiting.map((a) => a.id),
    ["a", "b"],
  );
  assert.equal(shown.length, 20);
  assert.equal(shown[0]?.id, "d29");
});

test("ages, ends and agreement in words", () => {
  const a = approval("a", { decisions: [{ approver: "otto", approved: true }] });
  assert.equal(agreed(a), "1 of 2");
  assert.equal(age(a, 61_000), "1 minute");
  assert.equal(age(a, 0), "less than a second"); // a clock that is behind
  assert.equal(expiry(a, 0), "in 2 hours");
  assert.equal(expiry(a, 7_200_000), "now");
});

test("a reason has to be there, and to fit", () => {
  assert.ok(reasonFault("  \n") !== "");
  assert.equal(reasonFault("ticket 4711"), "");
  assert.equal(reasonFault("é".repeat(maxReason / 2)), "");
  assert.ok(/1025 bytes/.test(reasonFault("é".repeat(maxReason / 2) + "e")));
});

test("what came of a decision", () => {
  for (const [state, want] of [
    ["waiting", /0 of 2 so far/],
    ["approved", /so the call runs/],
    ["denied", /will not run/],
    ["cancelled", /is cancelled/],
  ] as const) {
    assert.ok(want.test(outcome(approval("a", { state }))));
  }
});
