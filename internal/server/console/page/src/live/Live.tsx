// SPDX-License-Identifier: Apache-2.0
import { useEffect, useRef, useState } from "preact/hooks";
import { away, errorText } from "../api";
import { base } from "../router";
import { ErrorNote, Spinner } from "../ui";
import { Actions } from "./Actions";
import { Approvals } from "./Approvals";
import { Calls } from "./Calls";
import { Charts } from "./Charts";
import { formatFilter, parseFilter, type Filter } from "./filter";
import { clock, epochMillis } from "./format";
import { Limits } from "./Limits";
import { LongLivedLists } from "./LongLived";
import { OneCall } from "./OneCall";
import { Parts } from "./Parts";
import { link, restarted, store, tick, watchSidecar } from "./stream";
import { Summary } from "./Summary";

/** The page of what happens now. path is what follows /console/live: "" or "/ID". */
export function Live(props: { path: string }) {
  useEffect(watchSidecar, []);
  const [filter, setFilter] = useFilter(props.path === "");
  const id = props.path.slice(1);
  // Who comes back from a call is where it was in the table.
  const from = useRef("");
  if (id !== "") from.current = id;
  return (
    <div class="live">
      {id === "" ? <Overview from={from.current} filter={filter} setFilter={setFilter} /> : <OneCall key={id} id={id} back={base + "/live" + formatFilter(filter)} />}
    </div>
  );
}

/** Time after a change of the filter until the address has it, in milliseconds: browsers bound how often addresses change. */
const settleMs = 250;

/** The filter, which is that of the address while the table is shown. */
function useFilter(isShown: boolean): [Filter, (f: Filter) => void] {
  // Each message of the stream looks at the address: links to other filters change it without this page.
  void tick.value;
  const [filter, setFilter] = useState(() => parseFilter(location.search));
  const query = useRef(location.search);
  const timer = useRef(0);
  const read = () => {
    if (location.search === query.current || timer.current !== 0) return;
    query.current = location.search;
    setFilter(parseFilter(location.search));
  };
  useEffect(() => {
    if (isShown) read();
  });
  useEffect(() => {
    if (!isShown) return;
    addEventListener("popstate", read);
    return () => {
      removeEventListener("popstate", read);
      clearTimeout(timer.current);
      timer.current = 0;
    };
  }, [isShown]);
  const change = (f: Filter) => {
    setFilter(f);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      timer.current = 0;
      history.replaceState(null, "", base + "/live" + formatFilter(f));
      query.current = location.search;
    }, settleMs);
  };
  return [filter, change];
}

function Overview(props: { from: string; filter: Filter; setFilter: (f: Filter) => void }) {
  void tick.value;
  const last = store.last;
  return (
    <>
      <h1 class="unseen">Live</h1>
      <LinkNote />
      {last ? (
        <>
          <Summary state={last} />
          <Actions key={restarted.value} state={last} />
          <Approvals key={"approvals" + restarted.value} waiting={last.approvals} now={epochMillis(last.time)} />
          <Calls from={props.from} filter={props.filter} setFilter={props.setFilter} />
          <Charts onTool={(tool) => props.setFilter({ ...props.filter, tool })} />
          <LongLivedLists key={"long-lived" + restarted.value} state={last} />
          <Limits limits={last.limits} />
          <Parts state={last} />
        </>
      ) : (
        !away.value && <Spinner label="Waiting for the sidecar…" />
      )}
    </>
  );
}

/** What is wrong with the stream. That the sidecar is away is said above the page. */
function LinkNote() {
  const l = link.value;
  if (l.state === "here" || !l.error) return null;
  const last = store.last;
  const asOf = last ? ` This is what was known at ${clock(epochMillis(last.time))}.` : "";
  if (away.value) return asOf ? <p class="note warn">{asOf.trim()}</p> : null;
  return <ErrorNote title="The sidecar does not send its state" text={errorText(l.error) + ". The page tries again." + asOf} />;
}
