// SPDX-License-Identifier: Apache-2.0
// Who is signed in, and whether the sidecar is there.
import { useRef, useState } from "preact/hooks";
import { away, problem, server, signIn, signOut, signedOut } from "./api";
import { Button, ErrorNote, Text } from "./ui";

/** The banner while the sidecar does not answer. */
export function AwayBanner() {
  return (
    <div role="status" aria-live="polite">
      {away.value && !signedOut.value && (
        <p class="banner">
          <span class="wheel" aria-hidden="true" /> The sidecar does not answer. Trying again…
        </p>
      )}
      {problem.value !== "" && !signedOut.value && (
        <p class="banner">
          <Text text={problem.value} max={600} />
        </p>
      )}
    </div>
  );
}

/** The operator, with the way out. */
export function Operator() {
  const about = server.value;
  if (!about || signedOut.value) return null;
  return (
    <div class="row operator">
      {about.operator !== "" && (
        <span title={about.canOperate ? "May see and change" : "May see"}>
          <Text text={about.operator} max={60} />
          {!about.canOperate && <span class="dim"> (read only)</span>}
        </span>
      )}
      {about.canSignOut && (
        <Button kind="quiet" onClick={() => void signOut()}>
          Sign out
        </Button>
      )}
    </div>
  );
}

export function SignIn() {
  const input = useRef<HTMLInputElement>(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (e: Event) => {
    e.preventDefault();
    setBusy(true);
    const refused = await signIn(input.current!.value.trim());
    setBusy(false);
    setError(refused);
    if (refused) input.current?.focus();
  };
  return (
    <form class="sign-in card" onSubmit={submit}>
      <h1>Sign in</h1>
      <p class="dim">This console asks for an admin token, as `sidecar token` made it for the file of --admin-tokens.</p>
      <label class="field">
        <span class="label">Admin token</span>
        <input
          ref={input}
          type="password"
          autocomplete="current-password"
          required
          spellcheck={false}
          aria-invalid={error !== ""}
          aria-describedby={error ? "sign-in-error" : undefined}
        />
      </label>
      {error && (
        <div id="sign-in-error">
          <ErrorNote text={error} />
        </div>
      )}
      <Button kind="primary" type="submit" disabled={busy}>
        {busy ? "Signing in…" : "Sign in"}
      </Button>
    </form>
  );
}
