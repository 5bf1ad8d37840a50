// SPDX-License-Identifier: Apache-2.0
// Builds a module of the page for Node, where its tests run.
import { build } from "esbuild";

/** Loads a module by its path below src, with what it imports. */
export async function load(path) {
  const result = await build({
    entryPoints: [new URL("../src/" + path, import.meta.url).pathname],
    bundle: true,
    write: false,
    format: "esm",
    platform: "node",
    logLevel: "error",
  });
  return import("data:text/javascript;base64," + Buffer.from(result.outputFiles[0].contents).toString("base64"));
}
