#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
"use strict";

// Starts the binary of this machine, which came as an optional dependency, and passes on arguments, signals and the exit code.
const { execFileSync, spawn } = require("node:child_process");
const { readFileSync } = require("node:fs");
const { constants } = require("node:os");

const name = `@SCOPE@/${process.platform}-${process.arch}`;
let binary;
try {
  binary = require.resolve(`${name}/bin/sidecar${process.platform === "win32" ? ".exe" : ""}`);
} catch {
  console.error(
    `outrigger: the package ${name} is not installed. Either there is no binary for ${process.platform} on ${process.arch}, or npm was told ` +
      "to leave out optional dependencies: install again without --omit=optional.",
  );
  process.exit(1);
}

// Whether a terminal's Ctrl-C reaches this process, whatever its standard input is: its group is the one in the foreground.
function inForeground() {
  if (process.platform === "win32") return true; // nothing but a console sends SIGINT
  try {
    const [group, foreground] =
      process.platform === "linux"
        ? readFileSync("/proc/self/stat", "utf8").split(") ").pop().split(" ").filter((_, i) => i === 2 || i === 5)
        : execFileSync("ps", ["-o", "pgid=", "-o", "tpgid=", "-p", String(process.pid)], { encoding: "utf8" }).trim().split(/\s+/);
    return group === foreground;
  } catch {
    return process.stdin.isTTY;
  }
}

const child = spawn(binary, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  // A terminal sends SIGINT to both; the sidecar takes the second as a wish to end at once, so it is not sent again from here.
  process.on(signal, () => {
    if (signal !== "SIGINT" || !inForeground()) child.kill(signal);
  });
}
child.on("error", (fault) => {
  console.error(`outrigger: ${binary} cannot be started: ${fault.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
