// SPDX-License-Identifier: Apache-2.0
import type { Call } from "../gen/outrigger/admin/v1/admin_pb";
import { Text } from "../ui";
import { millis, took } from "./format";

/** Steps that are drawn; a call with more of them repeats itself. */
const most = 200;

/** A bar is this wide at least, in percent of the whole, so that it can be seen. */
const least = 0.4;

/** The steps of a call as bars over its time, in a table that says the same in numbers. */
export function Waterfall(props: { call: Call }) {
  const { call } = props;
  const end = call.steps.reduce((n, s) => Math.max(n, millis(s.at) + millis(s.took)), millis(call.took));
  const part = (ms: number) => (end > 0 ? (100 * ms) / end : 0);
  return (
    <>
      <p class="small dim row" aria-hidden="true">
        <span class="sign">
          <span class="swatch own" /> in the sidecar
        </span>
        <span class="sign">
          <span class="swatch upstream" /> waits for the backend or a user
        </span>
      </p>
      <table class="plain waterfall" role="table">
        <thead role="rowgroup">
          <tr role="row">
            <th role="columnheader" scope="col">Step</th>
            <th role="columnheader" scope="col" class="num">Begins at</th>
            <th role="columnheader" scope="col" class="num">Took</th>
            <th role="columnheader" scope="col">Where</th>
            <th class="lane" aria-hidden="true">
              <span class="row between">
                <span>0</span>
                <span>{took(end)}</span>
              </span>
            </th>
          </tr>
        </thead>
        <tbody role="rowgroup">
          {call.steps.slice(0, most).map((s, i) => {
            const at = part(millis(s.at));
            const width = Math.max(least, part(millis(s.took)));
            return (
              <tr key={i} role="row">
                <th role="rowheader" scope="row">
                  <Text text={s.name} max={80} />
                </th>
                <td role="cell" class="num">{took(millis(s.at))}</td>
                <td role="cell" class="num">{took(millis(s.took))}</td>
                <td role="cell">{s.isUpstream ? "waits" : "sidecar"}</td>
                <td class="lane" aria-hidden="true">
                  <span class="track">
                    <span
                      class={s.isUpstream ? "upstream" : "own"}
                      style={{ left: `${Math.min(100 - least, at).toFixed(2)}%`, width: `${Math.min(width, 100 - Math.min(100 - least, at)).toFixed(2)}%` }}
                    />
                  </span>
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {call.steps.length > most && <p class="dim">{call.steps.length - most} more steps are left out.</p>}
    </>
  );
}
