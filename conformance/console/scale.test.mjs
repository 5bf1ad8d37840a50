// SPDX-License-Identifier: Apache-2.0
// What the console costs: its size, its first paint, 11,000 tools, and calls without a pause. The bounds are those of a
// machine at rest with OUTRIGGER_STRICT=1, and wider otherwise.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { before, test } from 'node:test';
import { count, descriptors, emptyBackend } from './catalog.mjs';
import { Sidecar, files, openBrowser, openPage, strict, until } from './kit.mjs';

let browser;
before(async () => { browser = await openBrowser(); });

const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];

test('the first paint, and the bytes on the way', async (t) => {
  const sidecar = await Sidecar.start(['--demo']);
  const paints = [];
  for (let i = 0; i < 3; i++) {
    const page = await openPage(t, browser, sidecar.page('/try'));
    await page.locator('.tools-rows a').first().waitFor();
    paints.push(await until(() => page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime), 'a first paint'));
    if (i < 2) continue;
    // All parts of the console: those of the first page, the editor, the other page with its charts.
    await page.locator('.tools-rows a').first().click();
    await page.locator('.cm-content').waitFor();
    await page.getByRole('link', { name: 'Live', exact: true }).click();
    await page.locator('canvas').first().waitFor({ state: 'attached' });
    const parts = await page.evaluate(() => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
      .filter((e) => new URL(e.name).pathname.startsWith('/console')).map((e) => [new URL(e.name).pathname, e.transferSize]));
    const all = parts.reduce((sum, [, size]) => sum + size, 0);
    t.diagnostic(`${parts.length} parts, ${all} bytes on the way`);
    assert.ok(parts.length >= 5 && all > 50_000 && all < 256_000, JSON.stringify(parts));
  }
  t.diagnostic(`first paint after ${paints.map(Math.round).join(', ')} ms`);
  assert.ok(median(paints) <= (strict ? 200 : 1_000), `first paint after ${paints} ms`);
});

test('11,000 tools: search, scrolling, rows in the page', async (t) => {
  const at = files(t, { 'many.binpb': descriptors() });
  const backend = await emptyBackend();
  t.after(backend.stop);
  const sidecar = await Sidecar.start(['--descriptors', at['many.binpb'], '--backend', backend.url]);
  assert.equal((await sidecar.api('SearchTools')).body.total, count);

  const took = [];
  for (const query of ['approve the refund of customs', 'weather alarm', 'lock', 'harbor vessel berth', 'zzz', 'export', 'parking permit lease', 'watch']) {
    for (let i = 0; i < 4; i++) {
      const began = performance.now();
      const { status } = await sidecar.api('SearchTools', { query, pageSize: 200 });
      took.push(performance.now() - began);
      assert.equal(status, 200);
    }
  }
  t.diagnostic(`search: median ${median(took).toFixed(1)} ms of ${took.length}`);
  assert.ok(median(took) < (strict ? 50 : 250), `search: ${median(took)} ms`);

  const page = await openPage(t, browser, sidecar.page('/try'));
  await page.getByText('11,000 tools').first().waitFor();
  await page.evaluate(() => {
    window.longest = 0;
    new PerformanceObserver((list) => { for (const e of list.getEntries()) window.longest = Math.max(window.longest, e.duration); }).observe({ type: 'longtask' });
  });
  const rows = page.locator('.tools-rows li');
  const list = page.locator('.tools-rows');
  let most = 0;
  // To the end: each page of tools is fetched as it is reached.
  await until(async () => {
    const atEnd = await list.evaluate((e) => { e.scrollTop = e.scrollHeight; return e.firstElementChild.clientHeight >= 11_000 * 54; });
    most = Math.max(most, await rows.count());
    return atEnd;
  }, 'the end of the list', 45_000);
  await list.evaluate(async (e) => {
    for (let i = 0; i < 40; i++) {
      e.scrollTop = (e.scrollHeight * ((i * 7) % 40)) / 40;
      await new Promise(requestAnimationFrame);
    }
    e.scrollTop = e.scrollHeight;
  });
  await page.locator('.tools-rows a[data-row="10999"]').waitFor();
  most = Math.max(most, await rows.count());
  assert.ok(most <= 60, `${most} rows in the page`);

  await page.locator('#tool-search').pressSequentially('approve refund customs');
  await until(async () => /customs.*approve.*refund/i.test(await page.locator('.tools-rows a').first().innerText()), 'the tool that fits best');
  await page.locator('.tools-rows a').first().click();
  await page.locator('.cm-content').waitFor();
  const longest = await page.evaluate(() => window.longest);
  t.diagnostic(`longest task ${Math.round(longest)} ms, at most ${most} rows`);
  assert.ok(longest < (strict ? 200 : 1_000), `a task of ${longest} ms`);
});

test('calls without a pause while the page is open: memory is bounded', async (t) => {
  const sidecar = await Sidecar.start(['--demo']);
  const page = await openPage(t, browser, sidecar.page('/live'));
  await page.getByText('No call has been made yet.').waitFor();
  const debug = await page.context().newCDPSession(page);
  await debug.send('Performance.enable');
  const heap = async () => {
    await debug.send('HeapProfiler.collectGarbage');
    return (await debug.send('Performance.getMetrics')).metrics.find((m) => m.name === 'JSHeapUsedSize').value;
  };
  const resident = () => Number(/VmRSS:\s+([0-9]+)/.exec(readFileSync(`/proc/${sidecar.process.pid}/status`, 'utf8'))[1]) * 1024;

  const end = Date.now() + 15_000;
  let calls = 0;
  let failed = 0;
  const agent = new Agent({ keepAlive: true });
  const body = JSON.stringify({ jsonrpc: '2.0', id: '1', method: 'tools/call', params: { name: 'lab.echo', arguments: { nonce: 'load' } } });
  const one = () => new Promise((resolve, reject) => {
    const sent = request(`http://${sidecar.main}/rpc`, { method: 'POST', agent, headers: { 'content-type': 'application/json' } }, (response) => {
      if (response.statusCode !== 200) failed++;
      response.resume().on('end', resolve);
    });
    sent.on('error', reject).end(body);
  });
  const load = Promise.all(Array.from({ length: 8 }, async () => { while (Date.now() < end) { await one(); calls++; } }));
  await new Promise((resolve) => setTimeout(resolve, 5_000));
  const [early, earlyResident] = [await heap(), resident()];
  await load;
  agent.destroy();
  const [late, lateResident] = [await heap(), resident()];
  const mb = (n) => (n / 1e6).toFixed(1);
  t.diagnostic(`${calls} calls; heap of the page ${mb(early)} then ${mb(late)} MB; sidecar ${mb(earlyResident)} then ${mb(lateResident)} MB`);
  assert.equal(failed, 0);
  assert.ok(calls > 1_000, `${calls} calls`);
  assert.ok(late < 40e6 && late - early < 12e6, `the heap of the page: ${mb(early)}, then ${mb(late)} MB`);
  assert.ok(lateResident < 400e6 && lateResident - earlyResident < 80e6, `the sidecar: ${mb(earlyResident)}, then ${mb(lateResident)} MB`);
  // The page lists a part, and says how much it leaves out.
  await page.getByText(/calls? ended too fast to be listed/).waitFor();
  assert.ok(await page.locator('tbody tr').count() < 200);
  const shown = await page.evaluate(() => document.querySelectorAll('*').length);
  assert.ok(shown < 5_000, `${shown} elements`);
});
