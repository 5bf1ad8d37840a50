// SPDX-License-Identifier: Apache-2.0
// What the tests of the console share: sidecars of the real binary, and one real browser.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

const binary = process.env.OUTRIGGER_TEST_BINARY ?? new URL('../../bin/sidecar', import.meta.url).pathname;

/** How long anything may take on a busy machine, in milliseconds. */
export const patience = 30_000;

/** A sidecar that serves, with its addresses. Ends with stop. */
export class Sidecar {
  static async start(args = ['--demo'], { listen = '127.0.0.1:0', admin = '127.0.0.1:0', env = {} } = {}) {
    const one = new Sidecar();
    one.log = [];
    one.process = spawn(binary, ['serve', '--listen', listen, '--admin', admin, '--log-format', 'json', '--record-dir', 'off', ...args], {
      stdio: ['ignore', 'ignore', 'pipe'], env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    });
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

/** The browser of this process. */
export async function openBrowser() {
  const executablePath = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);
  assert.ok(executablePath, 'no Chromium: install chromium, or set CHROMIUM');
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage', '--no-proxy-server'] });
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
