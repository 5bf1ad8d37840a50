// SPDX-License-Identifier: Apache-2.0
//
// Runs every check of checks.mjs with one client and prints a JSON line a check:
//
//   {"client", "version", "mode", "transport", "check", "outcome", "ms", ...}
//
// outcome is "ok", "failed" (with error), "unsupported" (the client cannot do
// it; with reason) or "absent" (the revision or the transport has no such
// thing; with reason). The exit code is 1 where anything failed, 2 for wrong
// arguments.
//
//   node CLIENT.mjs --mode MODE (--url URL | -- COMMAND [ARGUMENT...])

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { Answers, checks } from './checks.mjs';

// A check takes milliseconds, or some seconds where a client takes a process a
// request; a busy machine may be far slower.
const checkTimeout = 60_000;
const slowCheckTimeout = 300_000;

/** The version of an installed package. */
export async function versionOf(name) {
  const file = new URL(`./node_modules/${name}/package.json`, import.meta.url);
  return JSON.parse(await readFile(file, 'utf8')).version;
}

/** Every value of a list that comes in pages, where page returns one. */
export async function pages(page, member) {
  const all = [];
  for (let cursor; ;) {
    const result = await page(cursor === undefined ? undefined : { cursor });
    all.push(...result[member]);
    if (result.nextCursor === undefined) return all;
    cursor = result.nextCursor;
  }
}

/** Proof that session.client has none of these members. */
export function lacks(...names) {
  return ({ session }) => { for (const name of names) assert.equal(session.client[name], undefined, `it has ${name} now`); };
}

/** Counts what a client fetches, so that a check sees how it did something. */
export class Traffic {
  requests = [];

  fetch = async (url, init) => {
    const headers = new Headers(init?.headers);
    const entry = { method: init?.method ?? 'GET', lastEvent: headers.get('last-event-id'), session: headers.get('mcp-session-id') };
    this.requests.push(entry);
    const response = await fetch(url, init);
    entry.status = response.status;
    return response;
  };

  count(method, status) {
    return this.requests.filter((entry) => entry.method === method && entry.status === status).length;
  }

  resumed() {
    return this.requests.some((entry) => entry.method === 'GET' && entry.lastEvent !== null && entry.status === 200);
  }
}

function readArguments(script, modes) {
  const usage = `usage: ${script} --mode ${modes.join('|')} (--url URL | -- COMMAND [ARGUMENT...])`;
  try {
    const { values, positionals: command } = parseArgs({
      options: { mode: { type: 'string', default: modes[0] }, url: { type: 'string' }, help: { type: 'boolean', short: 'h' } },
      allowPositionals: true,
    });
    if (values.help) {
      console.log(usage);
      process.exit(0);
    }
    if ((values.url === undefined) === (command.length === 0)) throw new Error('either --url or a command is needed');
    if (!modes.includes(values.mode)) throw new Error(`no such mode: ${values.mode}`);
    return { mode: values.mode, url: values.url, command };
  } catch (error) {
    console.error(`${error.message}\n${usage}`);
    return process.exit(2);
  }
}

/**
 * Runs a client. It has: name and package; modes; eraOf(mode), and wireOf(mode) where the sidecar sees another
 * era; open(target,
 * options), which returns a session; keeps, where one session has to do for all
 * checks, because opening one is slow; and gaps(run), which says what the client
 * cannot do: {check: {reason, proof}}, where proof fails once the client can.
 */
export async function main(client) {
  const target = readArguments(`${client.script}.mjs`, client.modes);
  const run = {
    mode: target.mode, era: client.eraOf(target.mode), transport: target.url === undefined ? 'stdio' : 'http', target,
  };
  run.wire = client.wireOf?.(target.mode) ?? run.era;
  const label = { client: client.name, version: await versionOf(client.package), mode: run.mode, transport: run.transport };
  const sessions = new Set();
  const gaps = client.gaps?.(run) ?? {};
  const timeout = client.keeps ? slowCheckTimeout : checkTimeout;
  let failed = 0;

  const open = async (options = {}) => {
    if (client.keeps && run.session && options.capabilities === undefined) {
      run.session.heard.length = 0;
      return run.session;
    }
    const { capabilities = everything, answers = new Answers() } = options;
    const heard = [];
    const session = await client.open(target, {
      ...options, capabilities, answers, hear: (kind, params) => { heard.push({ kind, params }); },
    });
    session.heard = heard;
    session.answers = answers;
    session.showsCodes ??= true;
    session.code ??= (error) => error.code;
    sessions.add(session);
    return session;
  };

  const close = async () => { for (const session of sessions) await session.close().catch(() => {}); };
  process.once('SIGTERM', () => close().finally(() => process.exit(1)));

  const one = async (check, test) => {
    const absent = check.absent?.(run);
    if (absent) return { outcome: 'absent', reason: absent };
    const gap = gaps[check.name];
    const lacking = test.session && !gap ? (check.needs ?? []).filter((method) => typeof test.session[method] !== 'function') : [];
    if (lacking.length > 0) throw new Error(`the client's script has no ${lacking.join(', ')}, and names no reason`);
    if (gap) {
      await gap.proof(test);
      return { outcome: 'unsupported', reason: gap.reason };
    }
    await check.run(test);
    return { outcome: 'ok' };
  };

  for (const check of checks) {
    const test = { ...run, open, gaps, session: run.session };
    const began = performance.now();
    let timer;
    let line;
    try {
      line = await Promise.race([
        one(check, test),
        new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(`not done after ${timeout} ms`)), timeout); }),
      ]);
    } catch (error) {
      failed++;
      line = { outcome: 'failed', error: error.message };
      if (error.data !== undefined) line.data = error.data;
    } finally {
      clearTimeout(timer);
    }
    console.log(JSON.stringify({ ...label, check: check.name, ...line, ms: Math.round(performance.now() - began) }));
    if (check.name === 'connect') {
      if (line.outcome !== 'ok') break; // nothing else can be done
      run.session = test.session;
    }
  }
  for (const name of Object.keys(gaps)) {
    if (!checks.some((check) => check.name === name)) throw new Error(`there is no check ${name}`);
  }
  await close();
  process.exit(failed === 0 ? 0 : 1);
}

/** What a client can do that can do everything. */
export const everything = { elicitation: { form: {} }, sampling: {}, roots: {} };
