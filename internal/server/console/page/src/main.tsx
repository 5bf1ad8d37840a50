// SPDX-License-Identifier: Apache-2.0
import { render, type ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import "./style.css";
import "./live/live.css";
import { keepServer, server, signedOut } from "./api";
import { base, partOf, path, watchLinks } from "./router";
import { AwayBanner, Operator, SignIn } from "./session";
import { Boundary, ErrorNote, LiveRegion, Spinner, Text, visible } from "./ui";
import { Try } from "./try/Try";

function App() {
  const at = path.value;
  const isLive = at === "/live" || at.startsWith("/live/");
  const name = server.value?.title || server.value?.name || "";
  const page = at.startsWith("/try/") ? partOf(at.slice("/try/".length)) : isLive ? "Live" : "Try";
  useEffect(() => {
    document.title = `${visible(page.slice(0, 80))} · ${visible(name.slice(0, 80)) || "Outrigger"}`;
  }, [page, name]);
  return (
    <>
      <a class="skip" href="#main" onClick={toContent}>
        Skip to content
      </a>
      <header class="top">
        <a class="brand" href={base + "/try"}>
          <Mark />
          <span>Outrigger</span>
        </a>
        <nav aria-label="Pages">
          <a href={base + "/try"} aria-current={isLive ? undefined : "page"}>
            Try
          </a>
          <a href={base + "/live"} aria-current={isLive ? "page" : undefined}>
            Live
          </a>
        </nav>
        <span class="server dim">
          {name !== "" && <Text text={name} max={60} />}
          {server.value && <Text text={" " + server.value.version} max={40} />}
        </span>
        <Operator />
      </header>
      <AwayBanner />
      <main id="main" tabIndex={-1}>
        <Boundary key={isLive ? "live" : "try"}>
          {signedOut.value ? <SignIn /> : isLive ? <LiveLater path={at.slice("/live".length)} /> : <Try path={at.slice("/try".length)} />}
        </Boundary>
      </main>
      <LiveRegion />
    </>
  );
}

function toContent(e: Event) {
  // The fragment of the address belongs to the pages.
  e.preventDefault();
  document.getElementById("main")?.focus();
}

function Mark() {
  return (
    <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true">
      <path d="M3 15c5 3.5 13 3.5 18 0l-2 4c-4 2-10 2-14 0z" fill="currentColor" />
      <path d="M11 3v10H5z" fill="currentColor" opacity=".75" />
      <path d="M13 6v7h5z" fill="currentColor" opacity=".45" />
    </svg>
  );
}

/** The Live page, loaded when it is first looked at. */
function LiveLater(props: { path: string }) {
  const [page, setPage] = useState<{ Live: ComponentType<{ path: string }> }>();
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    import("./live/Live").then(setPage, () => setFailed(true));
  }, []);
  if (failed) return <ErrorNote text="The page did not load. Reload it once the sidecar answers." />;
  return page ? <page.Live path={props.path} /> : <Spinner label="Loading…" />;
}

watchLinks();
void keepServer();
const root = document.getElementById("app")!;
// What the document shows until the script has come.
root.replaceChildren();
render(<App />, root);
