// SPDX-License-Identifier: Apache-2.0
// A question of a tool, or of the sidecar, to the user.
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { isObject, member, type Json, type JsonObject } from "../json";
import { Button, Text } from "../ui";
import { Form } from "./Form";
import { fieldOf, propertiesOf, type Fault } from "./fields";
import type { Asked } from "./run";

export function QuestionForm(props: { asked: Asked }) {
  const { question, answer } = props.asked;
  const title = useId();
  const box = useRef<HTMLDivElement>(null);
  const [value, setValue] = useState<Json>(() => defaults(question.schema));
  const [isTried, setTried] = useState(false);
  const faults = isTried ? missing(question.schema, value) : [];
  useEffect(() => {
    box.current?.focus();
    box.current?.scrollIntoView({ block: "nearest" });
  }, []);
  const accept = () => {
    setTried(true);
    if (question.mode === "url") return answer({ action: "accept" });
    if (missing(question.schema, value).length === 0) answer({ action: "accept", content: isObject(value) ? value : {} });
  };
  return (
    <div class="card question stack" ref={box} tabIndex={-1} role="group" aria-labelledby={title}>
      <h3 id={title}>
        <span class="dim">Asked of you: </span>
        <Text text={question.message || "a question without words"} max={4_000} />
      </h3>
      {question.mode === "url" ? <OutsideLink url={question.url} /> : <QuestionFields schema={question.schema} value={value} faults={faults} onChange={setValue} />}
      <div class="row">
        <Button kind="primary" onClick={accept}>
          {question.mode === "url" ? "I have done it" : hasFields(question.schema) ? "Answer" : "Accept"}
        </Button>
        <Button onClick={() => answer({ action: "decline" })}>Decline</Button>
        <Button kind="quiet" onClick={() => answer({ action: "cancel" })}>
          Close without an answer
        </Button>
      </div>
    </div>
  );
}

function QuestionFields(props: { schema: JsonObject; value: Json; faults: Fault[]; onChange: (v: Json) => void }) {
  return hasFields(props.schema) ? <Form {...props} /> : null;
}

function hasFields(schema: JsonObject): boolean {
  return propertiesOf(fieldOf(schema, schema), schema).length > 0;
}

/** A link that a backend gave: its whole address is shown, and only addresses of web pages are links. */
function OutsideLink(props: { url: string }) {
  const isWeb = /^https?:\/\//i.test(props.url);
  return (
    <p>
      The tool wants you to open this address:{" "}
      {isWeb ? (
        <a class="mono" href={props.url} target="_blank" rel="noopener noreferrer">
          <Text text={props.url} max={1_000} />
        </a>
      ) : (
        <code>
          <Text text={props.url} max={1_000} />
        </code>
      )}
    </p>
  );
}

function defaults(schema: JsonObject): Json {
  let value: JsonObject = {};
  for (const p of propertiesOf(fieldOf(schema, schema), schema)) {
    const given = member(p.field.schema, "default");
    if (given !== undefined) value = { ...value, [p.name]: given };
  }
  return value;
}

function missing(schema: JsonObject, value: Json): Fault[] {
  return propertiesOf(fieldOf(schema, schema), schema)
    .filter((p) => p.isRequired && member(value, p.name) === undefined)
    .map((p) => ({ path: "/" + p.name.replace(/~/g, "~0").replace(/\//g, "~1"), keyword: "required", message: "An answer needs this." }));
}
