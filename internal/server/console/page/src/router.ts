// SPDX-License-Identifier: Apache-2.0
// Where in the console the browser is. Links are plain <a href>, so that they open in new tabs and can be copied.
import { signal } from "@preact/signals";

export const base = "/console";

/** What follows /console in the address, such as "/try/lab.echo", decoded nowhere. */
export const path = signal(read());
/** The fragment of the address, without "#". */
export const fragment = signal(location.hash.slice(1));

function read(): string {
  return location.pathname.startsWith(base) ? location.pathname.slice(base.length).replace(/\/$/, "") : "";
}

function sync(): void {
  path.value = read();
  fragment.value = location.hash.slice(1);
}

/** Goes to an address of the console, such as "/console/live". */
export function navigate(to: string): void {
  history.pushState(null, "", to);
  sync();
}

/** Changes the fragment without an entry in the history. */
export function replaceFragment(to: string): void {
  history.replaceState(null, "", location.pathname + (to === "" ? "" : "#" + to));
  fragment.value = location.hash.slice(1);
}

/** Makes links within the console change the page in place. Call it once. */
export function watchLinks(): void {
  addEventListener("popstate", sync);
  document.addEventListener("click", (e) => {
    if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    const link = e.target instanceof Element ? e.target.closest("a") : null;
    if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
    if (link.pathname !== base && !link.pathname.startsWith(base + "/")) return;
    e.preventDefault();
    if (link.href !== location.href) navigate(link.href);
  });
}

/** A part of a path, decoded where it can be. */
export function partOf(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}

export const toolPath = (tool: string) => `${base}/try/${encodeURIComponent(tool)}`;
export const callPath = (id: string | bigint) => `${base}/live/${id}`;
