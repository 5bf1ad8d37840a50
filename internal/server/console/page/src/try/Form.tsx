// SPDX-License-Identifier: Apache-2.0
// The form of an input schema. It has no state of what is entered: it shows a JSON value, and hands on a changed one.
import { createContext, type ComponentChildren } from "preact";
import { useContext, useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { isNumber, isObject, jsonText, member, tryJson, type Json, type JsonObject } from "../json";
import { Badge, Button, formatBytes, formatCount, Text, visible } from "../ui";
import {
  durationText,
  editableText,
  faultsAt,
  fieldOf,
  firstValue,
  isPlain,
  itemField,
  looksLike,
  oneofsOf,
  propertiesOf,
  sameScalar,
  textOfBase64,
  toBase64,
  typedNumber,
  variantOf,
  variantsOf,
  withKey,
  withOnly,
  withValue,
  type Fault,
  type Field,
  type Oneof,
  type Path,
  type Property,
} from "./fields";

const maxDepth = 24;
const pageSize = 50;
const maxFileBytes = 16 << 20;

interface Scope {
  root: JsonObject;
  faults: Fault[];
  /** Counts the values that came from elsewhere. */
  arrivals: number;
  edit(path: Path, value: Json | undefined): void;
}

const Scope = createContext<Scope>({ root: {}, faults: [], arrivals: 0, edit() {} });

/** A form for values of a schema. */
export function Form(props: { schema: JsonObject; value: Json; faults: Fault[]; onChange: (value: Json) => void }) {
  const { schema, value } = props;
  const field = fieldOf(schema, schema);
  const seen = useRef({ value, isEdited: false, arrivals: 0 });
  const isArrival = seen.current.value !== value && !seen.current.isEdited;
  seen.current = { value, isEdited: false, arrivals: seen.current.arrivals + (isArrival ? 1 : 0) };
  const scope: Scope = {
    root: schema,
    faults: props.faults,
    arrivals: seen.current.arrivals,
    edit: (path, to) => {
      // What is edited is the value of now: a file may have been read meanwhile. Elements move up where one is removed, so that there
      // each control has a value from elsewhere.
      const next = withValue(seen.current.value, path, to);
      seen.current = { ...seen.current, value: next, isEdited: to !== undefined };
      props.onChange(next);
    },
  };
  const isEmpty = field.kind === "object" && propertiesOf(field, schema).length === 0;
  return (
    <Scope.Provider value={scope}>
      <div class="form">
        {isEmpty && <p class="dim">The tool takes no arguments.</p>}
        {field.kind === "object" && looksLike(value, field) ? (
          <Members field={field} path={[]} value={value} depth={0} />
        ) : (
          <Item name="Arguments" field={field} path={[]} value={value} depth={0} />
        )}
      </div>
    </Scope.Provider>
  );
}

/** Gives the focus to a control where the one that had it is gone. */
function refocus(id: string) {
  setTimeout(() => {
    if (document.activeElement === document.body) document.getElementById(id)?.focus();
  });
}

/** The fields of an object. */
function Members(props: { field: Field; path: Path; value: Json | undefined; depth: number }) {
  const { root, faults } = useContext(Scope);
  const [shown, setShown] = useState(2 * pageSize);
  const properties = propertiesOf(props.field, root);
  const oneofs = oneofsOf(props.field, properties);
  const rows: ComponentChildren[] = [];
  const parts: string[] = [];
  for (const p of properties.slice(0, shown)) {
    const oneof = oneofs.find((o) => o.members.includes(p.name));
    if (!oneof) {
      parts.push(p.name);
      rows.push(<Member key={p.name} property={p} path={props.path} value={member(props.value, p.name)} depth={props.depth} />);
      continue;
    }
    if (Object.hasOwn(isObject(props.value) ? props.value : {}, p.name)) parts.push(p.name);
    if (oneof.members[0] !== p.name) continue;
    const members = properties.filter((m) => oneof.members.includes(m.name));
    rows.push(<OneofGroup key={"oneof " + p.name} oneof={oneof} members={members} path={props.path} value={props.value} depth={props.depth} />);
  }
  return (
    <>
      <Faults id={undefined} faults={faultsAt(faults, props.path, parts)} path={props.path} />
      {rows}
      {shown < properties.length && (
        <Button kind="quiet" onClick={() => setShown(shown + 4 * pageSize)}>
          Show more fields ({formatCount(properties.length - shown)} left)
        </Button>
      )}
    </>
  );
}

const isComposite = (f: Field) => ["object", "map", "list", "variants", "json"].includes(f.kind);
const choosesAbsence = (f: Field) => f.kind === "boolean" || f.kind === "enum";

/** A field of an object: with its name, whether it is set, and what it holds. */
function Member(props: { property: Property; path: Path; value: Json | undefined; depth: number }) {
  const { root, edit } = useContext(Scope);
  const { name, field, isRequired } = props.property;
  const path = [...props.path, name];
  const id = useId();
  const isSet = props.value !== undefined;
  const toggle =
    isRequired || (choosesAbsence(field) && (!isSet || looksLike(props.value!, field))) ? null : (
      <input
        type="checkbox"
        id={id}
        aria-label={`Set ${visible(name.slice(0, 80))}`}
        title={isSet ? "Leave it out" : "Set it"}
        checked={isSet}
        onChange={() => {
          edit(path, isSet ? undefined : firstValue(field, root));
          refocus(id);
        }}
      />
    );
  // What has to be there is shown open, so that it can be filled in.
  const shownValue = isRequired && !isSet ? opened(field) : props.value;
  return (
    <Item
      name={name}
      field={field}
      path={path}
      value={shownValue}
      depth={props.depth}
      isRequired={isRequired}
      head={toggle}
    />
  );
}

function opened(field: Field): Json | undefined {
  if (field.kind === "list") return [];
  return field.kind === "object" || field.kind === "map" ? {} : undefined;
}

function OneofGroup(props: { oneof: Oneof; members: Property[]; path: Path; value: Json | undefined; depth: number }) {
  const { root, edit } = useContext(Scope);
  const { oneof, members } = props;
  const id = useId();
  const object = isObject(props.value) ? props.value : {};
  const set = members.filter((m) => Object.hasOwn(object, m.name));
  const choose = (name: string) => {
    const chosen = members.find((m) => m.name === name);
    edit(props.path, withOnly(object, oneof.members, chosen?.name, chosen ? firstValue(chosen.field, root) : null));
  };
  const chosen = set.length === 1 ? set[0]!.name : "";
  return (
    <fieldset class="f group">
      <legend>
        <span class="mono">
          <Text text={oneof.name} max={120} />
        </span>{" "}
        <span class="dim small">one of {members.length}</span> {oneof.isRequired && <Badge kind="info">required</Badge>}
      </legend>
      <label class="unseen" for={id}>
        Which of {visible(oneof.name.slice(0, 120))}
      </label>
      <select id={id} value={chosen} onChange={(e) => choose(e.currentTarget.value)}>
        <option value="">{set.length > 1 ? "(several are set)" : oneof.isRequired ? "Choose…" : "(none)"}</option>
        {members.map((m) => (
          <option key={m.name} value={m.name}>
            {visible(m.name.slice(0, 120))}
          </option>
        ))}
      </select>
      {set.map((m) => (
        <Item key={m.name} name={m.name} field={m.field} path={[...props.path, m.name]} value={object[m.name]} depth={props.depth + 1} />
      ))}
    </fieldset>
  );
}

interface ItemProps {
  name: string;
  field: Field;
  path: Path;
  value: Json | undefined;
  depth: number;
  isRequired?: boolean;
  /** What is before the name, such as the checkbox for presence. */
  head?: ComponentChildren;
  /** What is behind the name, such as the button that removes an element. */
  tail?: ComponentChildren;
}

/** A value with its name: a control, or a group of them. */
function Item(props: ItemProps) {
  const { faults } = useContext(Scope);
  const { field, path } = props;
  const id = useId();
  const isOpen = props.value !== undefined && isComposite(field) && looksLike(props.value, field) && props.depth < maxDepth && field.kind !== "json";
  const mine = faultsAt(faults, path, isOpen ? partsOf(field, props.value!) : []);
  const about = field.about.length > 400 ? field.about.slice(0, 400) + "…" : field.about;
  const note = (
    <>
      {about !== "" && (
        <p class="f-about dim small" id={id + "a"}>
          <Text text={about} />
        </p>
      )}
      {/* The fields of an open message show what is below them. */}
      {!(isOpen && field.kind === "object") && <Faults id={id + "f"} faults={mine} path={path} />}
    </>
  );
  const words = (
    <>
      <span class="mono">
        <Text text={props.name} max={120} />
      </span>{" "}
      <span class="dim small">{kindWord(field)}</span> {props.isRequired && <Badge kind="info">required</Badge>}
      {field.isDeprecated && <Badge kind="warn">deprecated</Badge>}
    </>
  );
  if (isOpen) {
    return (
      <fieldset class="f group">
        <legend>
          {props.head}
          {words}
          {props.tail}
        </legend>
        {note}
        <Composite field={field} path={path} value={props.value!} depth={props.depth + 1} name={props.name} />
      </fieldset>
    );
  }
  const described = [about === "" ? "" : id + "a", mine.length === 0 ? "" : id + "f"].filter((s) => s !== "").join(" ");
  const control: Control = { id, field, path, value: props.value, name: props.name, isInvalid: mine.length > 0, described: described || undefined };
  const isShown = props.value !== undefined || !isComposite(field);
  return (
    <div class="f">
      <div class="f-head">
        {props.head}
        <label for={isShown ? id : undefined}>{words}</label>
        {props.tail}
      </div>
      {isShown && <ValueControl {...control} />}
      {!isShown && props.isRequired && <AddFirst {...control} />}
      {note}
    </div>
  );
}

/** The button that sets a list or value that has to be there. */
function AddFirst(c: Control) {
  const { root, edit } = useContext(Scope);
  return (
    <Button id={c.id} onClick={() => edit(c.path, firstValue(c.field, root))} aria-describedby={c.described}>
      Set {visible(c.name.slice(0, 80))}
    </Button>
  );
}

function partsOf(field: Field, value: Json): string[] {
  if (Array.isArray(value)) return value.map((_, i) => String(i));
  if (field.kind === "map" || field.kind === "object") return isObject(value) ? Object.keys(value) : [];
  return [];
}

function kindWord(field: Field): string {
  switch (field.kind) {
    case "digits":
      return "64-bit";
    case "object":
      return "message";
    case "json":
      return "JSON";
    case "variants":
      return "one of several";
    default:
      return field.kind;
  }
}

function Faults(props: { id: string | undefined; faults: Fault[]; path: Path }) {
  if (props.faults.length === 0) return null;
  const depth = props.path.length;
  return (
    <ul class="f-faults small" id={props.id}>
      {props.faults.slice(0, 20).map((f, i) => (
        <li key={i}>
          {f.path.split("/").length - 1 > depth && (
            <span class="mono">
              <Text text={f.path} max={120} />{" "}
            </span>
          )}
          <Text text={f.message} max={600} />
        </li>
      ))}
      {props.faults.length > 20 && <li>… and {props.faults.length - 20} more</li>}
    </ul>
  );
}

function Composite(props: { field: Field; path: Path; value: Json; depth: number; name: string }) {
  switch (props.field.kind) {
    case "list":
      return <ListItems {...props} value={props.value as Json[]} />;
    case "map":
      return <MapItems {...props} value={props.value as JsonObject} />;
    case "variants":
      return <Variants {...props} />;
    default:
      return <Members field={props.field} path={props.path} value={props.value} depth={props.depth} />;
  }
}

function ListItems(props: { field: Field; path: Path; value: Json[]; depth: number; name: string }) {
  const { root, edit } = useContext(Scope);
  const [shown, setShown] = useState(pageSize);
  const id = useId();
  const item = itemField(props.field, root);
  const add = () => {
    setShown(Math.max(shown, props.value.length + 1));
    edit(props.path, [...props.value, firstValue(item, root)]);
  };
  return (
    <>
      {props.value.slice(0, shown).map((v, i) => (
        <Item
          key={i}
          name={String(i)}
          field={item}
          path={[...props.path, i]}
          value={v}
          depth={props.depth}
          tail={<Remove what={`element ${i} of ${props.name}`} path={[...props.path, i]} next={id} />}
        />
      ))}
      {shown < props.value.length && (
        <Button kind="quiet" onClick={() => setShown(shown + 10 * pageSize)}>
          Show more ({formatCount(props.value.length - shown)} left)
        </Button>
      )}
      <Button class="f-add" id={id} onClick={add}>
        Add<span class="unseen"> an element to {visible(props.name.slice(0, 80))}</span>
      </Button>
    </>
  );
}

function MapItems(props: { field: Field; path: Path; value: JsonObject; depth: number; name: string }) {
  const { root, edit } = useContext(Scope);
  const [shown, setShown] = useState(pageSize);
  const draft = useRef<HTMLInputElement>(null);
  const [fault, setFault] = useState("");
  const id = useId();
  const item = itemField(props.field, root);
  const keys = Object.keys(props.value);
  const add = () => {
    const key = draft.current!.value;
    if (Object.hasOwn(props.value, key)) return setFault("There is an entry with this key.");
    setFault("");
    draft.current!.value = "";
    setShown(Math.max(shown, keys.length + 1));
    edit([...props.path, key], firstValue(item, root));
  };
  const rename = (from: string, input: HTMLInputElement) => {
    const to = input.value;
    if (to !== from && !Object.hasOwn(props.value, to)) return edit(props.path, withKey(props.value, from, to));
    input.value = from;
  };
  return (
    <>
      {keys.slice(0, shown).map((k) => (
        <div class="f-entry" key={k}>
          <input class="mono" aria-label={`Key in ${visible(props.name.slice(0, 80))}`} defaultValue={k} onChange={(e) => rename(k, e.currentTarget)} />
          <Item
            name={k}
            field={item}
            path={[...props.path, k]}
            value={props.value[k]}
            depth={props.depth}
            tail={<Remove what={`entry ${k} of ${props.name}`} path={[...props.path, k]} next={id} />}
          />
        </div>
      ))}
      {shown < keys.length && (
        <Button kind="quiet" onClick={() => setShown(shown + 10 * pageSize)}>
          Show more ({formatCount(keys.length - shown)} left)
        </Button>
      )}
      <div class="row f-add">
        <input
          ref={draft}
          id={id}
          class="mono"
          placeholder="new key"
          aria-label={`New key for ${visible(props.name.slice(0, 80))}`}
          onKeyDown={(e) => {
            if (e.key !== "Enter" || e.ctrlKey || e.metaKey) return;
            e.preventDefault();
            add();
          }}
        />
        <Button onClick={add}>
          Add<span class="unseen"> an entry to {visible(props.name.slice(0, 80))}</span>
        </Button>
        {fault !== "" && <span class="bad small">{fault}</span>}
      </div>
    </>
  );
}

/** The button that removes a part; next has the focus then. */
function Remove(props: { what: string; path: Path; next: string }) {
  const { edit } = useContext(Scope);
  const label = `Remove ${visible(props.what.slice(0, 120))}`;
  return (
    <Button
      kind="quiet"
      class="f-remove"
      aria-label={label}
      title={label}
      onClick={() => {
        edit(props.path, undefined);
        refocus(props.next);
      }}
    >
      ✕
    </Button>
  );
}

function Variants(props: { field: Field; path: Path; value: Json; depth: number; name: string }) {
  const { root, arrivals, edit } = useContext(Scope);
  const variants = variantsOf(props.field, root);
  const [chosen, setChosen] = useState(() => variantOf(props.value, variants, root));
  // What is typed here does not change the choice; a value from elsewhere may be of another variant.
  useEffect(() => setChosen((now) => variantOf(props.value, variants, root, now)), [arrivals]);
  const at = variants[chosen];
  return (
    <>
      <select
        aria-label={`Variant of ${visible(props.name.slice(0, 80))}`}
        value={String(chosen)}
        onChange={(e) => {
          const to = Number(e.currentTarget.value);
          setChosen(to);
          const variant = variants[to]!;
          if (!looksLike(props.value, variant)) edit(props.path, firstValue(variant, root));
        }}
      >
        {variants.slice(0, 100).map((v, i) => (
          <option key={i} value={String(i)}>
            {visible((v.title || `${i + 1}: ${kindWord(v)}`).slice(0, 120))}
          </option>
        ))}
      </select>
      {at && <Item name={props.name} field={at} path={props.path} value={props.value} depth={props.depth + 1} />}
    </>
  );
}

interface Control {
  id: string;
  field: Field;
  path: Path;
  value: Json | undefined;
  name: string;
  isInvalid: boolean;
  described: string | undefined;
}

function attributes(c: Control) {
  return { id: c.id, "aria-invalid": c.isInvalid, "aria-describedby": c.described };
}

function ValueControl(c: Control) {
  if (c.value !== undefined && !looksLike(c.value, c.field)) return <JsonControl {...c} />;
  if (c.field.kind === "text" && typeof c.value === "string" && !isPlain(c.value)) return <JsonControl {...c} />;
  switch (c.field.kind) {
    case "boolean":
    case "enum":
      return <ChoiceControl {...c} />;
    case "number":
    case "digits":
      return <NumberControl {...c} />;
    case "bytes":
      return <BytesControl {...c} />;
    case "timestamp":
      return <TimeControl {...c} />;
    case "duration":
      return <DurationControl {...c} />;
    case "text":
      return <TextControl {...c} />;
    case "null":
      return <output id={c.id}>{c.value === null ? "null" : ""}</output>;
    default:
      return <JsonControl {...c} />;
  }
}

const unset = "not set";

function TextControl(c: Control) {
  const { edit } = useContext(Scope);
  return (
    <textarea
      {...attributes(c)}
      class="f-text"
      rows={1}
      spellcheck={false}
      placeholder={c.value === undefined ? unset : ""}
      value={typeof c.value === "string" ? c.value : ""}
      onInput={(e) => edit(c.path, e.currentTarget.value)}
    />
  );
}

function NumberControl(c: Control) {
  const { edit } = useContext(Scope);
  const shown = typeof c.value === "string" ? c.value : isNumber(c.value) ? c.value.toString() : "";
  return (
    <input
      {...attributes(c)}
      class="mono"
      inputMode={c.field.kind === "digits" ? "numeric" : "decimal"}
      autocomplete="off"
      placeholder={c.value === undefined ? unset : ""}
      value={shown}
      onInput={(e) => {
        const typed = e.currentTarget.value;
        edit(c.path, c.field.kind === "digits" ? typed.trim() : typedNumber(typed));
      }}
    />
  );
}

function ChoiceControl(c: Control) {
  const { edit } = useContext(Scope);
  const words: { value: Json; label: string }[] =
    c.field.kind === "boolean"
      ? [false, true].map((value) => ({ value, label: String(value) }))
      : c.field.options.map((o) => ({ value: o.value, label: o.label + (o.about === "" ? "" : ` (${o.about})`) }));
  const at = c.value === undefined ? -1 : words.findIndex((w) => sameScalar(w.value, c.value!));
  return (
    <select
      {...attributes(c)}
      value={String(at)}
      onChange={(e) => {
        const to = Number(e.currentTarget.value);
        edit(c.path, to < 0 ? undefined : words[to]!.value);
      }}
    >
      <option value="-1">({unset})</option>
      {words.map((w, i) => (
        <option key={i} value={String(i)}>
          {visible(w.label.slice(0, 160))}
        </option>
      ))}
    </select>
  );
}

function TimeControl(c: Control) {
  const { edit } = useContext(Scope);
  return (
    <div class="row">
      <input
        {...attributes(c)}
        class="mono grow"
        autocomplete="off"
        placeholder="2026-01-31T08:15:00Z"
        value={typeof c.value === "string" ? c.value : ""}
        onInput={(e) => edit(c.path, e.currentTarget.value)}
      />
      <input
        type="datetime-local"
        class="f-pick"
        step="1"
        aria-label={`Pick a local time for ${visible(c.name.slice(0, 80))}`}
        onChange={(e) => {
          const picked = new Date(e.currentTarget.value);
          if (!Number.isNaN(picked.getTime())) edit(c.path, picked.toISOString());
        }}
      />
      <Button onClick={() => edit(c.path, new Date().toISOString())}>Now</Button>
    </div>
  );
}

function DurationControl(c: Control) {
  const { edit } = useContext(Scope);
  return (
    <input
      {...attributes(c)}
      class="mono"
      autocomplete="off"
      placeholder="3.5s, 250ms, 1h30m"
      value={typeof c.value === "string" ? c.value : ""}
      onInput={(e) => edit(c.path, e.currentTarget.value)}
      onChange={(e) => {
        const exact = durationText(e.currentTarget.value);
        if (exact !== undefined) edit(c.path, exact);
      }}
    />
  );
}

function JsonControl(c: Control) {
  const { edit } = useContext(Scope);
  const shown = c.value === undefined ? "" : jsonText(c.value);
  const [draft, setDraft] = useState(shown);
  const last = useRef(shown);
  useEffect(() => {
    // The value changed elsewhere, and not by this draft.
    if (shown !== last.current) {
      last.current = shown;
      setDraft(shown);
    }
  }, [shown]);
  const isBroken = draft.trim() !== "" && tryJson(draft) === undefined;
  return (
    <>
      <textarea
        {...attributes(c)}
        class="mono f-text"
        rows={2}
        spellcheck={false}
        aria-invalid={c.isInvalid || isBroken}
        value={draft}
        onInput={(e) => {
          const typed = e.currentTarget.value;
          setDraft(typed);
          const value = tryJson(typed);
          if (value === undefined) return;
          last.current = jsonText(value);
          edit(c.path, value);
        }}
      />
      {isBroken && <p class="bad small">This is no JSON yet; the last value that was is kept.</p>}
    </>
  );
}

function BytesControl(c: Control) {
  const { edit } = useContext(Scope);
  const value = typeof c.value === "string" ? c.value : "";
  const [mode, setMode] = useState(() => (editableText(value) === undefined ? "base64" : "text"));
  const [fault, setFault] = useState("");
  const asText = useMemo(() => (mode === "text" ? editableText(value) : undefined), [mode, value]);
  const read = async (file: File | undefined) => {
    if (!file) return;
    if (file.size > maxFileBytes) return setFault(`The file has ${formatBytes(file.size)}; at most ${formatBytes(maxFileBytes)} are read.`);
    try {
      edit(c.path, toBase64(new Uint8Array(await file.arrayBuffer())));
      setFault("");
    } catch {
      setFault("The browser could not read the file.");
    }
  };
  const size = Math.floor((value.replace(/=+$/, "").length * 3) / 4);
  return (
    <>
      <div class="row f-bytes">
        <select aria-label={`How ${visible(c.name.slice(0, 80))} is entered`} value={mode} onChange={(e) => setMode(e.currentTarget.value)}>
          <option value="text">as text</option>
          <option value="base64">as base64</option>
          <option value="file">from a file</option>
        </select>
        {mode === "file" ? (
          <input {...attributes(c)} type="file" onChange={(e) => void read(e.currentTarget.files?.[0])} />
        ) : (
          <textarea
            {...attributes(c)}
            class={"f-text grow " + (mode === "base64" ? "mono" : "")}
            rows={1}
            spellcheck={false}
            placeholder={c.value === undefined ? unset : ""}
            readOnly={mode === "text" && asText === undefined}
            value={mode === "base64" ? value : (asText ?? "")}
            onInput={(e) => {
              const typed = e.currentTarget.value;
              edit(c.path, mode === "base64" ? typed.trim() : toBase64(new TextEncoder().encode(typed)));
            }}
          />
        )}
      </div>
      {mode === "text" && asText === undefined && <p class="warn small">{textOfBase64(value) === undefined ? "These bytes are no text in UTF-8." : "A field for text would lose the carriage returns in this."} Choose base64.</p>}
      {size > 0 && <p class="dim small">{formatBytes(size)}</p>}
      {fault !== "" && <p class="bad small">{fault}</p>}
    </>
  );
}
