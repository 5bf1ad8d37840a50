// SPDX-License-Identifier: Apache-2.0
// Every page and state without barriers that axe finds, in both themes, and 320 pixels wide.

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { Sidecar, accessible, digest, files, openBrowser, openPage, openTool, until } from './kit.mjs';

let browser, sidecar;
before(async () => {
  [browser, sidecar] = await Promise.all([openBrowser(), Sidecar.start(['--demo', '--destructive', 'confirm'])]);
});

/** The document does not scroll sideways. */
async function fits(page, state) {
  await page.setViewportSize({ width: 320, height: 640 });
  const look = () => page.evaluate(() => {
    const root = document.documentElement;
    const out = [...document.querySelectorAll('body *')].find((e) => e.getBoundingClientRect().right > root.clientWidth + 1 && !e.closest('.scroll, pre, .calls, .editor, .unseen, [hidden], svg, .tabs'));
    return [root.scrollWidth - root.clientWidth, out?.outerHTML.slice(0, 200)];
  });
  // Charts are drawn again for the width that they get.
  await until(async () => (await look())[0] <= 0, state, 3_000).catch(async () => {
    const [wide, at] = await look();
    assert.fail(`${state}: ${wide} pixels too wide, such as ${at}`);
  });
  await page.setViewportSize({ width: 1280, height: 900 });
}

test('the page to try tools', async (t) => {
  const page = await openPage(t, browser, sidecar.page('/try'));
  await page.locator('.tools-rows a').first().waitFor();
  await accessible(page, 'try without a tool');
  await fits(page, 'try without a tool');
  await page.locator('#tool-search').fill('qq');
  await page.getByText('No tool fits these words.').waitFor();
  await accessible(page, 'a search that finds nothing');
});

test('a tool, its form with violations, its other tabs', async (t) => {
  const tool = await openTool(t, browser, sidecar, 'fleet.place_order');
  const { page } = tool;
  await accessible(page, 'a tool');
  await fits(page, 'a tool');
  await tool.write('{"customer": "", "destination": {"position": {"latitude": 900}}, "parcels": [{"contents": "", "fragile": true}], "window": {"notBefore": "2026-06-01T06:00:00Z"}, "labels": {"Bad Key": "x"}}');
  await page.locator('.f-faults').first().waitFor();
  await accessible(page, 'a form with violations');
  await fits(page, 'a form with violations');
  await page.getByText('Copy this call as…').click();
  await accessible(page, 'texts to copy', ['light']);
  await fits(page, 'texts to copy');
  for (const tab of ['Schema', 'As agents see it', /^Lint/, /^Changes/]) {
    await page.getByRole('tab', { name: tab }).first().click();
    await accessible(page, `the tab ${tab}`);
    await fits(page, `the tab ${tab}`);
  }
});

test('a call: running, asked, its result', async (t) => {
  const tool = await openTool(t, browser, sidecar, 'fleet.find_orders');
  const { page } = tool;
  await tool.call();
  await tool.outcome.locator('.badge').first().waitFor();
  await tool.write('{"filter": {"customerContains": "a"}}');
  await tool.checked();
  await tool.call();
  await tool.ended('succeeded');
  for (const tab of ['Table', 'Tree', /^Content/, 'Message']) {
    await tool.outcome.getByRole('tab', { name: tab }).click();
    await accessible(page, `a result as ${tab}`);
    await fits(page, `a result as ${tab}`);
  }
  await tool.outcome.getByText('Messages on the wire').click();
  await accessible(page, 'messages', ['light']);
  await fits(page, 'messages');

  const asked = await openTool(t, browser, sidecar, 'fleet.cancel_order#args=%7B%22orderId%22%3A%229007199254740993%22%7D');
  await asked.checked();
  await asked.callAnyway();
  await asked.outcome.getByRole('group', { name: /^Asked of you/ }).waitFor();
  await accessible(asked.page, 'a question');
  await fits(asked.page, 'a question');
  await asked.outcome.getByRole('button', { name: 'Decline' }).click();
  await asked.ended('failed');
  await accessible(asked.page, 'an error');

  const running = await openTool(t, browser, sidecar, 'fleet.watch_vehicles#args=%7B%22rounds%22%3A1000%2C%22interval%22%3A%220.2s%22%7D');
  await running.checked();
  await running.call();
  await running.outcome.getByText('Running').waitFor();
  await accessible(running.page, 'a stream');
  await running.outcome.getByRole('button', { name: 'Cancel' }).click();
  await running.ended('cancelled');
});

test('the page of what happens now, a dialog, one call', async (t) => {
  const page = await openPage(t, browser, sidecar.page('/live'));
  await page.getByRole('button', { name: 'Drain', exact: true }).waitFor();
  void sidecar.call('lab.sleep', { duration: '20s' });
  for (let i = 0; i < 30; i++) await sidecar.call(['lab.echo', 'fleet.get_map', 'lab.fail'][i % 3], i % 3 === 2 ? { code: 'FAIL_CODE_INTERNAL' } : {});
  await page.locator('tbody tr', { hasText: 'lab.fail' }).first().waitFor();
  await page.locator('tbody tr', { hasText: 'in flight' }).first().waitFor();
  await accessible(page, 'live');
  await fits(page, 'live');
  await page.getByRole('button', { name: 'Drain', exact: true }).click();
  await page.getByRole('dialog').waitFor();
  await accessible(page, 'a dialog');
  await fits(page, 'a dialog');
  await page.keyboard.press('Escape');
  await page.locator('tbody tr', { hasText: 'lab.fail' }).getByRole('link').first().click();
  await page.getByRole('heading', { name: 'What to try next' }).waitFor();
  await accessible(page, 'one call');
  await fits(page, 'one call');
});

test('the sign-in', async (t) => {
  const at = files(t, { 'operators.yaml': `operators:\n  - name: olga\n    token_sha256: ["${digest('some-token')}"]\n    role: operate\n` });
  const guarded = await Sidecar.start(['--demo', '--admin-tokens', at['operators.yaml']]);
  const page = await openPage(t, browser, guarded.page('/try'), { tolerated: [/status of 401/] });
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await accessible(page, 'sign-in');
  await fits(page, 'sign-in');
  await page.getByLabel('Admin token').fill('wrong');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').waitFor();
  await accessible(page, 'a token that is refused');
});

test('what screen readers hear, and where the focus is', async (t) => {
  const tool = await openTool(t, browser, sidecar, 'lab.echo');
  const { page } = tool;
  await page.keyboard.press('Tab');
  await page.evaluate(() => document.querySelector('.skip').focus());
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
  await tool.call();
  await page.locator('[role=status]', { hasText: 'The call succeeded' }).waitFor({ state: 'attached' });
  assert.match(await page.title(), /^lab\.echo/);
  await page.getByRole('link', { name: 'Live', exact: true }).click();
  await page.getByRole('link', { name: 'Live', exact: true, includeHidden: false }).and(page.locator('[aria-current=page]')).waitFor();
  assert.match(await page.title(), /^Live/);
});
