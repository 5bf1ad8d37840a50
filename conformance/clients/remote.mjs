// SPDX-License-Identifier: Apache-2.0
//
// mcp-remote, which gives clients that only know stdio a server behind HTTP. The
// client in front of it is of the first generation; towards the sidecar the
// bridge itself speaks either era.

import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beginWait, text, until } from './checks.mjs';
import { main } from './harness.mjs';
import { open } from './sdk.mjs';

const bridge = fileURLToPath(new URL('./node_modules/mcp-remote/dist/proxy.js', import.meta.url));

await main({
  script: 'remote',
  name: 'mcp-remote',
  package: 'mcp-remote',
  modes: ['legacy', 'auto'],
  eraOf: () => 'legacy',
  wireOf: (mode) => (mode === 'legacy' ? 'legacy' : 'modern'),

  async open({ mode, url }, options) {
    const settings = await mkdtemp(join(tmpdir(), 'mcp-remote-'));
    process.once('exit', () => rmSync(settings, { recursive: true, force: true }));
    const args = [bridge, url, '--protocol', mode, '--transport', 'http-only', '--silent'];
    const session = await open(
      { command: [process.execPath, ...args], env: { ...process.env, MCP_REMOTE_CONFIG_DIR: settings } }, options,
    );
    const { subscribe } = session;
    session.resumed = () => true; // only a bridge that came back has a result
    delete session.reattach;
    delete session.end;
    if (mode === 'auto') session.subscribe = (uri) => subscribeSlowly(session, subscribe, uri);
    return session;
  },

  gaps: ({ mode }) => (mode === 'legacy'
    ? { 'end session': { reason: 'does not expose the session', proof: ({ session }) => assert.equal(session.transport.sessionId, undefined) } }
    : {
      headers: { reason: 'does not mirror arguments in headers', proof: noHeaders },
      cancel: { reason: 'posts notifications/cancelled and keeps the stream open', proof: notCancelled },
    }),
});

/**
 * The bridge answers at once and takes its time to ask the server, so a change
 * right behind the answer may be missed.
 */
async function subscribeSlowly(session, subscribe, uri) {
  const stop = await subscribe(uri);
  await until('the bridge listens', async () => {
    await session.call('test_trigger_resource_update');
    return session.heard.some((event) => event.kind === 'resources/updated');
  });
  session.heard.length = 0;
  return stop;
}

function noHeaders({ session }) {
  return assert.rejects(session.call('test_x_mcp_header', { region: 'Zürich ' }), { code: -32020 });
}

async function notCancelled({ session }) {
  const wait = await beginWait(session);
  wait.abort();
  await assert.rejects(wait.ended, /enough/);
  text(await session.call('test_simple_text'));
  assert.equal(await wait.outcome(), 'waiting', 'its cancellations arrive now');
}
