// SPDX-License-Identifier: Apache-2.0
// The pictures of docs/console.md, written with OUTRIGGER_SCREENSHOTS=1.

import assert from 'node:assert/strict';
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { deflateSync } from 'node:zlib';
import { Sidecar, files, openBrowser, openPage, openTool, until } from './kit.mjs';

const folder = process.env.OUTRIGGER_TEST_IMAGES ?? new URL('../../docs/images', import.meta.url).pathname;
const skip = process.env.OUTRIGGER_SCREENSHOTS === '1' ? false : 'OUTRIGGER_SCREENSHOTS=1 writes them';
const size = { viewport: { width: 1280, height: 800 } };

let browser, sidecar;
before(async () => {
  if (skip) return;
  mkdirSync(folder, { recursive: true });
  browser = await openBrowser();
});

async function picture(page, name) {
  const path = join(folder, `console-${name}.png`);
  // Decoded by the browser, and coded again in fewer colours: the repository keeps every version.
  const shot = await page.screenshot({ animations: 'disabled', caret: 'hide' });
  const blank = await page.context().newPage();
  const { width, height, pixels } = await blank.evaluate(async (base64) => {
    const image = new Image();
    image.src = `data:image/png;base64,${base64}`;
    await image.decode();
    const context = new OffscreenCanvas(image.width, image.height).getContext('2d');
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, image.width, image.height);
    let text = '';
    for (let i = 0; i < data.length; i += 32_768) text += String.fromCharCode(...data.subarray(i, i + 32_768));
    return { width: image.width, height: image.height, pixels: btoa(text) };
  }, shot.toString('base64'));
  await blank.close();
  writeFileSync(path, png(width, height, Buffer.from(pixels, 'base64')));
  assert.ok(statSync(path).size < 120_000, `${path}: ${statSync(path).size} bytes`);
}

/** A PNG with a palette, from pixels of four bytes: the colours that are most used, and the nearest of them for the others. */
function png(width, height, rgba) {
  const uses = new Map();
  const colours = new Uint32Array(width * height);
  for (let i = 0; i < colours.length; i++) {
    colours[i] = (rgba[4 * i] << 16) | (rgba[4 * i + 1] << 8) | rgba[4 * i + 2];
    uses.set(colours[i], (uses.get(colours[i]) ?? 0) + 1);
  }
  // Surfaces keep their colours. Of the edges of letters, 24 steps of each channel are one.
  const coarse = (c) => [16, 8, 0].reduce((sum, s) => sum | (Math.min(255, Math.round(((c >> s) & 255) / 24) * 24) << s), 0);
  const kept = new Map();
  for (const [c, n] of uses) {
    const to = n > 400 ? c : coarse(c);
    kept.set(to, (kept.get(to) ?? 0) + n);
  }
  const palette = [...kept].sort((a, b) => b[1] - a[1]).slice(0, 256).map(([c]) => c);
  const distance = (a, b) => [16, 8, 0].reduce((sum, s) => sum + (((a >> s) & 255) - ((b >> s) & 255)) ** 2, 0);
  const at = new Map(palette.map((c, i) => [c, i]));
  for (const c of uses.keys()) {
    if (!at.has(c)) at.set(c, palette.reduce((best, p, i) => (distance(p, c) < distance(palette[best], c) ? i : best), 0));
  }
  const rows = Buffer.alloc(height * (width + 1));
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) rows[y * (width + 1) + 1 + x] = at.get(colours[y * width + x]);
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 3, 0, 0, 0], 8);
  const chunk = (type, data) => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const out = Buffer.alloc(body.length + 8);
    out.writeUInt32BE(data.length, 0);
    body.copy(out, 4);
    out.writeUInt32BE(crc32(body), body.length + 4);
    return out;
  };
  return Buffer.concat([
    Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]), chunk('IHDR', header), chunk('PLTE', Buffer.from(palette.flatMap((c) => [c >> 16, (c >> 8) & 255, c & 255]))),
    chunk('IDAT', deflateSync(rows, { level: 9 })), chunk('IEND', Buffer.alloc(0)),
  ]);
}

function crc32(bytes) {
  let sum = ~0;
  for (const byte of bytes) {
    sum ^= byte;
    for (let i = 0; i < 8; i++) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return ~sum >>> 0;
}

/** An order with a fault: its window ends before it begins. */
const order = {
  customer: 'Coconut Café', destination: { stopId: '12' }, parcels: [{ contents: 'glass', weightKg: 0.5, fragile: true }],
  window: { notBefore: '2026-06-01T06:00:00Z', notAfter: '2026-06-01T05:00:00Z' },
};

test('pictures of both pages', { skip }, async (t) => {
  const at = files(t, { 'audit.jsonl': '' });
  sidecar = await Sidecar.start(['--demo', '--destructive', 'confirm', '--audit', at['audit.jsonl'], '--record-dir', at.folder]);
  for (const [name, colorScheme] of [['try', 'light'], ['dark', 'dark']]) {
    const tool = await openTool(t, browser, sidecar, 'fleet.place_order', { ...size, colorScheme });
    await tool.write(JSON.stringify(order, null, 2));
    await tool.checked(1);
    await tool.page.locator('h1').click();
    await picture(tool.page, name);
  }
  const policy = files(t, { 'policy.yaml': `rules:
- name: cancellations
  tools: [fleet.cancel_order]
  effect: approve
  when: "true"
  approve: {callers: [local]}
` });
  for (const [name, colorScheme] of [['approvals', 'light'], ['approvals-dark', 'dark']]) {
    const asking = await Sidecar.start(['--demo', '--trust', 'trusted', '--policy', policy['policy.yaml']]);
    await asking.call('fleet.cancel_order', { orderId: '1001' });
    const page = await openPage(t, browser, asking.page('/live'), { ...size, colorScheme });
    await page.getByRole('button', { name: /^Open fleet.cancel_order/ }).click();
    const dialog = page.getByRole('dialog', { name: 'A call that needs approval' });
    await dialog.getByText('1001').first().waitFor();
    await dialog.getByLabel('Reason').fill('The customer asked for it: ticket 4711.');
    await page.locator('.tiles').first().waitFor();
    await picture(page, name);
  }
  const live = await openPage(t, browser, sidecar.page('/live'), size);
  await live.getByText('No call has been made yet.').waitFor();
  void sidecar.call('lab.sleep', { duration: '20s' });
  const names = ['fleet.list_vehicles', 'fleet.get_map', 'lab.echo', 'fleet.plan_route', 'lab.fail', 'fleet.find_orders'];
  const args = { 'fleet.plan_route': { vehicleId: '101', stopIds: ['4', '12'] }, 'lab.fail': { code: 'FAIL_CODE_UNAVAILABLE', message: 'the crane is broken' }, 'fleet.find_orders': { filter: { customerContains: 'a' } } };
  for (let i = 0; i < 60; i++) {
    await sidecar.call(names[i % names.length], args[names[i % names.length]] ?? {});
    await new Promise((resolve) => setTimeout(resolve, 120));
  }
  await live.locator('tbody tr', { hasText: 'lab.sleep' }).first().waitFor();
  await until(async () => await live.locator('tbody tr', { hasText: 'lab.fail' }).count() > 0, 'calls');
  await picture(live, 'live');
  await live.locator('tbody tr', { hasText: 'lab.fail' }).getByRole('link').first().click();
  await live.getByRole('heading', { name: 'What to try next' }).waitFor();
  await live.getByRole('region', { name: 'Audit trail' }).locator('.line').first().waitFor();
  await picture(live, 'call');
});
