// SPDX-License-Identifier: Apache-2.0
// The way to the whole of what is shown in part.
import { useEffect, useState } from "preact/hooks";
import { Button, formatCount, visible } from "../ui";

/** Saves a file. */
export function save(name: string, type: string, content: BlobPart): void {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** An object URL of bytes while the component is there. */
export function useBlobURL(bytes: Uint8Array<ArrayBuffer> | undefined, type: string): string | undefined {
  const [url, setURL] = useState<string>();
  useEffect(() => {
    if (!bytes) return;
    const made = URL.createObjectURL(new Blob([bytes], { type }));
    setURL(made);
    return () => URL.revokeObjectURL(made);
  }, [bytes, type]);
  return url;
}

const firstChars = 65_536;
const mostChars = 1_048_576;

/** A long text: its beginning, with the way to more and to all of it. */
export function LongText(props: { text: string; fileName: string; type?: string; class?: string; label?: string }) {
  const [shown, setShown] = useState(firstChars);
  const { text } = props;
  return (
    <>
      {/* A region that scrolls has to be reached by keys. */}
      <pre class={"long " + (props.class ?? "")} tabIndex={0} role="region" aria-label={props.label ?? "Text"}>
        {visible(text.slice(0, shown))}
      </pre>
      <div class="row">
        {shown < text.length && (
          <span class="dim small">
            {formatCount(shown)} of {formatCount(text.length)} characters
          </span>
        )}
        {shown < text.length && shown < mostChars && (
          <Button kind="quiet" onClick={() => setShown(shown * 4)}>
            Show more
          </Button>
        )}
        <Button kind="quiet" onClick={() => save(props.fileName, props.type ?? "text/plain", text)}>
          Download
        </Button>
      </div>
    </>
  );
}
