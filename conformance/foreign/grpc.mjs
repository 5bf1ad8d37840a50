// SPDX-License-Identifier: Apache-2.0
// A backend of grpc-js with its reflection. Arguments: the .proto file, and the files of a mutual TLS (CA, certificate, key), if any.
import { readFileSync } from "node:fs";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";
import { ReflectionService } from "@grpc/reflection";

const [proto, ca, cert, key] = process.argv.slice(2);
const definition = loader.loadSync(proto);
const { foreign } = grpc.loadPackageDefinition(definition);
const server = new grpc.Server();
server.addService(foreign.v1.Kinds.service, {
  echo(call, done) {
    if (call.request.text === "fail") done({ code: grpc.status.NOT_FOUND, details: "no such word" });
    else done(null, call.request);
  },
  count(call) {
    for (let value = 1; value <= call.request.value; value++) call.write({ value });
    call.end();
  },
  sum(call, done) {
    let value = 0;
    call.on("data", (n) => { value += n.value; });
    call.on("end", () => done(null, { value }));
  },
  chat(call) {
    call.on("data", (word) => call.write(word));
    call.on("end", () => call.end());
  },
});
new ReflectionService(definition).addToServer(server);
const credentials = ca
  ? grpc.ServerCredentials.createSsl(readFileSync(ca), [{ cert_chain: readFileSync(cert), private_key: readFileSync(key) }], true)
  : grpc.ServerCredentials.createInsecure();
server.bindAsync("127.0.0.1:0", credentials, (err, port) => {
  if (err) throw err;
  console.log(port);
});
