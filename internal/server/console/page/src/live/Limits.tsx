// SPDX-License-Identifier: Apache-2.0
import { useState } from "preact/hooks";
import type { Limit } from "../gen/outrigger/admin/v1/admin_pb";
import { Badge, Button, Text } from "../ui";
import { percent } from "./format";
import { byPressure, limitText, pressure } from "./pressure";

/** From this share on, a limit is near. */
const near = 0.8;

/** The limits of the configuration, with what is used of each and what it refused. */
export function Limits(props: { limits: readonly Limit[] }) {
  const [isAll, setAll] = useState(false);
  const sorted = byPressure(props.limits);
  // Most limits have no amount and have refused nothing: they are there for those who ask.
  const told = sorted.filter((l) => l.used !== undefined || l.refused > 0n);
  const shown = isAll ? sorted : told;
  return (
    <section class="stack" aria-labelledby="limits">
      <h2 id="limits">Limits</h2>
      <table class="plain limits" role="table">
        <thead role="rowgroup">
          <tr role="row">
            <th role="columnheader" scope="col">Limit</th>
            <th role="columnheader" scope="col">In use</th>
            <th role="columnheader" scope="col" class="num">Used of most</th>
            <th role="columnheader" scope="col" class="num">Refused</th>
          </tr>
        </thead>
        <tbody role="rowgroup">
          {shown.map((l) => (
            <LimitRow key={l.name} limit={l} />
          ))}
        </tbody>
      </table>
      {sorted.length > told.length && (
        <div>
          <Button kind="quiet" aria-expanded={isAll} onClick={() => setAll(!isAll)}>
            {isAll ? "Show those in use" : `Show all ${sorted.length} limits`}
          </Button>
        </div>
      )}
    </section>
  );
}

function usedOfMost(l: Limit): string {
  if (l.used === undefined) return limitText(l.name, l.most);
  return l.most > 0 ? `${limitText(l.name, l.used)} of ${limitText(l.name, l.most)}` : `${limitText(l.name, l.used)}, no bound`;
}

function LimitRow(props: { limit: Limit }) {
  const l = props.limit;
  const share = pressure(l);
  const kind = share >= 1 ? "bad" : share >= near ? "warn" : "";
  return (
    <tr role="row">
      <th role="rowheader" scope="row" class="mono">
        <Text text={l.name} max={120} />
      </th>
      <td role="cell">
        {l.used === undefined ? (
          <span class="dim">no amount</span>
        ) : (
          <span class="row use">
            <span class={"bar " + kind} aria-hidden="true">
              <span style={{ width: `${Math.min(100, 100 * share).toFixed(1)}%` }} />
            </span>
            <span>{l.most > 0 ? percent(share) : "–"}</span>
            {share >= 1 && <Badge kind="bad">full</Badge>}
            {share >= near && share < 1 && <Badge kind="warn">near</Badge>}
          </span>
        )}
      </td>
      <td role="cell" class="num">
        {usedOfMost(l)}
      </td>
      <td role="cell" class={"num refused" + (l.refused > 0n ? " warn strong" : "")}>{l.refused.toLocaleString("en")}</td>
    </tr>
  );
}
