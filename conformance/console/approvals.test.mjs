// SPDX-License-Identifier: Apache-2.0
// Calls that wait for approval: what the page says of them, and decisions with the keyboard alone.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, test } from 'node:test';
import { Sidecar, accessible, files, openBrowser, openPage, until } from './kit.mjs';

let browser;
before(async () => { browser = await openBrowser(); });

const policy = `rules:
- name: notes
  tools: [lab.echo]
  effect: approve
  when: args.nonce != ""
  approve: {callers: [local]}
`;

test('a call that waits is opened, approved and denied', async (t) => {
  const at = files(t, { 'policy.yaml': policy, 'audit.jsonl': '' });
  const sidecar = await Sidecar.start(['--demo', '--policy', at['policy.yaml'], '--audit', at['audit.jsonl']]);
  const page = await openPage(t, browser, sidecar.page('/live'));
  await page.getByText('No call has been made yet.').waitFor();
  assert.equal(await page.getByRole('heading', { name: 'Approvals' }).count(), 0, 'nothing waits');

  const call = (nonce) => sidecar.call('lab.echo', { nonce });
  const first = await call('first');
  assert.equal(first.error.data.code, 'APPROVAL_REQUIRED');
  await page.getByRole('heading', { name: 'Approvals 1 waiting' }).waitFor();
  const rows = page.getByRole('region', { name: /^Approvals/ }).getByRole('listitem');
  await rows.getByText('rule notes, 0 of 1 approved').waitFor();

  // The keyboard alone: open, see, say why, approve. Without a reason nothing is decided.
  await rows.getByRole('button', { name: /^Open lab.echo/ }).focus();
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog', { name: 'A call that needs approval' });
  await dialog.getByText('"first"').waitFor();
  await accessible(page, 'approvals');
  await dialog.getByRole('button', { name: 'Approve' }).focus();
  await page.keyboard.press('Enter');
  await dialog.getByText('Say why').waitFor();
  assert.equal((await call('first')).error.data.code, 'APPROVAL_REQUIRED');
  await page.keyboard.type('ticket 4711');
  await page.keyboard.press('Tab'); // Decide later
  await page.keyboard.press('Tab'); // Deny
  await page.keyboard.press('Tab'); // Approve
  await page.keyboard.press('Enter');
  await dialog.waitFor({ state: 'hidden' });
  await page.getByText('You approved; 1 of 1, so the call runs.').first().waitFor();
  assert.equal((await call('first')).error, undefined);

  const second = await call('second');
  assert.equal(second.error.data.code, 'APPROVAL_REQUIRED');
  await rows.getByRole('button', { name: /^Open lab.echo/ }).first().click();
  await dialog.getByText('"second"').waitFor();
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'hidden' });
  await rows.getByRole('button', { name: /^Open lab.echo/ }).first().click();
  await dialog.getByLabel('Reason').fill('not again');
  await dialog.getByRole('button', { name: 'Deny' }).click();
  await page.getByText('You denied the call; it will not run.').first().waitFor();
  const denied = await call('second');
  assert.equal(denied.error.data.code, 'PERMISSION_DENIED');
  assert.ok(denied.error.message.includes('not again'), denied.error.message);

  await page.getByText(/^Decided \([0-9]+\)$/).click();
  await rows.getByText('denied', { exact: true }).first().waitFor();
  await accessible(page, 'approvals');
  await until(() => ['ticket 4711', 'not again'].every((reason) => readFileSync(at['audit.jsonl'], 'utf8').includes(reason)), 'both reasons are in the audit trail');
});
