// SPDX-License-Identifier: Apache-2.0
// Builds the tests below src for Node.js, and runs them.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";

const tests = readdirSync("src", { recursive: true }).filter((f) => f.endsWith(".test.ts"));
const out = "node_modules/.cache/tests";
await build({
  entryPoints: tests.map((f) => "src/" + f),
  outdir: out,
  outbase: "src",
  outExtension: { ".js": ".mjs" },
  bundle: true,
  format: "esm",
  platform: "node",
  target: "node20",
  sourcemap: "inline",
});
const files = tests.map((f) => `${out}/${f.replace(/\.ts$/, ".mjs")}`);
process.exit(spawnSync(process.execPath, ["--enable-source-maps", "--test", ...files], { stdio: "inherit" }).status ?? 1);
