#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds the descriptor sets beside this file from the sources under proto/, as different users would:
# a buf image with comments and marks on imports, what `protoc --include_imports -o` writes, and what `protoc -o` writes.
# They are committed, so that tests need no compiler.
set -eu
cd "$(dirname "$0")/../../.."
buf=${BUF:-.tmp/bin/buf}
here=internal/catalog/testdata
config='{"version":"v2","modules":[{"path":"internal/catalog/testdata/proto"},{"path":"proto","excludes":["proto/options"]},{"path":"proto/options"},{"path":"third_party/protovalidate"}]}'
build() { of=$1; shift; "$buf" build --config "$config" --path "$here/proto/$of" "$@"; }
build garden -o "$here/garden-buf.binpb.gz"
build garden --as-file-descriptor-set --exclude-source-info -o "$here/garden-protoc.binpb"
build garden --as-file-descriptor-set --exclude-imports -o "$here/garden-alone.binpb"
build library -o "$here/library-buf.binpb.gz"
build rivals/errands -o "$here/rival-errands.binpb.gz"
for name in herbarium ferry; do
	build "rivals/$name" --as-file-descriptor-set --exclude-source-info -o "$here/rival-$name.binpb"
done
