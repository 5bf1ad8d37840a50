// SPDX-License-Identifier: Apache-2.0
// The stream while the page is looked at, and what its parts share.
import { Code } from "@connectrpc/connect";
import { effect, signal } from "@preact/signals";
import { api, away, note } from "../api";
import { announce } from "../ui";
import { epochMillis } from "./format";
import { Store } from "./store";
import { Watcher, type Link } from "./watch";

/** What is known. It outlasts the page, so that charts go on where they were. */
export const store = new Store();

/** Changes whenever store has changed, at most once for each frame of the screen. */
export const tick = signal(0);

/** How the stream is. */
export const link = signal<Link>({ state: "connecting" });

/** When the sidecar was started again while the page was open, in milliseconds since 1970; 0 if it was not. */
export const restarted = signal(0);

/** Watches the sidecar until the function that it returns is called. */
export function watchSidecar(): () => void {
  let frame = 0;
  const changed = () => {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      tick.value++;
    });
  };
  let state = "";
  const watcher = new Watcher({
    open: (intervalMillis, signal) => {
      const interval = { seconds: BigInt(Math.floor(intervalMillis / 1000)), nanos: (intervalMillis % 1000) * 1e6 };
      return api.watch({ interval }, { signal });
    },
    isHidden: () => document.hidden,
    take: (m, isFirst) => {
      const now = m.ready ? m.state : `${m.state}, not ready`;
      if (store.take(m, isFirst)) {
        restarted.value = epochMillis(m.started);
        announce(`The sidecar was started again, and is ${now}.`);
      } else if (state !== "" && now !== state) announce(`The sidecar is ${now}.`);
      state = now;
      changed();
    },
    link: (l) => {
      link.value = l;
      // A sidecar that ends streams while it drains is not away: it answers.
      if (l.state === "away" && (l.error.code === Code.Unauthenticated || l.error.cause instanceof TypeError)) note(l.error);
    },
  });
  const seen = () => watcher.again();
  document.addEventListener("visibilitychange", seen);
  // Another part of the page may notice first that the sidecar is back.
  let wasAway = away.peek();
  const stopEffect = effect(() => {
    const isBack = wasAway && !away.value;
    wasAway = away.value;
    if (isBack && link.peek().state === "away") watcher.again();
  });
  void watcher.run();
  return () => {
    watcher.stop();
    stopEffect();
    document.removeEventListener("visibilitychange", seen);
    cancelAnimationFrame(frame);
    link.value = { state: "connecting" };
  };
}
