#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds relations.binpb from the sources under proto/, with imports and source information. The declarations of foreign
# options there hold only the fields that are used. The set is committed, so that tests need no compiler.
set -eu
cd "$(dirname "$0")/../../.."
buf=${BUF:-.tmp/bin/buf}
here=internal/schema/testdata
"$buf" build --config '{"version":"v2","modules":[{"path":"internal/schema/testdata/proto"}]}' --path "$here/proto/relations" \
  --as-file-descriptor-set -o "$here/relations.binpb"
