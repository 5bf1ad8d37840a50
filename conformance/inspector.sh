#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Drives the demo with the MCP Inspector's command line, in every protocol era,
# over Streamable HTTP and over stdio. One line a case; the exit code is 1 where
# any of them fails.
#
#   conformance/inspector.sh SUITE_FOLDER CLIENTS_FOLDER
#
# Needs bin/sidecar (make build). The folders are those of npm's packages that
# have Node and the Inspector: it wants a newer Node than many systems have.
set -euo pipefail

if [[ $# -ne 2 ]]; then
  echo "usage: $0 SUITE_FOLDER CLIENTS_FOLDER" >&2
  exit 2
fi
PATH="$(realpath "$1")/node_modules/.bin:$(realpath "$2")/node_modules/.bin:$PATH"

cd "$(dirname "$0")"
sidecar=$(realpath ../bin/sidecar)
if [[ ! -x "$sidecar" ]]; then
  echo "bin/sidecar is missing: run make build" >&2
  exit 1
fi
work=$(mktemp -d)
pid=
# shellcheck disable=SC2317 # the trap calls it
end() {
  if [[ -n "$pid" ]]; then
    kill -TERM "$pid" 2>/dev/null || true
    wait "$pid" || true
  fi
  rm -rf "$work"
}
trap end EXIT

touch "$work/log" # the loop below may be faster than the process
"$sidecar" serve --demo --listen 127.0.0.1:0 --admin off --record-dir off --log-format json 2>"$work/log" &
pid=$!
# field NAME MESSAGE: a field of the first log line with that message.
field() {
  node -e '
    const [name, msg] = process.argv.slice(1);
    for (const line of require("fs").readFileSync(0, "utf8").split("\n")) {
      let entry; try { entry = JSON.parse(line) } catch { continue }
      if (entry.msg === msg) { console.log(entry[name]); break }
    }' "$1" "$2" <"$work/log"
}
for _ in $(seq 100); do
  [[ -n "$(field tools ready)" ]] && break
  kill -0 "$pid" 2>/dev/null || break
  sleep 0.1
done
addr=$(field addr listening)
if [[ -z "$(field tools ready)" || -z "$addr" ]]; then
  echo "the sidecar did not become ready:" >&2
  cat "$work/log" >&2
  exit 1
fi

failed=0
# check NAME WANTED_EXIT EXPRESSION: runs the Inspector with the arguments in
# args and evaluates a JavaScript expression about its result, r.
check() {
  local name=$1 code=0
  timeout 60 inspector --cli --quiet --format json "${args[@]}" "${where[@]}" >"$work/out" 2>"$work/err" || code=$?
  if [[ $code -eq $2 ]] && node -e '
      const out = JSON.parse(require("fs").readFileSync(0, "utf8"));
      const r = out.result ?? out;
      const ok = new Function("r", "return (" + process.argv[1] + ")")(r);
      process.exit(ok === true ? 0 : 1)' "$3" <"$work/out" 2>>"$work/err"; then
    echo "ok $name"
    return
  fi
  failed=1
  echo "not ok $name (exit code $code, want $2)"
  head -c 1000 "$work/out" | sed 's/^/  out: /'
  head -c 1000 "$work/err" | sed 's/^/  err: /'
}

for era in legacy auto modern; do
  for transport in http stdio; do
    # The Inspector takes everything after -- as the server to start.
    if [[ $transport == http ]]; then
      where=(--transport http --server-url "http://$addr/mcp")
    else
      where=(--transport stdio -- "$sidecar" stdio --demo)
    fi
    case="$era $transport"
    args=(--protocol-era "$era" --method tools/list --strict)
    check "$case tools/list" 0 'r.tools.length === 18 && r.tools.every(t => t.description && t.inputSchema.type === "object")'
    args=(--protocol-era "$era" --method tools/call --tool-name lab_echo --tool-args-json '{"nonce":"é \"1\"","unsigned":"18446744073709551615"}')
    check "$case tools/call" 0 'r.isError !== true && r.structuredContent.nonce === "é \"1\"" && r.structuredContent.unsigned === "18446744073709551615"'
    args=(--protocol-era "$era" --method tools/call --tool-name lab_fail --tool-args-json '{"code":"FAIL_CODE_NOT_FOUND","message":"no such canoe"}')
    check "$case tools/call that fails" 5 'r.isError === true && r.content[0].text.includes("no such canoe")'
    args=(--protocol-era "$era" --method tools/call --tool-name lab_sleep --tool-args-json '{"duration":7}')
    check "$case tools/call with a wrong argument" 5 'r.isError === true && r.content[0].text.includes("/duration")'
  done
done
exit "$failed"
