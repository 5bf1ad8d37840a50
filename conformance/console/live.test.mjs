// SPDX-License-Identifier: Apache-2.0
// The page of what happens now: calls, one call, limits, actions; and a sidecar that goes away and comes back.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, test } from 'node:test';
import { Sidecar, accessible, files, openBrowser, openPage, until } from './kit.mjs';

let browser;
before(async () => { browser = await openBrowser(); });

const table = (page) => page.getByRole('table', { name: 'Calls' });
const rowsOf = (page, text) => table(page).locator('tbody tr', { hasText: text });

/** Lines of the audit trail that have all these texts, once there is one. */
const audited = (path, ...texts) => until(() => {
  const found = readFileSync(path, 'utf8').split('\n').filter((line) => texts.every((text) => line.includes(text)));
  return found.length > 0 && found;
}, `audit lines with ${texts}`);

test('calls appear in flight and ended, are filtered, and stay during a pause', async (t) => {
  const sidecar = await Sidecar.start(['--demo']);
  const page = await openPage(t, browser, sidecar.page('/live'));
  await page.getByText('No call has been made yet.').waitFor();
  const sleeping = sidecar.call('lab.sleep', { duration: '3s', nonce: 'SECRET-ARGUMENT' });
  await rowsOf(page, 'lab.sleep').getByText(/since/).first().waitFor();
  await sidecar.call('lab.echo', { nonce: 'SECRET-ARGUMENT' });
  await sidecar.call('lab.fail', { code: 'FAIL_CODE_NOT_FOUND', message: 'there is none' });
  await sidecar.call('no.such.tool');
  await rowsOf(page, 'lab.echo').waitFor();
  await rowsOf(page, 'lab.fail').getByText('NOT_FOUND').or(rowsOf(page, 'lab.fail').getByText('TOOL_EXECUTION_FAILED')).first().waitFor();
  await sleeping;
  await rowsOf(page, 'lab.sleep').getByText('OK', { exact: true }).waitFor();
  assert.equal(await rowsOf(page, 'lab.sleep').count(), 1, 'a call that ends is one row');
  assert.ok(!(await page.content()).includes('SECRET-ARGUMENT'), 'arguments are not there');

  await page.getByLabel('Only failures').check();
  assert.equal(await rowsOf(page, 'lab.echo').count(), 0);
  await until(() => page.url().endsWith('/live?failures=1'), 'the filter is in the address');
  await page.reload();
  await rowsOf(page, 'lab.fail').waitFor();
  assert.equal(await rowsOf(page, 'lab.echo').count(), 0);
  await page.getByRole('button', { name: 'Clear filters' }).click();
  await page.getByRole('combobox', { name: 'Tool', exact: true }).selectOption('lab.echo');
  await rowsOf(page, 'lab.echo').waitFor();
  assert.equal(await table(page).locator('tbody tr').count(), 1);
  await page.getByRole('button', { name: 'Clear filters' }).click();
  await page.getByPlaceholder('Text, code, trace id…').fill('no.such');
  await until(async () => await rowsOf(page, 'lab.echo').count() === 0, 'the text filters');
  await page.getByRole('button', { name: 'Clear filters' }).click();

  await page.getByRole('columnheader', { name: 'Tool' }).getByRole('button').click();
  await table(page).locator('[aria-sort=descending]').waitFor();

  await page.getByRole('button', { name: 'Pause' }).click();
  const before = await table(page).locator('tbody tr').count();
  for (let i = 0; i < 3; i++) await sidecar.call('lab.echo');
  await page.getByText('Paused: 3 calls ended meanwhile.').waitFor();
  assert.equal(await table(page).locator('tbody tr').count(), before);
  await page.getByRole('button', { name: 'Go on' }).click();
  await until(async () => await table(page).locator('tbody tr').count() === before + 3, 'the table goes on');

  // Charts and limits are there, and what the sidecar depends on.
  await page.getByRole('heading', { name: 'Throughput, errors and latency' }).waitFor();
  await page.getByRole('rowheader', { name: 'max_concurrent_calls' }).waitFor();
  await page.getByText('circuit breaker closed').waitFor();
  await page.getByText('Catalog of 18 tools').waitFor();
});

test('one call has its waterfall, audit line, record, log lines and advice', async (t) => {
  const at = files(t, { 'audit.jsonl': '' });
  const sidecar = await Sidecar.start(['--demo', '--audit', at['audit.jsonl'], '--record-dir', at.folder, '--log-level', 'debug']);
  const page = await openPage(t, browser, sidecar.page('/live'), { tolerated: [/status of 404/] });
  await page.getByText('No call has been made yet.').waitFor();
  await sidecar.call('lab.fail', { code: 'FAIL_CODE_UNAVAILABLE', message: 'the crane is broken' });
  await rowsOf(page, 'lab.fail').getByRole('link').first().click();
  await page.getByRole('heading', { name: /^Call [0-9]+$/ }).waitFor();
  await page.getByRole('heading', { name: 'What to try next' }).waitFor();
  const steps = page.getByRole('region', { name: 'Steps' });
  for (const step of ['resolve', 'validate', 'unary']) await steps.getByText(step).first().waitFor();
  const trail = page.getByRole('region', { name: 'Audit trail' });
  await trail.getByText('lab.fail').first().waitFor();
  const record = page.getByRole('region', { name: 'Run record' });
  await record.locator('.line').first().waitFor();
  const log = page.getByRole('region', { name: 'Log' });
  await log.locator('.line').first().waitFor();
  await page.getByText('Trace id').or(page.getByText('Request id')).first().waitFor();
  const link = page.url();
  await page.getByRole('link', { name: '← All calls' }).click();
  await table(page).waitFor();
  await page.goto(link);
  await trail.getByText('lab.fail').first().waitFor();

  await page.goto(sidecar.page('/live/18446744073709551615'));
  await page.getByText('The sidecar does not know this call').waitFor();
  await page.goto(sidecar.page('/live/drain'));
  await page.getByText('The sidecar does not know this call').waitFor();
});

test('sessions, tasks and streams are lists, and the page says since when the sidecar runs', async (t) => {
  const sidecar = await Sidecar.start(['--demo', '--task-after', '50ms']);
  const page = await openPage(t, browser, sidecar.page('/live'));
  await page.getByLabel('State', { exact: true }).getByText(/^up (less than a second|[0-9]+ (second|minute)s?)$/).waitFor();
  for (const name of ['Sessions', 'Tasks', 'Streams']) await page.locator('summary', { hasText: name }).click();
  await until(async () => await page.getByText('There are none.').count() === 3, 'three empty lists');

  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const open = (clientInfo) => fetch(`http://${sidecar.main}/mcp`, {
    method: 'POST', headers,
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo } }),
  });
  const ids = [];
  for (let i = 0; i < 53; i++) ids.push((await open({ name: `agent ${i}`, version: '1' })).headers.get('mcp-session-id'));
  const sessions = page.getByRole('list', { name: 'Sessions', exact: true });
  await until(async () => await sessions.getByRole('listitem').count() === 50, 'a page of sessions');
  await page.getByText('50 of 53, the newest first').waitFor();
  await page.getByRole('button', { name: 'Show more' }).click();
  await until(async () => await sessions.getByRole('listitem').count() === 53, 'all sessions');
  await sessions.getByText('idle', { exact: true }).first().waitFor();
  await sessions.getByText('2025-06-18').first().waitFor();

  const changes = new AbortController();
  const stream = await fetch(`http://${sidecar.main}/mcp`, { headers: { ...headers, 'mcp-session-id': ids[0], 'mcp-protocol-version': '2025-06-18' }, signal: changes.signal });
  assert.equal(stream.status, 200);
  await page.getByRole('list', { name: 'Streams', exact: true }).getByText('messages of a session').waitFor();
  await fetch(`http://${sidecar.main}/mcp`, {
    method: 'POST', headers: { ...headers, 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'lab_sleep' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: {
      name: 'lab_sleep', arguments: { duration: '60s', nonce: 'SECRET-ARGUMENT' },
      _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': { extensions: { 'io.modelcontextprotocol/tasks': {} } } },
    } }),
  });
  await page.getByRole('list', { name: 'Tasks', exact: true }).getByText('lab.sleep').waitFor();
  for (const secret of ['SECRET-ARGUMENT', ids[0].slice(0, 16)]) assert.ok(!(await page.content()).includes(secret), `${secret} is not there`);
  await accessible(page, 'lists');
  changes.abort();
});

test('refresh, trust and drain are confirmed, and leave audit lines', async (t) => {
  const at = files(t, { 'audit.jsonl': '' });
  const sidecar = await Sidecar.start(['--demo', '--audit', at['audit.jsonl']]);
  const page = await openPage(t, browser, sidecar.page('/live'), { tolerated: [/ERR_|Failed to load resource|Failed to fetch/] });
  await page.getByRole('button', { name: 'Refresh the catalog' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Keep as it is' }).click();
  await page.getByRole('button', { name: 'Refresh the catalog' }).click();
  await dialog.getByRole('button', { name: 'Refresh', exact: true }).click();
  await page.locator('.said').getByText(/The catalog was loaded in .*: 18 tools, as before\./).waitFor();
  await audited(at['audit.jsonl'], 'refresh');

  await page.getByRole('button', { name: 'Trust callers' }).click();
  await dialog.getByText('no user is asked').waitFor();
  await dialog.getByRole('button', { name: 'Trust callers' }).click();
  await page.locator('.said').getByText('Callers are trusted now; before, they were untrusted.').waitFor();
  assert.equal((await sidecar.api('GetServer')).body.trust, 'trusted');
  await audited(at['audit.jsonl'], 'trust');
  await page.getByRole('button', { name: 'Withdraw trust' }).click();
  await dialog.getByRole('button', { name: 'Withdraw trust' }).click();
  await page.getByRole('button', { name: 'Trust callers' }).waitFor();

  const sleeping = sidecar.call('lab.sleep', { duration: '2s' });
  await rowsOf(page, 'lab.sleep').first().waitFor();
  await page.getByRole('button', { name: 'Drain', exact: true }).click();
  await dialog.getByRole('button', { name: 'Drain and end' }).click();
  await page.locator('.said').getByText(/The sidecar drains: 1 request is still in flight\./).waitFor();
  assert.equal((await sleeping).result.structuredContent.slept !== undefined, true, 'the call in flight is answered');
  await page.getByText('The sidecar does not answer. Trying again…').waitFor();
  await sidecar.ended;
  await audited(at['audit.jsonl'], 'drain');
});

test('a sidecar goes away and comes back', async (t) => {
  let sidecar = await Sidecar.start(['--demo']);
  const { main, admin } = sidecar;
  const tolerated = [/ERR_|Failed to load resource|Failed to fetch/];
  const [live, tried] = await Promise.all([
    openPage(t, browser, sidecar.page('/live'), { tolerated }), openPage(t, browser, sidecar.page('/try/lab.echo'), { tolerated }),
  ]);
  await live.getByText('No call has been made yet.').waitFor();
  await tried.locator('.args-form textarea').first().fill('kept');
  await sidecar.call('lab.echo');
  await rowsOf(live, 'lab.echo').waitFor();
  await sidecar.stop('SIGKILL');
  const banner = 'The sidecar does not answer. Trying again…';
  await live.getByText(banner).waitFor();
  await live.getByText(/This is what was known at/).waitFor();
  assert.equal(await rowsOf(live, 'lab.echo').count(), 1, 'what was known stays');
  await tried.getByRole('button', { name: 'Call', exact: true }).click();
  await tried.getByText('The sidecar did not answer.').waitFor();
  await tried.getByText(banner).waitFor();

  sidecar = await Sidecar.start(['--demo'], { listen: main, admin });
  await live.getByText(banner).waitFor({ state: 'hidden' });
  await tried.getByText(banner).waitFor({ state: 'hidden' });
  await sidecar.call('lab.echo', { nonce: 'again' });
  await live.getByText(/The sidecar was started again at [0-9:]{8}, while this page was open/).first().waitFor();
  await until(async () => await rowsOf(live, 'lab.echo').count() === 1, 'one call, and no duplicate');
  assert.equal(await tried.locator('.args-form textarea').first().inputValue(), 'kept');
  await tried.getByRole('button', { name: 'Call', exact: true }).click();
  await tried.locator('.call .badge', { hasText: 'succeeded' }).waitFor();
  await until(async () => await rowsOf(live, 'lab.echo').count() === 2, 'the call of the other page');
});

test('two operators see what the other changes', async (t) => {
  const sidecar = await Sidecar.start(['--demo']);
  const [one, other] = await Promise.all([openPage(t, browser, sidecar.page('/live')), openPage(t, browser, sidecar.page('/live'))]);
  for (const page of [one, other]) await page.getByRole('button', { name: 'Trust callers' }).waitFor();
  await one.locator('.strip').getByText('2', { exact: true }).first().waitFor();
  await one.getByRole('button', { name: 'Trust callers' }).click();
  await one.getByRole('dialog').getByRole('button', { name: 'Trust callers' }).click();
  await one.getByRole('button', { name: 'Withdraw trust' }).waitFor();
  await other.getByRole('button', { name: 'Withdraw trust' }).waitFor();
  await other.locator('.strip').getByText('trusted', { exact: true }).waitFor();

  // A question stays what it was while another operator answers it first.
  const dialog = other.getByRole('dialog');
  await other.getByRole('button', { name: 'Withdraw trust' }).click();
  await sidecar.api('SetTrust', { trust: 'untrusted' });
  await other.locator('.strip').getByText('untrusted', { exact: true }).waitFor();
  await dialog.getByRole('button', { name: 'Withdraw trust' }).click();
  await other.locator('.said').getByText('Callers were untrusted already.').waitFor();
  assert.equal((await sidecar.api('GetServer')).body.trust, 'untrusted');
});
