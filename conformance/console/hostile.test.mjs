// SPDX-License-Identifier: Apache-2.0
// Texts of a backend that mean harm: nothing in them runs, hides, turns around or swells the page.

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { Sidecar, files, openBrowser, openTool, openPage, until } from './kit.mjs';

const script = '<script>window.owned=1;alert(1)</script>';
const image = '<img src=x onerror="window.owned=1;alert(2)">';
const ansi = '\u001b[31mred\u001b[0m\u0007';
const turned = '\u202Egnp.exe\u202C \u2066hidden\u2069';
const hostile = `${script}${image}${ansi}${turned}<svg onload=alert(3)>`;

let browser;
before(async () => { browser = await openBrowser(); });

/** A sidecar whose tools have hostile texts. */
async function start(t) {
  const long = 'n'.repeat(900);
  const at = files(t, {
    'outrigger.yaml': `tools:
  - method: outrigger.demo.v1.Lab/Echo
    tool:
      title: ${JSON.stringify(hostile)}
      description: ${JSON.stringify(`${hostile}\n[link](javascript:alert(4)) ${'d'.repeat(60_000)}`)}
      examples:
        - name: ${JSON.stringify(script)}
          arguments_json: "{}"
  - method: outrigger.demo.v1.Lab/Sleep
    tool:
      title: ${JSON.stringify(long)}
`,
  });
  return Sidecar.start(['--demo', '--config', at['outrigger.yaml']]);
}

/** Nothing ran, and nothing of the texts became an element; what is invisible is written out. */
async function harmless(page, within = 400_000) {
  const seen = await page.evaluate(() => ({
    owned: window.owned, scripts: [...document.querySelectorAll('script')].filter((s) => !s.src).length,
    images: document.querySelectorAll('img[src=x], svg[onload], [onerror]').length, links: document.querySelectorAll('a[href^=javascript]').length,
    nodes: document.querySelectorAll('*').length, text: document.documentElement.innerText,
  }));
  assert.deepEqual({ ...seen, nodes: 0, text: '' }, { owned: undefined, scripts: 0, images: 0, links: 0, nodes: 0, text: '' });
  assert.ok(seen.nodes < 5_000, `${seen.nodes} elements`);
  assert.ok(seen.text.length < within, `${seen.text.length} characters`);
  assert.ok(!/[\u001b\u0007\u202a-\u202e\u2066-\u2069]/.test(seen.text), 'characters that act on what is around them');
}

test('texts of a catalog', async (t) => {
  const sidecar = await start(t);
  const tool = await openTool(t, browser, sidecar, 'lab.echo');
  // The catalog has dropped what is invisible; markup is text.
  await tool.page.getByText('<script>window.owned=1;alert(1)</script>').first().waitFor();
  await tool.page.getByText('[31mred').first().waitFor();
  for (const tab of ['Schema', 'As agents see it', /^Lint/, /^Changes/]) {
    await tool.page.getByRole('tab', { name: tab }).first().click();
    await harmless(tool.page);
  }
  await tool.page.getByRole('tab', { name: 'As agents see it' }).click();
  await tool.page.getByLabel('As text').check();
  await harmless(tool.page);
});

test('texts of results, of errors, and of callers', async (t) => {
  const sidecar = await start(t);
  const tool = await openTool(t, browser, sidecar, 'lab.echo');
  await tool.write(JSON.stringify({ nonce: hostile }));
  await tool.checked();
  await harmless(tool.page);
  await tool.call();
  await tool.ended('succeeded');
  await tool.outcome.getByText('\\u001b[31mred').first().waitFor();
  await tool.outcome.getByText('\\u202egnp.exe').first().waitFor();
  for (const view of await tool.outcome.getByRole('tab').all()) {
    await view.click();
    await harmless(tool.page);
  }
  await tool.outcome.getByText('Messages on the wire').click();
  await harmless(tool.page);

  const failing = await openTool(t, browser, sidecar, 'lab.fail');
  await failing.write(JSON.stringify({ code: 'FAIL_CODE_INTERNAL', message: hostile, details: ['FAIL_DETAIL_HELP', 'FAIL_DETAIL_LOCALIZED_MESSAGE'] }));
  await failing.checked();
  await failing.call();
  await failing.ended('failed');
  await harmless(failing.page);

  // Names that callers send, in the table and on the page of the call.
  const live = await openPage(t, browser, sidecar.page('/live'), { tolerated: [/status of 404/] });
  await live.locator('tbody tr', { hasText: 'lab.fail' }).first().waitFor();
  await sidecar.call(hostile.slice(0, 200), {}, { 'user-agent': 'x' });
  await until(async () => await live.locator('tbody tr').count() >= 3, 'the call of a tool that is not there');
  await harmless(live);
  await live.locator('tbody tr', { hasText: 'lab.fail' }).getByRole('link').first().click();
  await live.getByRole('heading', { name: 'What to try next' }).waitFor();
  await harmless(live);

  // In the address too.
  await live.goto(sidecar.page(`/try/${encodeURIComponent(hostile)}#args=${encodeURIComponent(`{"nonce": ${JSON.stringify(image)}}`)}`));
  await live.getByText('There is no such tool').waitFor();
  await harmless(live);
  await live.goto(sidecar.page(`/live?q=${encodeURIComponent(script)}&tool=${encodeURIComponent(image)}`));
  await live.getByText('No call fits the filters.').waitFor();
  await harmless(live);
});

test('names and results of a megabyte', async (t) => {
  const sidecar = await start(t);
  const tool = await openTool(t, browser, sidecar, 'lab.inspect');
  const name = 'x'.repeat(1 << 20);
  // As if pasted: the page has to live with what is in its editor.
  await tool.control('replyHeaders').or(tool.presence('replyHeaders')).first().waitFor();
  await tool.write(JSON.stringify({ [name]: name }));
  await tool.page.locator('.args-json').getByText(/violation/).waitFor();
  await harmless(tool.page, 3_000_000);
  await tool.page.getByRole('button', { name: 'Clear' }).click();
  await tool.checked();

  const echo = await openTool(t, browser, sidecar, 'lab.echo');
  await echo.item('payload').getByLabel('How payload is entered').selectOption('file');
  await echo.item('payload').locator('input[type=file]').setInputFiles({ name: 'a', mimeType: 'application/octet-stream', buffer: Buffer.alloc(1 << 20, '<b>') });
  await echo.checked();
  await echo.call();
  await echo.ended('succeeded');
  for (const view of await echo.outcome.getByRole('tab').all()) {
    await view.click();
    await harmless(echo.page, 3_000_000);
  }
  // The page still answers at once.
  const took = await echo.page.evaluate(() => new Promise((resolve) => { const began = performance.now(); requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - began))); }));
  assert.ok(took < 1_000, `${took} ms for a frame`);
});
