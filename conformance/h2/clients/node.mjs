// SPDX-License-Identifier: Apache-2.0
//
// Node's HTTP/2 client. It reads {ca, cases} from standard input and writes a line of JSON for each case; http_test.go
// says what their members mean.

import { connect, constants } from 'node:http2';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';

const { ca, cases } = JSON.parse(await text(process.stdin));

function open(one) {
  const settings = one.window ? { initialWindowSize: one.window } : {};
  const session = connect(new URL(one.url).origin, { ca, settings });
  session.on('error', () => {}); // its streams report it
  session.on('goaway', () => { session.left = true; });
  return session;
}

async function write(stream, one, answered) {
  const body = Buffer.from(one.prefix + 'a'.repeat(one.size) + one.suffix);
  const pieces = Math.max(one.pieces, 1);
  const length = Math.ceil(body.length / pieces);
  for (let i = 0; i < pieces && !stream.destroyed; i++) {
    stream.write(body.subarray(i * length, (i + 1) * length));
    if (pieces > 1) await pause(one.pause_ms);
  }
  if (one.stall) await answered;
  stream.end();
}

function ask(session, one) {
  const url = new URL(one.url);
  const length = one.pieces > 1 || one.stall ? {} : { 'content-length': one.prefix.length + one.size + one.suffix.length };
  const stream = session.request({ ':method': one.method, ':path': url.pathname, ...length, ...one.headers });
  return new Promise((resolve, reject) => {
    let status, bytes = 0, answered;
    const end = new Promise((done) => { answered = done; });
    stream.on('response', (headers) => { status = headers[constants.HTTP2_HEADER_STATUS]; });
    stream.on('data', (data) => { bytes += data.length; });
    stream.on('end', () => { answered(); resolve({ status, bytes }); });
    stream.on('error', (error) => { answered(); reject(error); });
    write(stream, one, end).catch(reject);
  });
}

for (const one of cases) {
  const outcome = { name: one.name, statuses: [], bytes: 0, error: '' };
  let session = open(one);
  try {
    for (let i = 0; i < Math.max(one.times, 1); i++) {
      if (session.left || session.closed || session.destroyed) {
        session.close();
        session = open(one);
      }
      const { status, bytes } = await ask(session, one);
      outcome.statuses.push(status);
      outcome.bytes += bytes;
    }
  } catch (error) {
    outcome.error = `${error.code ?? ''} ${error.message}`;
  }
  session.destroy();
  console.log(JSON.stringify(outcome));
}
