// SPDX-License-Identifier: Apache-2.0
// A backend of connect-es without health check and reflection. Arguments: the descriptor set, "http1", "h2c" or "https",
// and with the latter the files of a mutual TLS (CA, certificate, key).
import { readFileSync } from "node:fs";
import http from "node:http";
import http2 from "node:http2";
import { createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";

const [descriptors, way, ca, cert, key] = process.argv.slice(2);
const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(descriptors)));
const handler = connectNodeAdapter({
  grpc: false,
  grpcWeb: false,
  routes: (router) => router.service(registry.getService("foreign.v1.Kinds"), {
    echo(word) {
      if (word.text === "fail") throw new ConnectError("no such word", Code.NotFound);
      return word;
    },
    async *count({ value: most }) {
      for (let value = 1; value <= most; value++) yield { value };
    },
    async sum(numbers) {
      let value = 0;
      for await (const n of numbers) value += n.value;
      return { value };
    },
    async *chat(words) {
      for await (const word of words) yield word;
    },
  }),
});
const files = { ca: ca && readFileSync(ca), cert: cert && readFileSync(cert), key: key && readFileSync(key) };
const server = way === "h2c" ? http2.createServer(handler)
  : way === "https" ? http2.createSecureServer({ ...files, requestCert: true, rejectUnauthorized: true }, handler)
    : http.createServer(handler);
server.on("error", () => {});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
