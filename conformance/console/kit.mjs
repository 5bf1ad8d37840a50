// SPDX-License-Identifier: Apache-2.0
// What the tests of the console share: sidecars of the real binary, and one real browser.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after } from 'node:test';
import { chromium } from 'playwright-core';

export const binary = process.env.OUTRIGGER_TEST_BINARY ?? new URL('../../bin/sidecar', import.meta.url).pathname;

const fixture = process.env.OUTRIGGER_TEST_FIXTURE ?? new URL('../../.tmp/conformance/bin/fixture', import.meta.url).pathname;

// What runs beside the tests ends with them, also where they never began.
const running = new Set();
after(() => Promise.all([...running].map((one) => one.stop())));

/** How long anything may take on a busy machine, in milliseconds. */
export const patience = 30_000;

/** A sidecar that serves, with its addresses. Ends with stop, or with the tests. */
export class Sidecar {
  static async start(args = ['--demo'], { listen = '127.0.0.1:0', admin = '127.0.0.1:0', env = {} } = {}) {
    const one = new Sidecar();
    one.log = [];
    const records = args.includes('--record-dir') ? [] : ['--record-dir', 'off'];
    one.process = spawn(binary, ['serve', '--listen', listen, '--admin', admin, '--log-format', 'json', ...records, ...args], {
      stdio: ['ignore', 'ignore', 'pipe'], env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    });
    running.add(one);
    one.ended = once(one.process, 'exit');
    const ready = new Promise((resolve, reject) => {
      createInterface({ input: one.process.stderr }).on('line', (line) => {
        one.log.push(line);
        let entry;
        try { entry = JSON.parse(line); } catch { return; }
        if (entry.msg === 'listening' && entry.listener) one[entry.listener] = entry.addr;
        if (entry.msg === 'ready') resolve();
      });
      one.ended.then(() => reject(new Error(`the sidecar ended:\n${one.log.slice(-20).join('\n')}`)));
    });
    await ready;
    return one;
  }

  /** The URL of a page of the console. */
  page(path = '') { return `http://${this.admin}/console${path}`; }

  /** The JSON-RPC response to a call on the listener for callers. */
  async call(name, args = {}, headers = {}) {
    const response = await fetch(`http://${this.main}/rpc`, {
      method: 'POST', headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ jsonrpc: '2.0', id: '1', method: 'tools/call', params: { name, arguments: args } }),
    });
    return response.json();
  }

  /** An answer of the API for operators. */
  async api(method, body = {}, headers = {}) {
    const response = await fetch(`http://${this.admin}/outrigger.admin.v1.AdminService/${method}`, {
      method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body),
    });
    return { status: response.status, body: await response.json() };
  }

  async stop(signal = 'SIGTERM') {
    if (this.process.exitCode === null && this.process.signalCode === null) this.process.kill(signal);
    await this.ended;
  }
}

/** A browser, which ends with the tests. */
export async function openBrowser() {
  const executablePath = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);
  assert.ok(executablePath, 'no Chromium: install chromium, or set CHROMIUM');
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage', '--no-proxy-server'] });
  running.add({ stop: () => browser.close() });
  return browser;
}

/**
 * A page in a fresh profile. What the page logs as an error, throws, or is kept from by its policy fails the test at the end, as does
 * a request to anything but the sidecar.
 */
export async function openPage(t, browser, url, { tolerated = [], ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  const faults = [];
  const own = new URL(url).host;
  const note = (text) => { if (!tolerated.some((one) => one.test(text))) faults.push(text); };
  page.on('pageerror', (error) => note(`threw ${error.stack ?? error}`));
  page.on('console', (message) => { if (message.type() === 'error') note(`logged ${message.text()}`); });
  page.on('request', (request) => {
    const at = new URL(request.url());
    if (at.protocol.startsWith('http') && at.host !== own) faults.push(`asked ${request.url()}`);
  });
  page.on('dialog', (dialog) => { note(`a dialog: ${dialog.message()}`); void dialog.dismiss(); });
  t.after(async () => {
    await context.close();
    assert.deepEqual(faults, [], 'what went wrong in the page');
  });
  await page.goto(url);
  return page;
}

/** Paths of files with the given contents, in a folder that goes with the test. */
export function files(t, contents) {
  const folder = mkdtempSync(join(tmpdir(), 'console-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const paths = { folder };
  for (const [name, content] of Object.entries(contents)) {
    paths[name] = join(folder, name);
    writeFileSync(paths[name], content, { mode: 0o600 });
  }
  return paths;
}

/** The digest of a token, as files of operators and callers have it. */
export const digest = (token) => createHash('sha256').update(token).digest('hex');

/** Waits until check returns something true, and returns it. */
export async function until(check, what, within = patience) {
  const end = Date.now() + within;
  for (;;) {
    const got = await check();
    if (got) return got;
    if (Date.now() > end) assert.fail(`not within ${within} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];

/** Fails for every barrier that axe finds in the page as it is, in each colour scheme. */
export async function accessible(page, state, schemes = ['light', 'dark']) {
  for (const colorScheme of schemes) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    // Through the debugger, as the policy of the page has it.
    if (!await page.evaluate('window.axe !== undefined')) await page.evaluate(`(() => { ${axe}\n })()`);
    const found = await page.evaluate((tags) => window.axe.run(document, { runOnly: { type: 'tag', values: tags }, resultTypes: ['violations'] }), rules);
    const said = found.violations.map((v) => `${v.id}: ${v.help}\n${v.nodes.slice(0, 5).map((n) => `  ${n.target} ${n.failureSummary}`).join('\n')}`);
    assert.deepEqual(said, [], `barriers in ${state}, ${colorScheme}`);
  }
}

/** The page of one tool. */
export class ToolPage {
  constructor(page) {
    this.page = page;
    this.form = page.locator('.args-form');
    this.outcome = page.getByRole('region', { name: 'The call', exact: true });
  }

  /** The part of the form for a field that is one control, within another part. */
  item(name, within = this.form) {
    return within.locator(`.f:has(> .f-head > label > .mono > bdi:text-is("${name}"))`).first();
  }

  /** The part of the form for a field that has parts. */
  group(name, within = this.form) {
    return within.locator(`fieldset.f:has(> legend > .mono > bdi:text-is("${name}"))`).first();
  }

  /** The control of a field. */
  control(name, within = this.form) {
    return this.item(name, within).locator('[aria-invalid]').first();
  }

  /** The checkbox for the presence of a field. */
  presence(name, within = this.form) {
    return within.getByRole('checkbox', { name: `Set ${name}`, exact: true });
  }

  /** The text in the editor. */
  async text() {
    return (await this.page.locator('.cm-line').allInnerTexts()).map((line) => line.replace(/^\n$/, '')).join('\n');
  }

  /** Replaces the text in the editor. */
  async write(text) {
    await this.page.locator('.cm-content').click();
    await this.page.keyboard.press('Control+A');
    await this.page.keyboard.insertText(text);
  }

  /** Waits until the editor has this value. */
  async has(value) {
    let last;
    await until(async () => {
      last = await this.text();
      try { assert.deepEqual(JSON.parse(last), value); } catch { return false; }
      return true;
    }, `the JSON is ${JSON.stringify(value)}`, 10_000).catch(() => assert.deepEqual(JSON.parse(last), value));
  }

  /** Waits until the sidecar has found this many violations in what the form has now. */
  async checked(violations = 0) {
    const word = violations === 0 ? '✓ A call would take these arguments' : violations === 1 ? '1 violation' : `${violations} violations`;
    await this.page.locator('.args-json').getByText(word, { exact: true }).waitFor();
  }

  async revision(label) { await this.page.getByRole('combobox', { name: 'in', exact: true }).selectOption({ label }); }

  async call() { await this.page.getByRole('button', { name: 'Call', exact: true }).click(); }

  /** Calls a destructive tool, and says yes to the page's question. */
  async callAnyway() {
    await this.call();
    await this.page.getByRole('dialog', { name: 'Call a destructive tool?' }).getByRole('button', { name: 'Call it' }).click();
  }

  /** Waits for how the call ended, such as "succeeded". */
  async ended(word) { await this.outcome.locator('.badge', { hasText: new RegExp(`^${word}$`) }).first().waitFor(); }

  /** The message that the call came to. */
  async message() {
    await this.outcome.getByRole('tab', { name: 'Message' }).click();
    return JSON.parse(await this.outcome.getByRole('region', { name: 'Message as it was received' }).innerText());
  }
}

/** Opens the page of a tool. */
export async function openTool(t, browser, sidecar, name, options) {
  const page = await openPage(t, browser, sidecar.page(`/try/${name}`), options);
  await page.locator('.cm-content').waitFor();
  return new ToolPage(page);
}

export const strict = process.env.OUTRIGGER_STRICT === '1';

/** The backend whose tools ask, report, and answer with every kind of content; returns its URL. It ends with the tests. */
export async function startFixture() {
  const one = spawn(fixture, ['--listen', '127.0.0.1:0', '--pace', '20ms'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(one, 'exit');
  running.add({ stop: () => { one.kill(); return ended.catch(() => undefined); } });
  const [url] = await Promise.race([once(createInterface({ input: one.stdout }), 'line'), ended.then(() => assert.fail('the fixture ended'))]);
  return url;
}
