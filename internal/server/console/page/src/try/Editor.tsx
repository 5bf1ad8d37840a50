// SPDX-License-Identifier: Apache-2.0
// The JSON editor, loaded when a tool is first shown.
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json, jsonParseLinter } from "@codemirror/lang-json";
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting, syntaxTree } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { EditorState, type Text as Doc } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";
import { visible } from "../ui";
import { splitPointer, type Fault } from "./fields";

interface EditorProps {
  text: string;
  /** Counts the changes of the text that were made elsewhere: those it takes over. Its own may be shown late, and are in it already. */
  changed: number;
  label: string;
  faults: Fault[];
  onText: (text: string) => void;
  onCall: () => void;
}

// The colours are those of the page: custom properties reach into the shadow root.
const theme = EditorView.theme({
  "&": { fontSize: "12.5px", backgroundColor: "var(--surface)", color: "var(--text)", maxHeight: "60vh", borderRadius: "6px", border: "1px solid var(--edge)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5", minHeight: "140px" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--raised)", color: "var(--dim)", border: "0", minHeight: "140px !important" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--raised) 55%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--accent-soft)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--accent-soft)", outline: "1px solid var(--accent)" },
  ".cm-tooltip": { backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--line)" },
});

const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--accent)" },
  { tag: tags.string, color: "var(--string)" },
  { tag: tags.number, color: "var(--number)" },
  { tag: [tags.bool, tags.null], color: "var(--word)" },
  { tag: tags.invalid, color: "var(--bad)" },
]);

export function Editor(props: EditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  const now = useRef(props);
  now.current = props;
  const isTaking = useRef(false);

  useEffect(() => {
    // In a shadow root the editor's styles are constructed sheets, which the page's content security policy allows.
    const root = host.current!.shadowRoot ?? host.current!.attachShadow({ mode: "open" });
    const made = new EditorView({
      parent: root,
      root,
      state: EditorState.create({
        doc: now.current.text,
        extensions: [
          lineNumbers(),
          lintGutter(),
          history(),
          highlightSpecialChars(),
          drawSelection(),
          indentOnInput(),
          bracketMatching(),
          highlightActiveLine(),
          json(),
          syntaxHighlighting(colours),
          theme,
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": now.current.label, spellcheck: "false" }),
          // Tab moves the focus on, as everywhere in the page.
          keymap.of([{ key: "Mod-Enter", run: () => (now.current.onCall(), true) }, ...historyKeymap, ...lintKeymap, ...defaultKeymap]),
          EditorView.updateListener.of((u) => {
            if (u.docChanged && !isTaking.current) now.current.onText(u.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = made;
    return () => made.destroy();
  }, []);

  useEffect(() => {
    const v = view.current!;
    const shown = v.state.doc.toString();
    if (shown === now.current.text) return;
    isTaking.current = true;
    v.dispatch({ changes: difference(shown, now.current.text) });
    isTaking.current = false;
  }, [props.changed]);

  useEffect(() => {
    const v = view.current!;
    v.dispatch(setDiagnostics(v.state, diagnostics(v, props.faults)));
  }, [props.faults, props.text]);

  return <div ref={host} class="editor" />;
}

/** The smallest single change from one text to another: the cursor and the history stay right. */
function difference(from: string, to: string): { from: number; to: number; insert: string } {
  let start = 0;
  while (start < from.length && start < to.length && from[start] === to[start]) start++;
  let end = 0;
  while (end < from.length - start && end < to.length - start && from[from.length - 1 - end] === to[to.length - 1 - end]) end++;
  return { from: start, to: from.length - end, insert: to.slice(start, to.length - end) };
}

const parseLint = jsonParseLinter();

function diagnostics(v: EditorView, faults: Fault[]): Diagnostic[] {
  if (v.state.doc.length === 0) return [];
  const broken = parseLint(v);
  if (broken.length > 0) return broken;
  return faults.slice(0, 200).map((f) => ({ ...rangeOf(v, f.path), severity: "error", message: visible(f.message.slice(0, 600)) }));
}

/** Where the value of a JSON Pointer is in the text, or the innermost that is there on the way to it. */
function rangeOf(v: EditorView, pointer: string): { from: number; to: number } {
  let node = syntaxTree(v.state).topNode.firstChild;
  let mark = node;
  for (const part of splitPointer(pointer)) {
    let next = null;
    if (node?.name === "Array") next = node.getChildren("⚠").length > 0 ? null : elementAt(node, Number(part));
    for (const p of node?.name === "Object" ? node.getChildren("Property") : []) {
      const key = p.getChild("PropertyName");
      if (key && keyOf(v.state.doc, key.from, key.to) === part) {
        next = p.lastChild;
        mark = key;
      }
    }
    if (!next) break;
    if (node?.name === "Array") mark = next;
    node = next;
  }
  if (!mark) return { from: 0, to: 0 };
  // A whole object is marked at its first line.
  return { from: mark.from, to: Math.min(mark.to, v.state.doc.lineAt(mark.from).to) };
}

function elementAt(array: NonNullable<ReturnType<typeof syntaxTree>["topNode"]["firstChild"]>, at: number) {
  let i = 0;
  for (let n = array.firstChild; n; n = n.nextSibling) {
    if (["[", "]", ","].includes(n.name)) continue;
    if (i++ === at) return n;
  }
  return null;
}

function keyOf(doc: Doc, from: number, to: number): string {
  try {
    const key: unknown = JSON.parse(doc.sliceString(from, to));
    return typeof key === "string" ? key : "";
  } catch {
    return "";
  }
}
