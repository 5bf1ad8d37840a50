// SPDX-License-Identifier: Apache-2.0
// A schema as a tree of names, types and rules. What is closed is not in the page, so recursive schemas end.
import { useState } from "preact/hooks";
import { isNumber, isObject, jsonText, type Json, type JsonObject } from "../json";
import { Badge, Button, Text } from "../ui";
import { fieldOf, itemField, oneofsOf, propertiesOf, typeWord, variantsOf, type Field } from "./fields";

const pageSize = 100;

export function SchemaTree(props: { schema: JsonObject }) {
  const field = fieldOf(props.schema, props.schema);
  return (
    <div class="schema">
      {field.about !== "" && (
        <p class="dim">
          <Text text={field.about} />
        </p>
      )}
      <Parts field={field} root={props.schema} depth={1} />
      {partsOf(field, props.schema).length === 0 && <p class="dim">{typeWord(field, props.schema)}</p>}
    </div>
  );
}

interface Part {
  name: string;
  field: Field;
  isRequired: boolean;
  note: string;
}

/** What is below a field: the fields of a message, the elements of a list or map, the variants of a union. */
function partsOf(field: Field, root: JsonObject): Part[] {
  switch (field.kind) {
    case "object": {
      const properties = propertiesOf(field, root);
      const oneofs = oneofsOf(field, properties);
      return properties.map((p) => ({ ...p, note: oneofs.find((o) => o.members.includes(p.name))?.name ?? "" }));
    }
    case "list":
    case "map": {
      const item = itemField(field, root);
      // The fields of the elements are those of the list to a reader.
      if (item.kind === "object") return partsOf(item, root);
      return item.kind === "list" || item.kind === "map" || item.kind === "variants" ? [{ name: "each", field: item, isRequired: false, note: "" }] : [];
    }
    case "variants":
      return variantsOf(field, root).map((v, i) => ({ name: v.title || `variant ${i + 1}`, field: v, isRequired: false, note: "" }));
    default:
      return [];
  }
}

function Parts(props: { field: Field; root: JsonObject; depth: number }) {
  const [shown, setShown] = useState(pageSize);
  const parts = partsOf(props.field, props.root);
  return (
    <ul>
      {parts.slice(0, shown).map((p) => (
        <li key={p.name}>
          <PartRow part={p} root={props.root} depth={props.depth} />
        </li>
      ))}
      {shown < parts.length && (
        <li>
          <Button kind="quiet" onClick={() => setShown(shown + 10 * pageSize)}>
            Show more ({parts.length - shown} left)
          </Button>
        </li>
      )}
    </ul>
  );
}

function PartRow(props: { part: Part; root: JsonObject; depth: number }) {
  const { part, root } = props;
  const hasParts = partsOf(part.field, root).length > 0;
  const [open, setOpen] = useState(props.depth < 2);
  const head = (
    <>
      <span class="mono schema-name">
        <Text text={part.name} max={200} />
      </span>
      <span class="dim small mono">
        <Text text={typeWord(part.field, root)} max={200} />
      </span>
      {part.isRequired && <Badge kind="info">required</Badge>}
      {part.note !== "" && (
        <Badge>
          one of <Text text={part.note} max={80} />
        </Badge>
      )}
      {part.field.isDeprecated && <Badge kind="warn">deprecated</Badge>}
    </>
  );
  const about = <About field={part.field} />;
  if (!hasParts) {
    return (
      <div class="schema-leaf">
        <div class="schema-head">{head}</div>
        {about}
      </div>
    );
  }
  return (
    <details open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <span class="schema-head">{head}</span>
      </summary>
      {open && (
        <div class="schema-parts">
          {about}
          <Parts field={part.field} root={root} depth={props.depth + 1} />
        </div>
      )}
    </details>
  );
}

function About(props: { field: Field }) {
  const { field } = props;
  const rules = rulesOf(field.schema);
  return (
    <div class="schema-about small dim">
      {field.about !== "" && <Text text={field.about} />}
      {rules !== "" && (
        <p class="mono">
          <Text text={rules} max={500} />
        </p>
      )}
      {field.options.length > 0 && (
        <ul class="schema-words">
          {field.options.slice(0, pageSize).map((o) => (
            <li key={o.label}>
              <span class="mono">
                <Text text={o.label} max={200} />
              </span>
              {o.about !== "" && <Text text={" " + o.about} max={400} />}
            </li>
          ))}
          {field.options.length > pageSize && <li>… {field.options.length - pageSize} more, in the JSON</li>}
        </ul>
      )}
    </div>
  );
}

const ruleNames = ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "multipleOf", "pattern", "default"];

function rulesOf(schema: JsonObject): string {
  return ruleNames
    .filter((n) => Object.hasOwn(schema, n))
    .map((n) => `${n} ${plain(schema[n]!)}`)
    .join(" · ");
}

function plain(value: Json): string {
  if (typeof value === "string") return value;
  return isNumber(value) ? value.toString() : isObject(value) || Array.isArray(value) ? jsonText(value, true) : String(value);
}
