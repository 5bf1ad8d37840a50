// SPDX-License-Identifier: Apache-2.0
//
// Another authorization server on loopback: zitadel's example provider
// (conformance/cmd/authority), whose clients are registered beforehand and whose
// users fill in a form.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** The client that is registered. Its id is the audience of its tokens. */
export const client = { client_id: 'native' };

/** Starts the provider. */
export async function authority(binary, redirect) {
  const child = spawn(binary, ['-client', client.client_id, '-redirect', redirect], { stdio: ['pipe', 'pipe', 'inherit'] });
  const { value: issuer, done } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
  if (done) throw new Error('the provider ended');
  return {
    issuer,
    async close() {
      child.stdin.end();
      if (child.exitCode === null) await once(child, 'exit');
    },
  };
}

/** Logs the example's user in, and returns the address of the client to which that leads. */
export async function logIn(url, callback) {
  for (let hops = 0; hops < 10; hops++) {
    let response = await fetch(url, { redirect: 'manual' });
    const id = new URL(url).searchParams.get('authRequestID');
    if (response.status === 200 && id !== null) {
      response = await fetch(url, {
        method: 'POST', redirect: 'manual', body: new URLSearchParams({ id, username: 'test-user@localhost', password: 'verysecure' }),
      });
    }
    const next = response.headers.get('location');
    if (next === null) throw new Error(`the login ends at ${response.status} ${await response.text()}`);
    url = new URL(next, url);
    if (url.href.startsWith(callback)) return url;
  }
  throw new Error('the login goes in circles');
}
