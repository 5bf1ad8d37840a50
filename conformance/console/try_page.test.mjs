// SPDX-License-Identifier: Apache-2.0
// The Try page in a real browser: the form and the JSON beside it, and calls in every era.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { openBrowser, openPage, Sidecar } from './kit.mjs';

let browser, sidecar;
before(async () => { [browser, sidecar] = await Promise.all([openBrowser(), Sidecar.start()]); });
after(async () => { await browser?.close(); await sidecar?.stop(); });

const link = (tool, args) => sidecar.page(`/try/${tool}${args === undefined ? '' : `#args=${encodeURIComponent(JSON.stringify(args))}`}`);
const field = (page, name) => page.getByLabel(name, { exact: true });
const editorText = (page) => page.locator('.editor .cm-content').evaluate((e) => [...e.querySelectorAll('.cm-line')].map((l) => l.textContent).join('\n'));
const call = (page) => page.getByRole('button', { name: 'Call', exact: true }).click();
const ended = (page, word) => page.locator('.call .badge', { hasText: word }).first().waitFor();

test('what is typed fast into the editor stays in its order, and shows in the form', async (t) => {
  const page = await openPage(t, browser, link('lab.echo'));
  await page.locator('.editor .cm-content').click();
  await page.keyboard.press('Control+a');
  const typed = '{"nonce":"in its order","signed":-9223372036854775808}';
  await page.keyboard.type(typed);
  await page.waitForFunction(() => document.querySelector('.form textarea')?.value === 'in its order');
  assert.equal(await editorText(page), typed);
  assert.equal(await field(page, 'signed 64-bit').inputValue(), '-9223372036854775808');
});

test('a form of nested messages, a oneof, lists, maps, times and exact numbers', async (t) => {
  const page = await openPage(t, browser, link('fleet.place_order'));
  await page.getByLabel('customer text required').fill('Clinic');
  await page.getByLabel('Which of place').selectOption('address');
  await page.getByRole('button', { name: 'Add an element to lines' }).click();
  await field(page, '0 text').fill('Quay 1');
  await page.getByLabel('island text required').fill('Motu Nui');
  await page.getByRole('button', { name: 'Add an element to parcels' }).click();
  await page.getByLabel('contents text required').fill('ice');
  await page.getByLabel('weightKg number required').fill('1.50');
  await field(page, 'valueCents 64-bit').fill('9007199254740993');
  await page.getByLabel('fragile boolean').selectOption({ label: 'true' });
  await page.getByLabel('Set window').check();
  await page.getByLabel('notAfter timestamp').fill('2030-01-01T00:00:00.123456789Z');
  await page.getByLabel('Set labels').check();
  await page.getByLabel('New key for labels').fill('channel');
  await page.keyboard.press('Enter');
  await page.getByLabel('channel text').fill('web');
  await page.getByText('A call would take these arguments').waitFor();
  const text = await editorText(page);
  assert.match(text, /"weightKg": 1\.50,/);
  assert.deepEqual(JSON.parse(text), {
    customer: 'Clinic', destination: { address: { lines: ['Quay 1'], island: 'Motu Nui' } },
    parcels: [{ contents: 'ice', weightKg: 1.5, valueCents: '9007199254740993', fragile: true }],
    window: { notAfter: '2030-01-01T00:00:00.123456789Z' }, labels: { channel: 'web' },
  });
  await page.getByLabel('Which of place').selectOption('stopId');
  await field(page, 'stopId 64-bit').fill('abc');
  await page.getByText('wanted an integer of type int64').first().waitFor();
  assert.equal(await field(page, 'stopId 64-bit').getAttribute('aria-invalid'), 'true');
});

test('what could not be fetched is fetched again', async (t) => {
  const page = await openPage(t, browser, sidecar.page('/live'), { tolerated: [/status of 503/] });
  for (const method of ['GetTool', 'SearchTools']) {
    await page.route(`**/outrigger.admin.v1.AdminService/${method}`, (route) => route.fulfill({
      status: 503, contentType: 'application/json', body: '{"code":"unavailable","message":"there is no catalog yet"}',
    }), { times: 1 });
  }
  await page.goto(link('lab.echo'));
  await page.locator('article, .empty, main').getByText('there is no catalog yet. The page tries again.').first().waitFor();
  await page.getByRole('heading', { level: 1, name: 'lab.echo' }).waitFor();
  await page.getByText('18 tools', { exact: true }).first().waitFor();
  assert.equal(await page.getByRole('alert').count(), 0);
});

test('bytes as text, as base64 and from a file', async (t) => {
  const page = await openPage(t, browser, link('lab.echo'));
  await field(page, 'payload bytes').fill('hé');
  await page.getByLabel('How payload is entered').selectOption('base64');
  assert.equal(await field(page, 'payload bytes').inputValue(), 'aMOp');
  await page.getByLabel('How payload is entered').selectOption('file');
  await field(page, 'payload bytes').setInputFiles({ name: 'b.bin', mimeType: 'application/octet-stream', buffer: Buffer.from([255, 0, 254]) });
  await page.getByText('3 B', { exact: true }).waitFor();
  await call(page);
  await ended(page, 'succeeded');
  assert.match(await page.locator('.call').innerText(), /"\/wD\+"/);
});

test('a call in every era and as JSON-RPC, by a link, exact to the last digit', async (t) => {
  const page = await openPage(t, browser, link('lab.echo', { unsigned: '18446744073709551615' }));
  const eras = page.locator('select', { hasText: 'JSON-RPC' });
  await eras.waitFor();
  for (const era of await eras.locator('option').evaluateAll((all) => all.map((o) => o.value))) {
    await eras.selectOption(era);
    await call(page);
    await page.locator('.call', { hasText: era }).getByText('succeeded', { exact: true }).waitFor();
    assert.match(await page.locator('.call').innerText(), /18446744073709551615/, era);
  }
  await page.getByRole('link', { name: 'This call in Live' }).click();
  await page.getByRole('heading', { level: 1, name: /^Call / }).waitFor();
});

test('a stream and a task are cancelled, and another task is seen through', async (t) => {
  const page = await openPage(t, browser, link('fleet.watch_vehicles', { rounds: 1000, interval: '0.1s' }));
  for (const era of ['2026-07-28', '2025-11-25']) {
    await page.locator('select', { hasText: 'JSON-RPC' }).selectOption(era);
    await call(page);
    await page.getByText(/items so far/).waitFor();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await ended(page, 'cancelled');
  }
  await page.locator('select', { hasText: 'JSON-RPC' }).selectOption('2026-07-28');
  for (const [duration, word] of [['60s', 'cancelled'], ['3s', 'succeeded']]) {
    await page.goto(link('lab.sleep', { duration }));
    await page.waitForFunction((d) => document.querySelector('.form input')?.value === d, duration);
    await call(page);
    await page.getByText(/task working/).waitFor();
    if (word === 'cancelled') await page.getByRole('button', { name: 'Cancel' }).click();
    await ended(page, word);
  }
});

test('a destructive call is asked for and confirmed', async (t) => {
  const asking = await Sidecar.start(['--demo', '--destructive', 'confirm']);
  t.after(() => asking.stop());
  const args = encodeURIComponent('{"orderId":"9007199254740999"}');
  const page = await openPage(t, browser, asking.page(`/try/fleet.cancel_order#args=${args}`));
  const answer = async (name) => {
    await call(page);
    await page.getByRole('dialog').getByRole('button', { name: 'Call it' }).click();
    await page.locator('.question', { hasText: 'marked destructive' }).waitFor();
    await page.getByRole('button', { name, exact: true }).click();
  };
  await answer('Decline');
  await ended(page, 'failed');
  await page.locator('select', { hasText: 'JSON-RPC' }).selectOption('2025-11-25');
  await answer('Accept');
  await ended(page, 'succeeded');
});

test('what is sent where callers are not trusted is confirmed on the page, and refused', async (t) => {
  const page = await openPage(t, browser, link('fleet.cancel_order', { orderId: '9007199254740999' }));
  await call(page);
  await page.getByRole('dialog').getByRole('button', { name: 'Do not call' }).click();
  assert.equal(await page.locator('.call').count(), 0);
  await call(page);
  await page.getByRole('dialog').getByRole('button', { name: 'Call it' }).click();
  await page.locator('.call').getByText('DESTRUCTIVE_BLOCKED').first().waitFor();
});
