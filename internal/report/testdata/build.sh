#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds the two descriptor sets beside this file from the sources under v1/ and v2/. They are committed, so that tests
# need no compiler.
set -eu
cd "$(dirname "$0")/../../.."
buf=${BUF:-.tmp/bin/buf}
here=internal/report/testdata
for v in v1 v2; do
  "$buf" build --path "$here/$v/library" -o "$here/$v.binpb.gz" \
    --config '{"version":"v2","modules":[{"path":"'"$here/$v"'"},{"path":"proto","excludes":["proto/options"]},{"path":"proto/options"},{"path":"third_party/protovalidate"}]}'
done
