// SPDX-License-Identifier: Apache-2.0
//
// Runs clients that others wrote through OAuth against a sidecar: discovery,
// registration, login, call, expiry, refresh, step-up, and revocation of opaque
// tokens. It starts an authorization server (authority.mjs) and a sidecar with
// its demo service for each client, and prints a JSON line a check:
//
//   {"client", "version", "mode", "check", "outcome", "ms", ...}
//
// outcome is "ok", "failed" (with error) or "unsupported" (the client cannot do
// it; with reason). The exit code is 1 where anything failed.
//
//   node auth.mjs --sidecar BINARY --go-client BINARY --authority BINARY [--client NAME]...

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { callback, drivers, freePort, typescript } from './authclients.mjs';
import { authority, sidecarClient } from './authority.mjs';
import { versionOf } from './harness.mjs';
import * as zitadel from './zitadel.mjs';

// Tokens last so long, in seconds. The sidecar takes them for `leeway` longer.
const lifetime = 4;
const leeway = 1;
// A revoked token is refused after this at the latest (RFC 7662 answers are kept no longer, by default; for most clients the
// check has them kept for a shorter time, so that it does not take minutes).
const revocationTime = 60_000;

const { values } = parseArgs({
  options: {
    sidecar: { type: 'string' }, 'go-client': { type: 'string' }, authority: { type: 'string' }, client: { type: 'string', multiple: true },
  },
});
if (!values.sidecar || !values['go-client'] || !values.authority) {
  console.error('usage: auth.mjs --sidecar BINARY --go-client BINARY --authority BINARY [--client NAME]...');
  process.exit(2);
}

const pause = (ms) => new Promise((done) => { setTimeout(done, ms); });

/** A sidecar with the demo service whose callers need tokens of an authorization server. */
class Sidecar {
  static async start(port, issuerOf, options) {
    const sidecar = new Sidecar();
    sidecar.folder = await mkdtemp(join(tmpdir(), 'auth-'));
    const secret = join(sidecar.folder, 'secret');
    await writeFile(secret, sidecarClient.secret, { mode: 0o600 });
    const config = join(sidecar.folder, 'sidecar.yaml');
    await writeFile(config, JSON.stringify({ // JSON is YAML
      access: { oauth: { issuers: [issuerOf(secret)], resource: `http://127.0.0.1:${port}/mcp`, leeway: `${leeway}s`, ...options } },
    }));
    sidecar.url = `http://127.0.0.1:${port}/mcp`;
    sidecar.child = spawn(values.sidecar, [
      'serve', '--demo', '--config', config, '--listen', `127.0.0.1:${port}`, '--admin', 'off', '--record-dir', 'off', '--trust', 'trusted',
    ], { stdio: ['ignore', 'inherit', 'pipe'] });
    sidecar.log = [];
    createInterface({ input: sidecar.child.stderr }).on('line', (line) => sidecar.log.push(line));
    await until('the sidecar is ready', () => {
      assert.equal(sidecar.child.exitCode, null, `the sidecar ended: ${sidecar.log.join('\n')}`);
      return sidecar.log.some((line) => line.includes('"msg":"ready"'));
    });
    return sidecar;
  }

  async close() {
    if (this.child.exitCode === null) {
      this.child.kill('SIGTERM');
      await once(this.child, 'exit');
    }
    await rm(this.folder, { recursive: true, force: true });
  }

  /** The status with which a token is answered. */
  async statusOf(token) {
    const response = await fetch(this.url, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`, 'content-type': 'application/json', accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientInfo': { name: 'auth.mjs', version: '1' },
        'io.modelcontextprotocol/clientCapabilities': {},
      } } }),
    });
    await response.body?.cancel();
    return response.status;
  }
}

async function until(what, holds, limit = 30_000) {
  for (const end = Date.now() + limit; Date.now() < end; await pause(50)) {
    if (await holds()) return;
  }
  throw new Error(`not within ${limit} ms: ${what}`);
}

const read = (session) => session.call('lab_echo', { nonce: 'n' });
const write = (session) => session.call('fleet_cancel_order', { order_id: '9007199254740999' });

// Checks in their order; each goes on where the one before has ended.
const jwtChecks = [
  ['discovery, registration and login', async ({ session, idp }) => {
    assert.ok((await session.list()).length > 0);
    await read(session);
    assert.ok(idp.logins > 0, 'a login');
  }],
  ['expiry and refresh', async ({ session, idp, sidecar }) => {
    const { token, refreshes, logins } = idp;
    await until('the token is refused', async () => (await sidecar.statusOf(token)) === 401, 150_000);
    await read(session);
    assert.equal(idp.logins, logins, 'logins');
    assert.ok(idp.refreshes > refreshes, 'a refresh');
  }],
  ['step-up', async ({ session, idp }) => {
    const { logins } = idp;
    await write(session);
    assert.ok(idp.logins > logins, 'a login');
    assert.match(idp.scope, /tools:write/);
  }],
];

const opaqueChecks = [
  ['opaque token', async ({ session, idp, sidecar }) => {
    await read(session);
    assert.ok(!idp.token.includes('.'), 'a JWT');
    assert.equal(await sidecar.statusOf(idp.token), 200);
  }],
  ['revocation', async ({ session, idp, sidecar }) => {
    const { token, logins } = idp;
    await idp.revoke();
    await until('the revoked token is refused', async () => (await sidecar.statusOf(token)) === 401, revocationTime);
    await read(session);
    assert.ok(idp.logins > logins, 'a login');
  }],
];

const zitadelChecks = [
  ['OpenID discovery, a registered client and a login form', async ({ session }) => {
    assert.ok((await session.list()).length > 0);
    await read(session);
  }],
  ['refresh', async ({ session }) => {
    const before = session.token();
    session.refresh();
    await read(session);
    assert.notEqual(session.token(), before);
  }],
];

async function run(driver, mode, format, checks) {
  const port = await freePort();
  const idp = await authority({ resource: `http://127.0.0.1:${port}/mcp`, format, lifetime: format === 'jwt' ? driver.lifetime ?? lifetime : 600 });
  const sidecar = await Sidecar.start(port, (secret) => ({
    url: idp.issuer,
    ...(format === 'opaque' && {
      introspection: { url: `${idp.issuer}/token/introspection`, client_id: sidecarClient.id, client_secret_file: secret, ...(driver !== typescript && { ttl: '2s' }) },
    }),
  }), { scope_rule: 'read_write', list_without_scope: true });
  return runChecks(driver, mode, checks, { sidecar, idp }, { goClient: values['go-client'] });
}

/** The same client with the other authorization server. */
async function runZitadel(mode) {
  const idp = await zitadel.authority(values.authority, callback);
  const sidecar = await Sidecar.start(await freePort(), () => ({ url: idp.issuer, audiences: [zitadel.client.client_id] }));
  const options = { registered: zitadel.client, logIn: zitadel.logIn, scope: 'openid offline_access' };
  return runChecks({ ...typescript, name: `${typescript.name}, zitadel` }, mode, zitadelChecks, { sidecar, idp }, options);
}

async function runChecks(driver, mode, checks, { sidecar, idp }, options) {
  const label = { client: driver.name, version: driver.package ? await versionOf(driver.package) : driver.version, mode };
  let session;
  let failed = 0;
  try {
    for (const [name, check] of checks) {
      const began = performance.now();
      let line;
      try {
        session ??= await driver.open(sidecar.url, mode, options);
        const gap = driver.gaps?.[name];
        if (gap) {
          await gap.proof({ session, idp, sidecar });
          line = { outcome: 'unsupported', reason: gap.reason };
        } else {
          await check({ session, idp, sidecar });
          line = { outcome: 'ok' };
        }
      } catch (error) {
        failed++;
        line = { outcome: 'failed', error: error.message };
      }
      console.log(JSON.stringify({ ...label, check: name, ...line, ms: Math.round(performance.now() - began) }));
      if (session === undefined) break; // nothing else can be done
    }
  } finally {
    await session?.close().catch(() => {});
    await sidecar.close();
    await idp.close();
  }
  if (failed > 0) console.error(sidecar.log.slice(-20).join('\n'));
  return failed;
}

let failed = 0;
for (const driver of drivers) {
  if (values.client && !values.client.includes(driver.script)) continue;
  for (const mode of driver.modes) {
    failed += await run(driver, mode, 'jwt', jwtChecks);
    failed += await run(driver, mode, 'opaque', opaqueChecks);
  }
}
if (!values.client || values.client.includes('zitadel')) {
  for (const mode of typescript.modes) failed += await runZitadel(mode);
}
process.exit(failed === 0 ? 0 : 1);
