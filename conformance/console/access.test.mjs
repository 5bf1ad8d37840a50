// SPDX-License-Identifier: Apache-2.0
// Who may do what: sign-in by an admin token, roles, calls as a caller of the callers file, and the end of a session.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { before, test } from 'node:test';
import { Sidecar, ToolPage, digest, files, openBrowser, openPage, until } from './kit.mjs';

let browser;
before(async () => { browser = await openBrowser(); });

const tokens = { olga: 'admin-olga-0123456789abcdef0123456789', rita: 'admin-rita-0123456789abcdef0123456789', caller: 'caller-alice-0123456789abcdef0123456789' };

const operators = (names) => `operators:
${names.includes('olga') ? `  - name: olga\n    token_sha256: ["${digest(tokens.olga)}"]\n    role: operate\n    calls_as: [alice]\n` : ''}${names.includes('rita') ? `  - name: rita\n    token_sha256: ["${digest(tokens.rita)}"]\n    role: read\n` : ''}`;

const callers = `callers:
  - name: alice
    token_sha256: ["${digest(tokens.caller)}"]
    tools: ["lab.*", "fleet.*"]
`;

/** A sidecar with operators and callers. */
async function guarded(t) {
  const at = files(t, { 'operators.yaml': operators(['olga', 'rita']), 'callers.yaml': callers, 'audit.jsonl': '' });
  return { at, sidecar: await Sidecar.start(['--demo', '--admin-tokens', at['operators.yaml'], '--tokens', at['callers.yaml'], '--audit', at['audit.jsonl']]) };
}

// The API and the sign-in answer 401 and 403 here, as they should.
const tolerated = [/status of 40[13]/];

async function signIn(page, token) {
  await page.getByLabel('Admin token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

test('an operator signs in, calls as a caller, and signs out', async (t) => {
  const { at, sidecar } = await guarded(t);
  const page = await openPage(t, browser, sidecar.page('/try/lab.echo'), { tolerated });
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await signIn(page, 'wrong-token-0123456789');
  await page.getByRole('alert').waitFor();
  await signIn(page, tokens.caller);
  await page.getByRole('alert').waitFor();
  await signIn(page, tokens.olga);
  await page.locator('header').getByText('olga').waitFor();
  await page.locator('.cm-content').waitFor();

  const [cookie] = await page.context().cookies();
  assert.equal(cookie.httpOnly, true);
  assert.equal(cookie.sameSite, 'Strict');
  assert.ok(cookie.expires > Date.now() / 1000, 'the cookie expires');
  assert.ok(!JSON.stringify(cookie).includes(tokens.olga), 'the token is not in the cookie');
  assert.equal(await page.evaluate(() => document.cookie + Object.keys(localStorage) + Object.keys(sessionStorage)), '');

  const tool = new ToolPage(page);
  assert.deepEqual(await page.getByRole('combobox', { name: 'as', exact: true }).locator('option').allInnerTexts(), ['alice']);
  await tool.control('nonce').fill('as alice');
  await tool.checked();
  await tool.call();
  await tool.ended('succeeded');
  const line = await until(() => readFileSync(at['audit.jsonl'], 'utf8').split('\n').find((l) => l.includes('lab.echo')), 'an audit line');
  assert.match(line, /"alice"/);
  assert.match(line, /"olga"/);
  await tool.outcome.getByRole('link', { name: 'This call in Live' }).click();
  await page.getByText('Called in the console by').waitFor();

  // The session outlasts a reload, and ends with the sign-out: also for one who kept the cookie.
  await page.reload();
  await page.locator('header').getByText('olga').waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  const kept = await sidecar.api('GetServer', {}, { cookie: `${cookie.name}=${cookie.value}` });
  assert.equal(kept.status, 401);
});

test('an operator who may read sees, and changes nothing', async (t) => {
  const { sidecar } = await guarded(t);
  const page = await openPage(t, browser, sidecar.page('/live'), { tolerated });
  await signIn(page, tokens.rita);
  await page.getByText('(read only)').waitFor();
  await page.getByText('No call has been made yet.').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Drain', exact: true }).count(), 0);
  await page.goto(sidecar.page('/try/lab.echo'));
  await page.getByText(/needs the role operate to call tools/).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Call', exact: true }).isDisabled(), true);

  // Nor by hand.
  const by = (path, body, headers = {}) => page.evaluate(async ([p, b, h]) => (await fetch(p, { method: 'POST', headers: { 'Content-Type': 'application/json', ...h }, body: JSON.stringify(b) })).status, [path, body, headers]);
  assert.equal(await by('/outrigger.admin.v1.AdminService/Drain', {}), 403);
  assert.equal(await by('/outrigger.admin.v1.AdminService/SetTrust', { trust: 'trusted' }), 403);
  assert.equal(await by('/console/call/rpc', { jsonrpc: '2.0', id: '1', method: 'tools/call', params: { name: 'lab.echo', arguments: {} } }, { 'Outrigger-Caller': 'alice' }), 403);
});

test('an operator whose entry goes is signed out', async (t) => {
  const { at, sidecar } = await guarded(t);
  const page = await openPage(t, browser, sidecar.page('/live'), { tolerated });
  await signIn(page, tokens.olga);
  await page.getByText('No call has been made yet.').waitFor();
  writeFileSync(at['operators.yaml'], operators(['rita']));
  await page.getByRole('heading', { name: 'Sign in' }).waitFor({ timeout: 30_000 });
  await signIn(page, tokens.olga);
  await page.getByRole('alert').waitFor();
});

test('two operators at once', async (t) => {
  const { at, sidecar } = await guarded(t);
  const [one, other] = await Promise.all(['olga', 'rita'].map(async (name) => {
    const page = await openPage(t, browser, sidecar.page('/live'), { tolerated });
    await signIn(page, tokens[name]);
    await page.getByText('No call has been made yet.').waitFor();
    return page;
  }));
  await one.getByRole('button', { name: 'Trust callers' }).click();
  await one.getByRole('dialog').getByRole('button', { name: 'Trust callers' }).click();
  await other.locator('.strip').getByText('trusted', { exact: true }).waitFor();
  await until(() => readFileSync(at['audit.jsonl'], 'utf8').split('\n').some((l) => l.includes('trust') && l.includes('olga')), 'the audit line names the operator');
  await one.getByRole('button', { name: 'Sign out' }).click();
  await one.getByRole('heading', { name: 'Sign in' }).waitFor();
  await other.locator('header').getByText('rita').waitFor();
});

test('a page of another site reaches nothing', async (t) => {
  const sidecar = await Sidecar.start(['--demo']);
  const foreign = await Sidecar.start(['--demo']);
  const page = await openPage(t, browser, foreign.page('/try'));
  await page.locator('.tools-rows a').first().waitFor();
  // Not from the page, whose policy keeps it at home; as another site would send it.
  const body = '{}';
  for (const [path, headers] of [['/outrigger.admin.v1.AdminService/Drain', { 'content-type': 'application/json' }], ['/console/sign-in', { 'content-type': 'text/plain' }], ['/console/call/rpc', { 'content-type': 'application/json' }]]) {
    for (const mark of [{ origin: `http://${foreign.admin}` }, { 'sec-fetch-site': 'cross-site' }]) {
      const response = await fetch(`http://${sidecar.admin}${path}`, { method: 'POST', headers: { ...headers, ...mark }, body });
      assert.equal(response.status, 403, `${path} ${JSON.stringify(mark)}`);
    }
  }
  const framed = await fetch(sidecar.page());
  assert.match(framed.headers.get('content-security-policy'), /default-src 'none'.*frame-ancestors 'none'/);
});
