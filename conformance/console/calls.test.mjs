// SPDX-License-Identifier: Apache-2.0
// Calls: asked and confirmed, streamed and cancelled, as tasks, with questions, progress and log lines; what they come to; and the
// same call made elsewhere.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { delimiter, dirname } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Sidecar, binary, files, openBrowser, openPage, openTool, startFixture, until } from './kit.mjs';

let browser, demo, confirming, backend, talking;
before(async () => {
  [browser, demo, confirming, backend] = await Promise.all([
    openBrowser(), Sidecar.start(['--demo']), Sidecar.start(['--demo', '--destructive', 'confirm', '--task-after', '400ms']), startFixture(),
  ]);
  talking = await Sidecar.start(['--backend', backend]);
});

/** The id of an order that can be cancelled. */
async function newOrder(sidecar) {
  const { result } = await sidecar.call('fleet.place_order', {
    customer: 'Ada', destination: { stopId: '12' }, parcels: [{ contents: 'books', weightKg: 1, valueCents: '1', fragile: false }],
  });
  return orderOf(result).id;
}

const orderOf = (result) => result.structuredContent ?? assert.fail(JSON.stringify(result));

/** The status of an order, or "gone". */
async function statusOf(sidecar, orderId) {
  const { result } = await sidecar.call('fleet.get_order', { orderId });
  return result.content[0].text.includes('there is no order') ? 'gone' : orderOf(result).status;
}

test('a destructive call is asked by the page, and refused for callers without trust', async (t) => {
  const orderId = await newOrder(demo);
  const tool = await openTool(t, browser, demo, 'fleet.cancel_order');
  const { page } = tool;
  await tool.control('orderId').fill(orderId);
  await tool.checked();
  await page.getByText('refused unless the caller is trusted').waitFor();
  await tool.call();
  const dialog = page.getByRole('dialog', { name: 'Call a destructive tool?' });
  await dialog.getByRole('button', { name: 'Do not call' }).click();
  assert.equal(await tool.outcome.count(), 0);
  await tool.call();
  await dialog.waitFor();
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'hidden' });
  await tool.call();
  await dialog.getByRole('button', { name: 'Call it' }).click();
  await tool.ended('failed');
  await tool.outcome.getByText(/TRUST|GATED|DENIED|CONFIRM|DESTRUCTIVE/).first().waitFor();
  assert.equal(await statusOf(demo, orderId), 'ORDER_STATUS_PLACED');
});

for (const revision of ['MCP 2026-07-28', 'MCP 2025-06-18']) {
  test(`a destructive call is asked by the page, then by the sidecar, and confirmed, in ${revision}`, async (t) => {
    const orderId = await newOrder(confirming);
    const tool = await openTool(t, browser, confirming, 'fleet.cancel_order');
    await tool.control('orderId').fill(orderId);
    await tool.checked();
    await tool.revision(revision);
    for (const answer of ['Decline', 'Accept']) {
      await tool.callAnyway();
      const question = tool.outcome.getByRole('group', { name: /^Asked of you: The tool fleet.cancel_order/ });
      await question.getByText(orderId).waitFor();
      assert.equal(await statusOf(confirming, orderId), 'ORDER_STATUS_PLACED');
      await question.getByRole('button', { name: answer, exact: true }).click();
      await tool.ended(answer === 'Accept' ? 'succeeded' : 'failed');
      assert.equal(await question.count(), 0);
    }
    assert.equal(await statusOf(confirming, orderId), 'gone');
  });
}

test('a destructive call over /rpc is refused where users are asked, since no one can be asked there', async (t) => {
  const orderId = await newOrder(confirming);
  const tool = await openTool(t, browser, confirming, 'fleet.cancel_order', { tolerated: [/status of 403/] });
  await tool.control('orderId').fill(orderId);
  await tool.checked();
  await tool.revision('JSON-RPC (/rpc)');
  await tool.callAnyway();
  await tool.ended('failed');
  assert.equal(await statusOf(confirming, orderId), 'ORDER_STATUS_PLACED');
});

for (const revision of ['MCP 2026-07-28', 'MCP 2025-11-25', 'JSON-RPC (/rpc)']) {
  test(`a stream shows its items and how far it is, and is cancelled, in ${revision}`, async (t) => {
    const tool = await openTool(t, browser, demo, 'fleet.watch_vehicles');
    await tool.control('rounds').fill('1000');
    await tool.control('interval').fill('50ms');
    await tool.control('interval').press('Tab');
    await tool.checked();
    await tool.revision(revision);
    await tool.call();
    if (revision !== 'JSON-RPC (/rpc)') {
      await until(async () => Number(/[1-9][0-9]*/.exec(await tool.outcome.locator('.stack.tight').first().innerText().catch(() => ''))?.[0] ?? 0) > 5, 'progress');
    }
    const items = tool.outcome.getByRole('region', { name: 'Items so far' });
    await items.getByText(/vehicle/).first().waitFor();
    // The call has its items on its own page too, while it runs.
    const link = await tool.outcome.getByRole('link', { name: 'This call in Live' }).getAttribute('href');
    const live = await openPage(t, browser, new URL(link, tool.page.url()).href);
    await live.getByRole('region', { name: 'Items so far' }).getByText(/vehicle/).first().waitFor();
    assert.ok(await items.getByRole('listitem').count() <= 200, 'the list has a bound');
    await tool.outcome.getByRole('button', { name: 'Cancel' }).click();
    await tool.ended('cancelled');
    await items.getByText(/vehicle/).first().waitFor();
    await until(async () => (await watched(demo)).inFlightTotal === undefined, 'the call has ended in the sidecar');
  });
}

/** The first message of the stream for operators. */
async function watched(sidecar) {
  const end = new AbortController();
  const body = JSON.stringify({});
  const envelope = Buffer.concat([Buffer.from([0, 0, 0, 0, body.length]), Buffer.from(body)]);
  const response = await fetch(`http://${sidecar.admin}/outrigger.admin.v1.AdminService/Watch`, {
    method: 'POST', headers: { 'content-type': 'application/connect+json' }, body: envelope, signal: end.signal,
  });
  let all = Buffer.alloc(0);
  try {
    for await (const chunk of response.body) {
      all = Buffer.concat([all, chunk]);
      if (all.length >= 5 && all.length >= 5 + all.readUInt32BE(1)) break;
    }
  } finally { end.abort(); }
  return JSON.parse(all.subarray(5, 5 + all.readUInt32BE(1)));
}

test('a bidirectional stream answers with its items', async (t) => {
  const tool = await openTool(t, browser, demo, 'lab.relay');
  await tool.write('{"items": [{"nonce": "a"}, {"nonce": "b", "unsigned": "18446744073709551615"}]}');
  await tool.checked();
  await tool.call();
  await tool.ended('succeeded');
  await tool.outcome.getByRole('tab', { name: 'Table' }).click();
  const rows = tool.outcome.locator('.result-table tbody tr');
  assert.equal(await rows.count(), 2);
  await rows.nth(1).getByText('18446744073709551615').waitFor();
});

test('a call runs on as a task, and is seen through', async (t) => {
  const tool = await openTool(t, browser, confirming, 'lab.sleep#args=%7B%22duration%22%3A%222.5s%22%2C%22nonce%22%3A%22n%22%7D');
  await tool.checked();
  await tool.call();
  await tool.outcome.getByText('task working').waitFor();
  await tool.ended('succeeded');
  await tool.outcome.getByText('task completed').waitFor();
  const { result } = await tool.message();
  assert.equal((result.result ?? result).structuredContent.nonce, 'n');

  // A task is cancelled as any call.
  await tool.control('duration').fill('60s');
  await tool.checked();
  await tool.call();
  await tool.outcome.getByText('task working').waitFor();
  await tool.outcome.getByRole('button', { name: 'Cancel' }).click();
  await tool.ended('cancelled');
});

test('the shortcut calls with what was typed, also into the field that it is pressed in', async (t) => {
  const tool = await openTool(t, browser, demo, 'lab.sleep');
  const duration = tool.control('duration');
  await duration.fill('20 ms');
  await duration.press('Control+Enter');
  await tool.ended('succeeded');
  assert.equal(await duration.inputValue(), '0.02s');
});

test('a link brings back the arguments that it has', async (t) => {
  const tool = await openTool(t, browser, demo, 'lab.echo#args=%7B%22nonce%22%3A%22first%22%7D');
  const { page } = tool;
  const address = page.url();
  await tool.control('nonce').fill('second');
  await page.waitForURL(/second/);
  await page.evaluate((href) => {
    const link = document.createElement('a');
    link.href = href;
    document.body.append(link);
    link.click();
    link.remove();
  }, address);
  await tool.has({ nonce: 'first' });
  assert.equal(await tool.control('nonce').inputValue(), 'first');
});

test('a call that is running is cancelled', async (t) => {
  const tool = await openTool(t, browser, demo, 'lab.sleep#args=%7B%22duration%22%3A%2230s%22%7D');
  await tool.checked();
  await tool.revision('JSON-RPC (/rpc)');
  await tool.call();
  await tool.outcome.getByText('Running').waitFor();
  await tool.outcome.getByRole('button', { name: 'Cancel' }).click();
  await tool.ended('cancelled');
});

for (const revision of ['MCP 2026-07-28', 'MCP 2025-11-25']) {
  test(`progress, log lines and questions of a tool, in ${revision}`, async (t) => {
    const progress = await openTool(t, browser, talking, 'test_tool_with_progress');
    await progress.revision(revision);
    await progress.call();
    await progress.ended('succeeded');
    await progress.outcome.getByRole('progressbar', { name: 'Progress' }).waitFor();
    await progress.outcome.getByText('100 of 100').waitFor();

    const logging = await openTool(t, browser, talking, 'test_tool_with_logging');
    await logging.revision(revision);
    await logging.call();
    await logging.ended('succeeded');
    await logging.outcome.getByText('Log lines').click();
    assert.equal(await logging.outcome.getByRole('list', { name: 'Log lines' }).getByText('info').count(), 3);

    const asking = await openTool(t, browser, talking, 'test_elicitation_sep1034_defaults');
    await asking.revision(revision);
    await asking.call();
    const question = asking.outcome.getByRole('group', { name: /Please look over the defaults/ });
    await question.waitFor();
    assert.equal(await asking.control('name', question).inputValue(), 'John Doe');
    await asking.control('name', question).fill('Grace');
    await asking.control('status', question).selectOption({ label: 'pending' });
    await question.getByRole('button', { name: 'Answer', exact: true }).click();
    await asking.ended('succeeded');
    const said = (await asking.message()).result.content[0].text;
    assert.match(said, /Grace/);
    assert.match(said, /pending/);
    assert.match(said, /95\.5/);
  });
}

test('questions of a task are answered, and what an answer needs is asked for', async (t) => {
  const tool = await openTool(t, browser, talking, 'multi_input');
  await tool.call();
  const first = tool.outcome.getByRole('group', { name: /Who comes first/ });
  await first.getByRole('button', { name: 'Answer', exact: true }).click();
  await first.getByText('An answer needs this.').waitFor();
  for (const [question, name] of [['Who comes first', 'Ada'], ['Who comes second', 'Grace']]) {
    const asked = tool.outcome.getByRole('group', { name: new RegExp(question) });
    await tool.control('name', asked).fill(name);
    await asked.getByRole('button', { name: 'Answer', exact: true }).click();
  }
  await tool.ended('succeeded');
  assert.match(JSON.stringify(await tool.message()), /Ada before Grace/);
});

test('images are shown, and sounds can be saved', async (t) => {
  const tool = await openTool(t, browser, talking, 'test_multiple_content_types');
  await tool.call();
  await tool.ended('succeeded');
  const image = tool.outcome.getByRole('img', { name: 'Result of type image/png' });
  await until(() => image.evaluate((i) => i.complete && i.naturalWidth > 0), 'the picture is shown');
  await tool.outcome.getByRole('button', { name: 'Download' }).first().waitFor();

  const sound = await openTool(t, browser, talking, 'test_audio_content');
  await sound.call();
  await sound.ended('succeeded');
  const [download] = await Promise.all([sound.page.waitForEvent('download'), sound.outcome.getByRole('button', { name: 'Download' }).click()]);
  assert.equal(await download.failure(), null);
});

test('a large result is cut, with the way to the rest', async (t) => {
  const tool = await openTool(t, browser, demo, 'lab.echo');
  const bytes = Buffer.alloc(1 << 20, 'abc');
  await tool.item('payload').getByLabel('How payload is entered').selectOption('file');
  await tool.item('payload').locator('input[type=file]').setInputFiles({ name: 'a', mimeType: 'application/octet-stream', buffer: bytes });
  await tool.checked();
  await tool.call();
  await tool.ended('succeeded');
  await tool.outcome.getByText('(1,398,104 characters)').first().waitFor();
  assert.ok(await tool.page.evaluate(() => document.body.innerText.length) < 300_000, 'the page shows a part');
  await tool.outcome.getByRole('tab', { name: 'Message' }).click();
  const [download] = await Promise.all([tool.page.waitForEvent('download'), tool.outcome.getByRole('button', { name: 'Download' }).click()]);
  const chunks = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk);
  assert.equal(JSON.parse(Buffer.concat(chunks)).result.structuredContent.payload, bytes.toString('base64'));
});

test('the call as every command and program comes to the same', { timeout: 600_000 }, async (t) => {
  const tool = await openTool(t, browser, demo, 'lab.echo');
  const sent = { nonce: 'it\'s "quoted" $HOME `id` \\ ü', signed: '-9223372036854775808', unsigned: '18446744073709551615', payload: 'aMOpbGxv' };
  await tool.write(JSON.stringify(sent));
  await tool.checked();
  await tool.page.getByText('Copy this call as…').click();
  const snippet = async (label) => {
    await tool.page.getByRole('tab', { name: label, exact: true }).click();
    return tool.page.getByRole('region', { name: label, exact: true }).innerText();
  };
  const run = promisify(execFile);
  const root = dirname(dirname(binary));
  const env = { ...process.env, PATH: [dirname(binary), `${root}/.tmp/bin`, process.env.PATH].join(delimiter) };

  const answer = JSON.parse((await run('sh', ['-c', await snippet('curl')], { env })).stdout);
  assert.deepEqual(answer.result.structuredContent, sent);
  const { stdout } = await run('sh', ['-c', await snippet('sidecar call')], { env });
  const called = JSON.parse(stdout);
  assert.deepEqual(called.data ?? called.structuredContent ?? called, sent);

  const message = JSON.parse(await snippet('MCP message'));
  assert.deepEqual(message.params.arguments, sent);
  const response = await fetch(`http://${demo.main}/mcp`, {
    method: 'POST', body: JSON.stringify(message),
    headers: {
      'content-type': 'application/json', accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': message.params.name,
    },
  });
  const text = await response.text();
  assert.ok(text.includes('18446744073709551615'), text.slice(0, 500));

  const typed = JSON.parse((await run('sh', ['-c', await snippet('grpcurl')], { env })).stdout);
  assert.deepEqual(typed, sent);

  // The program is one of this repository's module: no other has the packages that it imports.
  const at = files(t, { 'main.go': await snippet('Go (connect)') });
  const program = await run('go', ['run', at['main.go']], { cwd: root, env, timeout: 280_000 });
  assert.match(program.stdout, /18446744073709551615/);

  // The client is one of the packages of these tests.
  const script = fileURLToPath(new URL(`./copied-${process.pid}.mjs`, import.meta.url));
  t.after(() => rmSync(script, { force: true }));
  writeFileSync(script, await snippet('TypeScript'));
  const { stdout: printed } = await run(process.execPath, [script], { env });
  for (const text of ['18446744073709551615', '-9223372036854775808', 'aMOpbGxv']) assert.ok(printed.includes(text), printed);
});

test('links to a tool and to a call outlast a reload', async (t) => {
  const page = await openPage(t, browser, demo.page('/try/lab_echo'), { permissions: ['clipboard-read', 'clipboard-write'] });
  await page.getByRole('heading', { name: 'lab.echo' }).waitFor();
  await page.goto(demo.page('/try/lab.echo'));
  await page.locator('.cm-content').waitFor();
  await page.locator('.args-form textarea').first().fill('kept ä & "more"');
  await page.getByRole('button', { name: 'Copy the link to this call' }).click();
  await until(async () => (await page.evaluate(() => navigator.clipboard.readText())).includes('#args='), 'the link is copied');
  const link = await page.evaluate(() => navigator.clipboard.readText());
  await until(() => page.url() === link, 'the address is the link');
  await page.reload();
  await until(async () => await page.locator('.args-form textarea').first().inputValue() === 'kept ä & "more"', 'the arguments are there again');

  await page.getByRole('button', { name: 'Call', exact: true }).click();
  await page.getByRole('link', { name: 'This call in Live' }).click();
  await page.getByRole('heading', { name: /^Call [0-9]+/ }).waitFor();
  await page.getByRole('region', { name: 'Steps' }).getByText('validate').first().waitFor();
  await page.reload();
  await page.getByRole('heading', { name: /^Call [0-9]+/ }).waitFor();
  await page.getByRole('link', { name: 'lab.echo' }).waitFor();
});

test('search, then a call, with the keyboard alone', async (t) => {
  const page = await openPage(t, browser, demo.page('/try'));
  await page.locator('.tools-rows a').first().waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('echo');
  await page.locator('.tools-rows li', { hasText: 'lab.echo' }).waitFor();
  await until(async () => (await page.locator('.tools-rows a').first().innerText()).includes('lab.echo'), 'echo fits best');
  await page.keyboard.press('Enter');
  await page.locator('.cm-content').waitFor();
  await tabTo(page, (e) => e.matches?.('textarea') && e.labels?.[0]?.innerText.startsWith('nonce'));
  await page.keyboard.type('typed');
  await tabTo(page, (e) => e.matches?.('button') && e.innerText === 'Call');
  await page.keyboard.press('Enter');
  await page.locator('.call .badge', { hasText: 'succeeded' }).waitFor();
  await tabTo(page, (e) => e.matches?.('[role=tab]') && e.innerText === 'Tree');
  await page.keyboard.press('End');
  await page.getByRole('region', { name: 'Message as it was received' }).getByText('"typed"').waitFor();
});

/** Presses Tab until the element with the focus is the one that is meant. */
async function tabTo(page, is) {
  for (let i = 0; i < 60; i++) {
    if (await page.evaluate(`(${is})(document.activeElement)`)) return;
    await page.keyboard.press('Tab');
  }
  assert.fail(`Tab does not lead to ${is}`);
}

test('a tool as agents see it: dialects, schema, lint, changes', async (t) => {
  const tool = await openTool(t, browser, demo, 'fleet.place_order', { tolerated: [/status of 404/] });
  const { page } = tool;
  await page.getByRole('tab', { name: 'Schema' }).click();
  await page.locator('.schema').getByText('destination').first().waitFor();
  await page.getByRole('tab', { name: 'Input (JSON)', exact: true }).or(page.getByRole('tab', { name: /JSON/ }).first()).first().click();
  await page.getByLabel('As text').check();
  await page.getByRole('tab', { name: 'As agents see it' }).click();
  await page.getByText('fleet_place_order', { exact: true }).first().waitFor();
  await page.getByText('outrigger.demo.v1.Fleet/PlaceOrder').waitFor();
  const dialects = page.getByLabel('As listed in');
  assert.deepEqual(await dialects.locator('option').allInnerTexts(), ['MCP', 'JSON-RPC (/rpc)']);
  await dialects.selectOption('JSON-RPC (/rpc)');
  await page.getByRole('tab', { name: /^Lint/ }).click();
  await page.getByRole('tabpanel').getByText('Fix: ').first().waitFor();
  await page.getByRole('tab', { name: /^Changes/ }).click();
  await page.getByText('No changes').waitFor();
  await page.goto(demo.page('/try/no.such.tool'));
  await page.getByText('There is no such tool').waitFor();
});
