// SPDX-License-Identifier: Apache-2.0
// Small parts that both pages use. Texts from backends pass through Text: never HTML, and nothing in them acts on the page.
import { signal } from "@preact/signals";
import { Component, type ComponentChildren, type JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { isNumber, isObject, type Json } from "./json";

// What is invisible or changes what is around it: C0 but tab and newline, C1, marks of direction, zero widths, tags, halves of pairs.
const hidden =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu;

/** A text with escapes, such as \u001b, for what is invisible or acts on the text around it. */
export function visible(text: string): string {
  return text.replace(hidden, (c) => {
    const code = c.codePointAt(0)!;
    return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

const count = new Intl.NumberFormat("en");
export const formatCount = (n: number | bigint) => count.format(n);

/** A text that was written elsewhere. At most max characters get into the page; the length says that there are more. */
export function Text(props: { text: string; max?: number; class?: string }) {
  const max = props.max ?? 2_000;
  const cut = props.text.length > max;
  return (
    <bdi class={"text " + (props.class ?? "")}>
      {visible(cut ? props.text.slice(0, max) : props.text)}
      {cut && <span class="dim">… ({formatCount(props.text.length)} characters)</span>}
    </bdi>
  );
}

type ButtonProps = Omit<JSX.IntrinsicElements["button"], "kind"> & { kind?: "primary" | "danger" | "quiet" };

export function Button({ kind, class: classes, ...rest }: ButtonProps) {
  return <button type="button" {...rest} class={`button ${kind ?? ""} ${typeof classes === "string" ? classes : ""}`} />;
}

export function Badge(props: { kind?: "ok" | "warn" | "bad" | "info"; title?: string; children: ComponentChildren }) {
  return (
    <span class={"badge " + (props.kind ?? "")} title={props.title}>
      {props.children}
    </span>
  );
}

const announced = signal("");

/** Says something to screen readers, politely. */
export function announce(text: string): void {
  announced.value = text;
}

/** What announce says. Once in the page. */
export function LiveRegion() {
  return (
    <div class="unseen" role="status" aria-live="polite">
      {announced}
    </div>
  );
}

/** Copies a text, and says so. */
export function Copy(props: { text: string | (() => string); label: string; children?: ComponentChildren }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    const ok = await copyText(typeof props.text === "string" ? props.text : props.text());
    setDone(ok);
    announce(ok ? `${props.label}: copied` : "The browser did not allow to copy");
    if (ok) setTimeout(() => setDone(false), 1_500);
  };
  return (
    <Button kind="quiet" class="copy" aria-label={props.label} title={props.label} onClick={copy}>
      {props.children}
      <svg viewBox="0 0 16 16" width="14" height="14" fill="none" stroke="currentColor" stroke-width="1.5" aria-hidden="true">
        {done ? <path d="M3 8.5l3.5 3.5L13 4.5" /> : <path d="M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3" />}
      </svg>
    </Button>
  );
}

async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without a secure context, as beyond loopback, there is no clipboard but that of a selection.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const ok = document.execCommand("copy");
    area.remove();
    return ok;
  }
}

export interface Tab {
  id: string;
  label: ComponentChildren;
}

/** Tabs, with the panel of the selected one as children. Arrow keys move. */
export function Tabs(props: {
  tabs: Tab[];
  selected: string;
  onSelect: (id: string) => void;
  label: string;
  children: ComponentChildren;
}) {
  const prefix = useId();
  const list = useRef<HTMLDivElement>(null);
  const key = (e: KeyboardEvent) => {
    const at = props.tabs.findIndex((t) => t.id === props.selected);
    const last = props.tabs.length - 1;
    const to = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at === 0 ? last : at - 1, Home: 0, End: last }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    props.onSelect(props.tabs[to]!.id);
    list.current?.querySelectorAll<HTMLElement>("[role=tab]")[to]?.focus();
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label={props.label} ref={list} onKeyDown={key}>
        {props.tabs.map((t) => (
          <button
            key={t.id}
            type="button"
            role="tab"
            id={`${prefix}-${t.id}`}
            aria-selected={t.id === props.selected}
            aria-controls={`${prefix}-panel`}
            tabIndex={t.id === props.selected ? 0 : -1}
            onClick={() => props.onSelect(t.id)}
          >
            {t.label}
          </button>
        ))}
      </div>
      <div class="panel" role="tabpanel" id={`${prefix}-panel`} aria-labelledby={`${prefix}-${props.selected}`}>
        {props.children}
      </div>
    </>
  );
}

/** A modal dialog while open is true. Escape closes it, and the focus returns to where it was. */
export function Dialog(props: { open: boolean; title: string; onClose: () => void; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  const title = useId();
  useEffect(() => {
    const dialog = ref.current!;
    if (props.open && !dialog.open) dialog.showModal();
    if (!props.open && dialog.open) dialog.close();
  }, [props.open]);
  return (
    <dialog ref={ref} aria-labelledby={title} onClose={props.onClose}>
      <h2 id={title}>{props.title}</h2>
      {props.open && props.children}
    </dialog>
  );
}

/** A question before something that cannot be undone. */
export function Confirm(props: {
  open: boolean;
  title: string;
  action: string;
  /** What is done instead; "Keep as it is" if it is not given. */
  refuse?: string;
  danger?: boolean;
  onConfirm: () => void;
  onClose: () => void;
  children: ComponentChildren;
}) {
  return (
    <Dialog open={props.open} title={props.title} onClose={props.onClose}>
      {props.children}
      <div class="row end">
        <Button onClick={props.onClose}>{props.refuse ?? "Keep as it is"}</Button>
        <Button kind={props.danger ? "danger" : "primary"} onClick={props.onConfirm}>
          {props.action}
        </Button>
      </div>
    </Dialog>
  );
}

export function Empty(props: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="strong">{props.title}</p>
      {props.children}
    </div>
  );
}

export function ErrorNote(props: { title?: string; text: string; children?: ComponentChildren }) {
  return (
    <div class="note bad" role="alert">
      {props.title && <p class="strong">{props.title}</p>}
      <p>
        <Text text={props.text} />
      </p>
      {props.children}
    </div>
  );
}

export function Spinner(props: { label: string }) {
  return (
    <span class="spinner" role="status">
      <span class="wheel" aria-hidden="true" />
      {props.label}
    </span>
  );
}

/** Keeps a fault in a part of the page from taking the others with it. */
export class Boundary extends Component<{ children: ComponentChildren }, { fault: string }> {
  override state = { fault: "" };
  override componentDidCatch(fault: unknown): void {
    this.setState({ fault: String(fault) });
  }
  render() {
    return this.state.fault === "" ? this.props.children : <ErrorNote title="This part of the page broke. Others may work." text={this.state.fault} />;
  }
}

const treePage = 100;

/** A JSON value as a tree that opens and closes. Only what is open is in the page, and of long lists a part. */
export function Tree(props: { value: Json; name?: string; depth?: number }) {
  return (
    <div class="tree mono">
      <Branch value={props.value} name={props.name} open={props.depth ?? 2} />
    </div>
  );
}

function Branch(props: { value: Json; name?: string | undefined; open: number }) {
  const { value, name } = props;
  if (Array.isArray(value) || isObject(value)) return <Fold value={value} name={name} open={props.open} />;
  return (
    <div class="leaf">
      <Key name={name} />
      <Scalar value={value} />
    </div>
  );
}

function Key(props: { name: string | undefined }) {
  if (props.name === undefined) return null;
  return (
    <span class="tree-key">
      <Text text={props.name} max={200} />
      <span class="dim">: </span>
    </span>
  );
}

function Fold(props: { value: Json[] | { [key: string]: Json }; name: string | undefined; open: number }) {
  const [open, setOpen] = useState(props.open > 0);
  const [shown, setShown] = useState(treePage);
  const { value } = props;
  const isList = Array.isArray(value);
  const keys = isList ? undefined : Object.keys(value);
  const size = isList ? value.length : keys!.length;
  if (size === 0) {
    return (
      <div class="leaf">
        <Key name={props.name} />
        <span class="dim">{isList ? "[]" : "{}"}</span>
      </div>
    );
  }
  const rows = [];
  for (let i = 0; open && i < Math.min(size, shown); i++) {
    const key = isList ? String(i) : keys![i]!;
    const of = isList ? value[i]! : value[key]!;
    rows.push(<Branch key={key} name={key} value={of} open={props.open - 1} />);
  }
  return (
    <details open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <Key name={props.name} />
        <span class="dim">
          {isList ? "[" : "{"} {formatCount(size)} {isList ? (size === 1 ? "item" : "items") : size === 1 ? "field" : "fields"} {isList ? "]" : "}"}
        </span>
      </summary>
      <div class="children">
        {rows}
        {open && shown < size && (
          <Button kind="quiet" onClick={() => setShown(shown + 10 * treePage)}>
            Show more ({formatCount(size - shown)} left)
          </Button>
        )}
      </div>
    </details>
  );
}

function Scalar(props: { value: Json }) {
  const { value } = props;
  const [all, setAll] = useState(false);
  if (typeof value === "string") {
    const max = all ? 262_144 : 1_000;
    return (
      <span class="string">
        "<Text text={value} max={max} />"
        {!all && value.length > max && (
          <Button kind="quiet" onClick={() => setAll(true)}>
            Show more
          </Button>
        )}
      </span>
    );
  }
  if (isNumber(value)) return <span class="number">{value.toString().slice(0, 400)}</span>;
  return <span class="word">{String(value)}</span>;
}

/** Bytes with a unit, such as "1.4 MB". */
export function formatBytes(n: number): string {
  if (n < 1_000) return `${n} B`;
  return n < 1_000_000 ? `${(n / 1_000).toFixed(1)} kB` : `${(n / 1_000_000).toFixed(1)} MB`;
}
