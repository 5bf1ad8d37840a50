// SPDX-License-Identifier: Apache-2.0
// What a call came to: as a tree, as a table where it is a list, as the content that an agent gets, and as the message itself.
import { useMemo, useState } from "preact/hooks";
import { isNumber, isObject, member, text, tryJson, type Json, type JsonObject } from "../json";
import { readResource, type Outcome } from "../mcp/client";
import { Badge, Button, Copy, ErrorNote, formatBytes, formatCount, Spinner, Tabs, Text, Tree } from "../ui";
import { LongText, save, useBlobURL } from "./download";
import { fromBase64 } from "./fields";
import { cellText, columnsOf, isList, listsIn, type List } from "./table";

export function Result(props: { outcome: Outcome; caller: string }) {
  const { outcome } = props;
  switch (outcome.kind) {
    case "cancelled":
      return <p class="note warn">Cancelled.</p>;
    case "refused":
      return <ErrorNote title={outcome.status > 0 ? `Refused with status ${outcome.status}` : "No response"} text={outcome.text} />;
    case "error":
      return <CallError outcome={outcome} />;
    case "result":
      return <CallResult result={outcome.result} raw={outcome.raw} caller={props.caller} />;
  }
}

function CallError(props: { outcome: Extract<Outcome, { kind: "error" }> }) {
  const { error, raw } = props.outcome;
  const data = member(error, "data");
  return (
    <div class="stack">
      <div class="note bad">
        <p class="row">
          <Badge kind="bad">
            <Text text={text(data, "code") || cellText(member(error, "code"))} max={80} />
          </Badge>
          {member(data, "retryable") === true && <Badge>retryable</Badge>}
        </p>
        <Text text={text(error, "message")} max={4_000} />
      </div>
      <Views views={[{ id: "tree", label: "Tree", value: data ?? error }, { id: "message", label: "Message" }]} raw={raw} caller="" />
    </div>
  );
}

interface View {
  id: string;
  label: string;
  value?: Json;
  lists?: List[];
  content?: Json[];
}

function CallResult(props: { result: JsonObject; raw: string; caller: string }) {
  const { result } = props;
  const views = useMemo(() => viewsOf(result), [result]);
  const isError = member(result, "isError") === true;
  const meta = member(result, "_meta");
  const code = text(member(meta, "dev.outrigger/error"), "code");
  const status = text(member(meta, "dev.outrigger/result"), "status");
  return (
    <div class="stack">
      {isError && (
        <p class="note bad row">
          <span class="strong">The call failed.</span>
          {code !== "" && (
            <Badge kind="bad">
              <Text text={code} max={80} />
            </Badge>
          )}
        </p>
      )}
      {status !== "" && (
        <p class="note warn">
          The result is marked as <Text text={status} max={80} />.
        </p>
      )}
      <Views views={views} raw={props.raw} caller={props.caller} />
    </div>
  );
}

function viewsOf(result: JsonObject): View[] {
  const content = member(result, "content");
  const blocks = Array.isArray(content) ? content : [];
  const value = member(result, "structuredContent") ?? onlyJson(blocks);
  const isMedia = blocks.some((b) => text(b, "type") !== "text");
  const views: View[] = [];
  if (value !== undefined) {
    const lists = listsIn(value);
    views.push({ id: "tree", label: "Tree", value });
    if (lists.length > 0) views.splice(isList(value) ? 0 : 1, 0, { id: "table", label: "Table", lists });
  }
  if (blocks.length > 0) {
    const view: View = { id: "content", label: `Content (${blocks.length})`, content: blocks };
    if (isMedia || member(result, "isError") === true) views.unshift(view);
    else views.push(view);
  }
  const details = member(member(result, "_meta"), "dev.outrigger/error");
  if (details !== undefined) views.push({ id: "details", label: "Details", value: details });
  views.push({ id: "message", label: "Message" });
  return views;
}

/** The value of a text block that is JSON, where that is all there is. */
function onlyJson(blocks: Json[]): Json | undefined {
  if (blocks.length !== 1) return undefined;
  const value = tryJson(text(blocks[0], "text"));
  return isObject(value) || Array.isArray(value) ? value : undefined;
}

function Views(props: { views: View[]; raw: string; caller: string }) {
  const [chosen, setChosen] = useState("");
  const view = props.views.find((v) => v.id === chosen) ?? props.views[0]!;
  return (
    <Tabs tabs={props.views} selected={view.id} onSelect={setChosen} label="Ways to see the result">
      {view.lists && <Tables lists={view.lists} />}
      {view.value !== undefined && <Tree value={view.value} />}
      {view.content && <Blocks blocks={view.content} caller={props.caller} />}
      {view.id === "message" && (
        <>
          <div class="row end">
            <Copy text={props.raw} label="Copy the message" />
          </div>
          <LongText text={props.raw} fileName="message.json" type="application/json" label="Message as it was received" />
        </>
      )}
    </Tabs>
  );
}

const rowPage = 100;

function Tables(props: { lists: List[] }) {
  const [at, setAt] = useState(0);
  const [shown, setShown] = useState(rowPage);
  const list = props.lists[at] ?? props.lists[0]!;
  const columns = useMemo(() => columnsOf(list.rows), [list]);
  return (
    <div class="stack">
      {props.lists.length > 1 && (
        <label class="row">
          <span class="dim">List</span>
          <select
            value={String(at)}
            onChange={(e) => {
              setAt(Number(e.currentTarget.value));
              setShown(rowPage);
            }}
          >
            {props.lists.map((l, i) => (
              <option key={i} value={String(i)}>
                {l.path.slice(0, 120)} ({formatCount(l.rows.length)})
              </option>
            ))}
          </select>
        </label>
      )}
      <div class="scroll" tabIndex={0} role="region" aria-label={`Table of ${list.path || "the result"}`}>
        <table class="result-table">
          <thead>
            <tr>
              <th scope="col">#</th>
              {columns.map((c) => (
                <th key={c} scope="col">
                  <Text text={c} max={60} />
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {list.rows.slice(0, shown).map((row, i) => (
              <tr key={i}>
                <td class="dim num">{i}</td>
                {columns.map((c) => {
                  const value = member(row, c);
                  return (
                    <td key={c} class={isNumber(value) ? "num" : ""}>
                      <Text text={cellText(value)} max={160} />
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {shown < list.rows.length && (
        <div>
          <Button kind="quiet" onClick={() => setShown(shown + 10 * rowPage)}>
            Show more rows ({formatCount(list.rows.length - shown)} left)
          </Button>
        </div>
      )}
    </div>
  );
}

const blockPage = 50;

function Blocks(props: { blocks: Json[]; caller: string }) {
  const [shown, setShown] = useState(blockPage);
  return (
    <div class="stack">
      {props.blocks.slice(0, shown).map((b, i) => (
        <Block key={i} block={b} at={i} caller={props.caller} />
      ))}
      {shown < props.blocks.length && (
        <Button kind="quiet" onClick={() => setShown(shown + 4 * blockPage)}>
          Show more ({formatCount(props.blocks.length - shown)} left)
        </Button>
      )}
    </div>
  );
}

function Block(props: { block: Json; at: number; caller: string }) {
  const { block, at } = props;
  switch (text(block, "type")) {
    case "text":
      return <LongText text={text(block, "text")} fileName={`content-${at}.txt`} label={`Text ${at + 1}`} />;
    case "image":
    case "audio":
      return <Media data={text(block, "data")} type={text(block, "mimeType")} name={`content-${at}`} />;
    case "resource_link":
      return <ResourceLink link={block} caller={props.caller} />;
    case "resource":
      return <ResourceContents contents={member(block, "resource") ?? {}} />;
    default:
      return <Tree value={block} />;
  }
}

const images = /^image\/(png|jpeg|gif|webp|avif|bmp|svg\+xml)$/;

/** Bytes with a MIME type. Pictures are shown as pictures, in which nothing runs; the rest, such as sound, is for saving. */
function Media(props: { data: string; type: string; name: string }) {
  const bytes = useMemo(() => fromBase64(props.data) as Uint8Array<ArrayBuffer> | undefined, [props.data]);
  const [failed, setFailed] = useState(false);
  const type = props.type.toLowerCase().split(";")[0]!.trim();
  const url = useBlobURL(images.test(type) ? bytes : undefined, type);
  if (!bytes) return <ErrorNote text="The content is not the base64 that it should be." />;
  return (
    <figure class="media">
      {url && !failed && <img src={url} alt={`Result of type ${type}`} onError={() => setFailed(true)} />}
      <figcaption class="row">
        <Badge>
          <Text text={props.type || "no type"} max={80} />
        </Badge>
        <span class="dim small">{formatBytes(bytes.length)}</span>
        {failed && <span class="warn small">The browser cannot show it.</span>}
        <Button kind="quiet" onClick={() => save(props.name, "application/octet-stream", bytes)}>
          Download
        </Button>
      </figcaption>
    </figure>
  );
}

function ResourceContents(props: { contents: Json }) {
  const { contents } = props;
  const blob = member(contents, "blob");
  const type = text(contents, "mimeType");
  return (
    <div class="stack tight">
      <p class="mono small dim">
        <Text text={text(contents, "uri")} max={300} />
      </p>
      {typeof blob === "string" ? (
        <Media data={blob} type={type} name="resource" />
      ) : (
        <LongText text={text(contents, "text")} fileName="resource.txt" label="Resource" />
      )}
    </div>
  );
}

/** A link to a resource of the sidecar, with a way to read it. */
function ResourceLink(props: { link: Json; caller: string }) {
  const uri = text(props.link, "uri");
  const [state, setState] = useState<{ busy?: boolean; contents?: Json[]; error?: string }>({});
  const read = async () => {
    setState({ busy: true });
    const never = new AbortController().signal;
    try {
      const o = await readResource(
        { revision: "2026-07-28", caller: props.caller, name: "", mcpName: "", argumentsText: "", arguments: {}, inputSchema: undefined, cancel: never, leave: AbortSignal.timeout(60_000) },
        uri,
      );
      const contents = o.kind === "result" ? member(o.result, "contents") : undefined;
      if (Array.isArray(contents)) setState({ contents });
      else setState({ error: o.kind === "error" ? text(o.error, "message") : o.kind === "refused" ? o.text : "There are no contents." });
    } catch {
      setState({ error: "The sidecar did not answer." });
    }
  };
  return (
    <div class="card stack tight">
      <div class="row">
        <Badge>resource</Badge>
        <span class="strong">
          <Text text={text(props.link, "title") || text(props.link, "name")} max={200} />
        </span>
        <span class="mono small dim">
          <Text text={uri} max={300} />
        </span>
        <Copy text={uri} label="Copy the URI" />
        <Button onClick={() => void read()} disabled={state.busy === true}>
          Read
        </Button>
      </div>
      {text(props.link, "description") !== "" && (
        <p class="dim">
          <Text text={text(props.link, "description")} />
        </p>
      )}
      {state.busy && <Spinner label="Reading…" />}
      {state.error !== undefined && <ErrorNote text={state.error} />}
      {state.contents?.slice(0, blockPage).map((c, i) => (
        <ResourceContents key={i} contents={c} />
      ))}
    </div>
  );
}
