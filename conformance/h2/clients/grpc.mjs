// SPDX-License-Identifier: Apache-2.0
//
// grpc-js. It reads {ca, cases} from standard input and writes a line of JSON for each case; grpc_test.go says what
// their members mean. Messages are bytes.

import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { Client, Metadata, credentials } from '@grpc/grpc-js';

const { ca, cases } = JSON.parse(await text(process.stdin));
const same = (bytes) => bytes;

function metadata(one) {
  const out = new Metadata();
  if (one.token) out.set('authorization', `Bearer ${one.token}`);
  return out;
}

function unary(client, one, message) {
  return new Promise((resolve) => {
    client.makeUnaryRequest(one.path, same, same, message, metadata(one), { deadline: Date.now() + one.deadline_ms }, (error, answer) => {
      resolve({ code: error?.code ?? 0, details: error?.details ?? '', bytes: answer?.length ?? 0 });
    });
  });
}

function stream(client, one, message) {
  return new Promise((resolve) => {
    let bytes = 0;
    const call = client.makeBidiStreamRequest(one.path, same, same, metadata(one), { deadline: Date.now() + one.deadline_ms });
    call.on('error', () => {}); // it has the status
    call.on('status', (status) => resolve({ code: status.code, details: status.details, bytes }));
    const read = () => call.on('data', (data) => { bytes += data.length; });
    setTimeout(read, one.wait_ms);
    (async () => {
      for (let i = 0; i < one.messages && !call.destroyed; i++) {
        if (!call.write(message)) await Promise.race([new Promise((drained) => { call.once('drain', drained); }), pause(50)]);
      }
      call.end();
    })();
  });
}

for (const one of cases) {
  const outcome = { name: one.name, statuses: [], bytes: 0, error: '' };
  const safe = one.tls ? credentials.createSsl(Buffer.from(ca)) : credentials.createInsecure();
  const client = new Client(one.address, safe, { 'grpc.max_receive_message_length': -1 });
  const message = Buffer.from(one.message, 'base64');
  for (let i = 0; i < Math.max(one.times, 1); i++) {
    const { code, details, bytes } = await (one.messages > 0 ? stream : unary)(client, one, message);
    outcome.statuses.push(code);
    outcome.bytes += bytes;
    outcome.error = details;
  }
  client.close();
  console.log(JSON.stringify(outcome));
}
