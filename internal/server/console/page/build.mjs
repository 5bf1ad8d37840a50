// SPDX-License-Identifier: Apache-2.0
// Builds the page into ../built, compressed, which is committed and embedded. The same input gives the same bytes.
import { execFileSync } from "node:child_process";
import { build } from "esbuild";
import { cpSync, readFileSync, readdirSync, rmSync, mkdirSync, writeFileSync } from "node:fs";

const out = new URL("../built/", import.meta.url).pathname;
rmSync(out, { recursive: true, force: true });
mkdirSync(out);

const result = await build({
  entryPoints: { app: "src/main.tsx" },
  outdir: out,
  bundle: true,
  splitting: true,
  format: "esm",
  chunkNames: "[name]-[hash]",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  legalComments: "none",
  metafile: true,
});
cpSync("index.html", out + "index.html");

// What is in the bundle, with its licence: packages, by the inputs that esbuild names.
const packages = new Set();
for (const file of Object.keys(result.metafile.inputs)) {
  const at = file.lastIndexOf("node_modules/");
  if (at < 0) continue;
  const parts = file.slice(at + "node_modules/".length).split("/");
  packages.add(parts[0].startsWith("@") ? parts.slice(0, 2).join("/") : parts[0]);
}
let licences = "What the console is built from, beside its own code.\n";
for (const name of [...packages].sort()) {
  const dir = `node_modules/${name}/`;
  const about = JSON.parse(readFileSync(dir + "package.json", "utf8"));
  const file = readdirSync(dir).find((f) => /^licen[cs]e/i.test(f));
  licences += `\n== ${name} ${about.version} (${about.license})\n`;
  if (file) licences += "\n" + readFileSync(dir + file, "utf8").trim() + "\n";
}
writeFileSync(out + "LICENSES.txt", licences);

// The command, because what zlib makes in node differs from one processor to the next.
for (const file of readdirSync(out)) execFileSync("gzip", ["-9", "-n", out + file]);
