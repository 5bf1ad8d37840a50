// SPDX-License-Identifier: Apache-2.0
// Every kind of field: what is entered is in the JSON, the call takes it, and the result has it, exact.

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { Sidecar, files, openBrowser, openTool, until } from './kit.mjs';

let browser, sidecar;
before(async () => {
  [browser, sidecar] = await Promise.all([openBrowser(), Sidecar.start(['--demo'])]);
});

test('texts, 64-bit numbers and bytes come back exact, in every revision', async (t) => {
  const tool = await openTool(t, browser, sidecar, 'lab.echo');
  const { page } = tool;
  await tool.control('nonce').fill('zwölf "Boxkämpfer" \\ 🥊');
  await tool.control('signed').fill('-9223372036854775808');
  await tool.control('unsigned').fill('18446744073709551615');
  await tool.control('payload').fill('héllo');
  const sent = { nonce: 'zwölf "Boxkämpfer" \\ 🥊', signed: '-9223372036854775808', unsigned: '18446744073709551615', payload: 'aMOpbGxv' };
  await tool.has(sent);
  await tool.checked();

  await page.getByRole('combobox', { name: 'in', exact: true }).getByText('JSON-RPC (/rpc)').waitFor({ state: 'attached' });
  const revisions = await page.getByRole('combobox', { name: 'in', exact: true }).locator('option').allInnerTexts();
  assert.ok(revisions.length >= 5, `revisions: ${revisions}`);
  assert.equal(revisions.at(-1), 'JSON-RPC (/rpc)');
  for (const revision of revisions) {
    await tool.revision(revision);
    await tool.call();
    await tool.outcome.getByText(revision.replace('MCP ', '').replace('JSON-RPC (/rpc)', '/rpc')).first().waitFor();
    await tool.ended('succeeded');
    const { result } = await tool.message();
    // Before 2025-06-18, results are texts alone.
    assert.deepEqual(result.structuredContent ?? JSON.parse(result.content[0].text), sent, revision);
  }

  // The tree shows the same digits.
  await tool.outcome.getByRole('tab', { name: 'Tree' }).click();
  await tool.outcome.getByText('18446744073709551615').first().waitFor();
});

test('bytes are entered as text, as base64, or from a file', async (t) => {
  const tool = await openTool(t, browser, sidecar, 'lab.echo');
  const item = tool.item('payload');
  const how = item.getByLabel('How payload is entered');
  await how.selectOption('base64');
  await tool.control('payload').fill('AAECA/8=');
  await tool.has({ payload: 'AAECA/8=' });
  await how.selectOption('text');
  await item.getByText('These bytes are no text in UTF-8.').waitFor();
  assert.equal(await tool.control('payload').getAttribute('readonly'), '');

  const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
  await how.selectOption('file');
  await item.locator('input[type=file]').setInputFiles({ name: 'all.bin', mimeType: 'application/octet-stream', buffer: bytes });
  await tool.has({ payload: bytes.toString('base64') });
  await tool.call();
  await tool.ended('succeeded');
  assert.equal((await tool.message()).result.structuredContent.payload, bytes.toString('base64'));

  await item.locator('input[type=file]').setInputFiles(files(t, { 'large.bin': Buffer.alloc(17 << 20) })['large.bin']);
  await item.getByText('at most 16.8 MB are read').waitFor();
});

test('presence: a field is set to its first value, and left out', async (t) => {
  const tool = await openTool(t, browser, sidecar, 'lab.echo');
  await tool.presence('nonce').check();
  await tool.presence('signed').check();
  await tool.has({ nonce: '', signed: '0' });
  await tool.presence('nonce').uncheck();
  await tool.has({ signed: '0' });
  await tool.page.getByRole('button', { name: 'Clear' }).click();
  await tool.has({});
  assert.equal(await tool.presence('signed').isChecked(), false);
});

test('the JSON and the form are in step, both ways', async (t) => {
  const tool = await openTool(t, browser, sidecar, 'fleet.place_order');
  const { page } = tool;
  await tool.write('{"customer": "Ada", "destination": {"position": {"latitude": -16.5, "longitude": -151.75}}, "parcels": [{"contents": "books", "weightKg": 1.25, "fragile": true}], "labels": {"lane": "express"}}');
  await tool.checked();
  assert.equal(await tool.control('customer').inputValue(), 'Ada');
  const place = tool.group('place', tool.group('destination'));
  assert.equal(await place.getByLabel('Which of place').inputValue(), 'position');
  assert.equal(await tool.control('latitude', place).inputValue(), '-16.5');
  assert.equal(await tool.control('fragile', tool.group('parcels')).locator('option:checked').innerText(), 'true');
  assert.equal(await tool.control('lane', tool.group('labels')).inputValue(), 'express');

  // Broken JSON: the form waits, and goes on from what is repaired.
  await tool.write('{"customer": "Ada",');
  await page.getByText('The JSON has a fault. The form shows what was before it.').waitFor();
  assert.equal(await tool.control('customer').isDisabled(), true);
  assert.equal(await page.getByRole('button', { name: 'Call', exact: true }).isDisabled(), true);
  await tool.write('{"customer": "Grace"}');
  await until(async () => await tool.control('customer').inputValue() === 'Grace', 'the form follows');
  await tool.control('customer').fill('Hedy');
  await tool.has({ customer: 'Hedy' });
});

test('nested messages, a oneof, lists, maps, times: an order that is placed', async (t) => {
  const tool = await openTool(t, browser, sidecar, 'fleet.place_order');
  const { page } = tool;
  await tool.control('customer').fill('Coconut Café');
  const place = tool.group('place', tool.group('destination'));
  const which = place.getByLabel('Which of place');
  await which.selectOption('stopId');
  await tool.control('stopId', place).fill('12');
  await tool.has({ customer: 'Coconut Café', destination: { stopId: '12' } });
  // Another choice replaces the first.
  await which.selectOption('position');
  await tool.presence('latitude', place).or(tool.control('latitude', place)).first().waitFor();
  await tool.control('latitude', place).fill('-16.5');
  await tool.control('longitude', place).fill('-151.75');
  await tool.has({ customer: 'Coconut Café', destination: { position: { latitude: -16.5, longitude: -151.75 } } });
  await tool.presence('handTo', tool.group('destination')).check();
  await tool.control('handTo', tool.group('destination')).fill('the harbour master');

  const parcels = tool.group('parcels');
  for (const [at, contents] of ['glass', 'books', 'rope'].entries()) {
    await parcels.getByRole('button', { name: /^Add/ }).last().click();
    const parcel = tool.group(String(at), parcels).or(tool.group(`parcels ${at}`, parcels)).first();
    await tool.control('contents', parcel).fill(contents);
    await tool.control('weightKg', parcel).fill(String(0.5 + at));
    await tool.control('valueCents', parcel).fill('9007199254740993');
    await tool.control('fragile', parcel).selectOption({ label: at === 0 ? 'true' : 'false' });
  }
  await parcels.getByRole('button', { name: /^Remove.*1/ }).first().click();

  await tool.presence('window').check();
  const window = tool.group('window');
  await tool.control('notBefore', window).fill('2026-06-01T06:00:00Z');
  await tool.control('notAfter', window).fill('2026-06-01T05:00:00Z');
  await tool.checked(1);
  await window.getByText('not_after must be later than not_before').last().waitFor();
  await tool.control('notAfter', window).fill('2026-06-01T07:00:00.123456789Z');

  await tool.presence('labels').check();
  const labels = tool.group('labels');
  await labels.getByLabel('New key for labels').fill('lane');
  await labels.getByLabel('New key for labels').press('Enter');
  await tool.control('lane', labels).fill('express');
  await labels.getByLabel('New key for labels').fill('lane');
  await labels.getByRole('button', { name: /^Add/ }).click();
  await labels.getByText('There is an entry with this key.').waitFor();
  await labels.getByLabel('Key in labels').fill('route');
  await labels.getByLabel('Key in labels').press('Tab');

  const parcel = (contents, weightKg, fragile) => ({ contents, weightKg, valueCents: '9007199254740993', fragile });
  const order = {
    customer: 'Coconut Café',
    destination: { position: { latitude: -16.5, longitude: -151.75 }, handTo: 'the harbour master' },
    parcels: [parcel('glass', 0.5, true), parcel('rope', 2.5, false)],
    window: { notBefore: '2026-06-01T06:00:00Z', notAfter: '2026-06-01T07:00:00.123456789Z' },
    labels: { route: 'express' },
  };
  await tool.has(order);
  await tool.checked();
  await tool.call();
  await tool.ended('succeeded');
  const { result } = await tool.message();
  const { customer, destination, parcels: placed, window: when, labels: given } = result.structuredContent;
  assert.deepEqual({ customer, destination, parcels: placed, window: when, labels: given }, order);
});

test('enums have their words, lists of enums and durations their rules', async (t) => {
  const tool = await openTool(t, browser, sidecar, 'lab.fail');
  const { page } = tool;
  const words = await tool.control('code').locator('option').allInnerTexts();
  assert.ok(words.some((w) => w.startsWith('FAIL_CODE_NOT_FOUND') && w.includes('There is no such thing')), words.join());
  await tool.control('code').selectOption({ label: words.find((w) => w.startsWith('FAIL_CODE_NOT_FOUND')) });
  await tool.has({ code: 'FAIL_CODE_NOT_FOUND' });
  await tool.presence('details').check();
  const details = tool.group('details');
  for (let i = 0; i < 2; i++) await details.getByRole('button', { name: /^Add/ }).click();
  await details.locator('select').nth(0).selectOption({ index: 2 });
  await details.locator('select').nth(1).selectOption({ index: 2 });
  await tool.checked(1);
  await details.locator('.f-faults').first().waitFor();
  await details.locator('select').nth(1).selectOption({ index: 3 });
  await tool.checked();
  await tool.control('retryDelay').fill('1h30m');
  await tool.control('retryDelay').press('Tab');
  await until(async () => JSON.parse(await tool.text()).retryDelay === '5400s', 'the duration in the form of ProtoJSON');
  await tool.checked(1);
  await tool.item('retryDelay').locator('.f-faults').waitFor();
  await tool.control('retryDelay').fill('250 ms');
  await tool.control('retryDelay').press('Tab');
  await tool.checked();
  await tool.call();
  await tool.ended('failed');
  await tool.outcome.getByText('NOT_FOUND').first().waitFor();
  const { result } = await tool.message();
  assert.equal(result.isError, true);
  assert.ok(JSON.stringify(result).includes('0.250s') || JSON.stringify(result).includes('0.25s'), 'the delay is in the details');
  await page.getByRole('link', { name: 'This call in Live' }).waitFor();
});

test('64-bit lists, a recursive oneof, a Struct and a map as JSON', async (t) => {
  const tool = await openTool(t, browser, sidecar, 'fleet.find_orders');
  await tool.presence('filter').check();
  const filter = tool.group('filter');
  await filter.locator('select').first().selectOption('not');
  const not = tool.group('not', filter);
  await not.locator('select').first().selectOption('customerContains');
  await tool.control('customerContains', not).fill('zz-no-one');
  await tool.control('limit').fill('2');
  await tool.has({ filter: { not: { customerContains: 'zz-no-one' } }, limit: 2 });
  await tool.checked();
  await tool.call();
  await tool.ended('succeeded');
  await tool.outcome.getByRole('tab', { name: 'Table' }).click();
  const table = tool.outcome.getByRole('region', { name: /^Table of orders/ });
  assert.equal(await table.locator('tbody tr').count(), 2);

  const report = await openTool(t, browser, sidecar, 'fleet.report_positions');
  await report.write('{"items": [{"vehicleId": "101", "position": {"latitude": -16.5, "longitude": -151.75}, "observedAt": "2026-06-01T06:00:00Z"}]}');
  await report.checked();
  const item = report.group('items');
  await report.presence('diagnostics', item).check();
  await report.control('diagnostics', item).fill('{"battery": {"cells": [3.7, 3.8]}, "ok": true}');
  await report.checked();
  assert.deepEqual(JSON.parse(await report.text()).items[0].diagnostics, { battery: { cells: [3.7, 3.8] }, ok: true });
  await report.call();
  await report.ended('succeeded');
  assert.equal((await report.message()).result.structuredContent.received, '1');

  const route = await openTool(t, browser, sidecar, 'fleet.plan_route');
  await route.control('vehicleId').fill('101');
  const stops = route.group('stopIds');
  for (const [i, id] of ['4', '12'].entries()) {
    await stops.getByRole('button', { name: /^Add/ }).click();
    await stops.locator('[aria-invalid]').nth(i).fill(id);
  }
  await route.item('departure').getByRole('button', { name: 'Now' }).click();
  await route.checked();
  const sent = JSON.parse(await route.text());
  assert.deepEqual([sent.vehicleId, sent.stopIds], ['101', ['4', '12']]);
  assert.ok(Math.abs(Date.parse(sent.departure) - Date.now()) < 60_000, sent.departure);
});

test('violations are at their fields while one types', async (t) => {
  const tool = await openTool(t, browser, sidecar, 'lab.echo');
  await tool.control('signed').pressSequentially('12a');
  await tool.checked(1);
  const item = tool.item('signed');
  await item.locator('.f-faults').waitFor();
  assert.equal(await tool.control('signed').getAttribute('aria-invalid'), 'true');
  const described = await tool.control('signed').getAttribute('aria-describedby');
  assert.ok(described.split(' ').length === 2, 'the violation describes its control');
  // The editor marks the same place.
  await tool.page.locator('.cm-lintRange-error, .cm-lint-marker-error').first().waitFor();
  assert.equal(await tool.control('nonce').getAttribute('aria-invalid'), 'false');
  await tool.control('signed').fill('12');
  await tool.checked();
  assert.equal(await tool.control('signed').getAttribute('aria-invalid'), 'false');
  // What was checked was not called.
  assert.equal(await tool.outcome.count(), 0);
});

test('inspect: a map with rules for its keys', async (t) => {
  const tool = await openTool(t, browser, sidecar, 'lab.inspect');
  await tool.presence('replyHeaders').check();
  const map = tool.group('replyHeaders');
  await map.getByLabel('New key for replyHeaders').fill('Bad Key');
  await map.getByRole('button', { name: /^Add/ }).click();
  await tool.checked(1);
  await map.locator('.f-faults').first().waitFor();
  await map.getByRole('button', { name: 'Remove entry Bad Key' }).click();
  await map.getByLabel('New key for replyHeaders').fill('x-seen');
  await map.getByRole('button', { name: /^Add/ }).click();
  await tool.control('x-seen', map).fill('yes');
  await tool.has({ replyHeaders: { 'x-seen': 'yes' } });
  await tool.checked();
  await tool.call();
  await tool.ended('succeeded');
  assert.equal((await tool.message()).result.structuredContent.protocol, 'grpc');
});

test('the focus stays where a part of the form comes or goes', async (t) => {
  const tool = await openTool(t, browser, sidecar, 'fleet.place_order');
  const { page } = tool;
  const focused = (label) => page.waitForFunction((l) => document.activeElement?.getAttribute('aria-label') === l, label);
  await tool.presence('labels').focus();
  for (const args of [{ labels: {} }, {}]) {
    await page.keyboard.press('Space');
    await tool.has(args);
    await focused('Set labels');
  }
  await page.getByRole('button', { name: 'Add an element to parcels' }).click();
  await tool.has({ parcels: [{}] });
  await page.getByRole('button', { name: 'Remove element 0 of parcels' }).focus();
  await page.keyboard.press('Enter');
  await tool.has({ parcels: [] });
  await page.waitForFunction(() => document.activeElement?.textContent === 'Add an element to parcels');
});

test('a file that is read while something is typed loses none of it', async (t) => {
  const tool = await openTool(t, browser, sidecar, 'lab.echo');
  const { page } = tool;
  await page.evaluate(() => {
    const read = File.prototype.arrayBuffer;
    File.prototype.arrayBuffer = async function () {
      await new Promise((resolve) => { window.readNow = resolve; });
      return read.call(this);
    };
  });
  await tool.item('payload').getByLabel('How payload is entered').selectOption('file');
  await tool.item('payload').locator('input[type=file]').setInputFiles({ name: 'a', mimeType: 'text/plain', buffer: Buffer.from('a') });
  await tool.control('nonce').fill('typed meanwhile');
  await tool.has({ nonce: 'typed meanwhile' });
  await page.evaluate(() => window.readNow());
  await tool.has({ nonce: 'typed meanwhile', payload: 'YQ==' });
});
