#!/bin/sh
# Builds shapes.binpb from proto/, with imports and source information. buf wants modules below its workspace, so one is
# put together in a scratch folder. BUF names the binary.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -R "$here/proto" "$work/proto"
cp -R "$here/../../../third_party/protovalidate" "$work/protovalidate"
printf 'version: v2\nmodules:\n  - path: proto\n  - path: protovalidate\n' >"$work/buf.yaml"
cd "$work"
"${BUF:-buf}" build --path proto/shapes -o "$here/shapes.binpb"
