// SPDX-License-Identifier: Apache-2.0
//
// The MCP Inspector on the command line: mcpdo, which keeps a connection between
// commands, and `inspector --cli` for single requests.

import assert from 'node:assert/strict';
import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { text, until } from './checks.mjs';
import { main } from './harness.mjs';

const kinds = (session) => session.heard.map((event) => event.kind);
const folder = new URL('./node_modules/@modelcontextprotocol/inspector/clients/', import.meta.url);
const mcpdo = fileURLToPath(new URL('mcpdo/build/mcp-bin.js', folder));
const inspector = fileURLToPath(new URL('launcher/build/index.js', folder));

// A daemon outlives its starter, so whatever happens here, it is ended.
const open = new Set();
process.once('exit', () => {
  for (const { env } of open) spawnSync(process.execPath, [mcpdo, 'daemon', 'stop'], { env, timeout: 10_000 });
});

/** A named connection in a separate daemon. */
class Connection {
  static async open(target, capabilities) {
    const connection = new Connection();
    open.add(connection);
    connection.home = await mkdtemp(join(tmpdir(), 'mcpdo-'));
    connection.target = target;
    connection.env = {
      ...process.env, HOME: connection.home, MCP_INSPECTOR_SECRET_STORE: 'memory',
      NODE_COMPILE_CACHE: fileURLToPath(new URL('./compile-cache', import.meta.url)),
      MCP_INSPECTOR_DAEMON_DIR: join(connection.home, 'daemon'), MCP_INSPECTOR_DAEMON_TOKEN: 'token',
    };
    const server = target.url === undefined
      ? { type: 'stdio', command: target.command[0], args: target.command.slice(1) }
      : { type: 'http', url: target.url };
    connection.config = join(connection.home, 'config.json');
    await writeFile(connection.config, JSON.stringify({ mcpServers: { fixture: server } }));
    const elicit = capabilities.elicitation ? 'form' : 'off';
    await connection.run(mcpdo, ['--format', 'json', '--config', connection.config, 'connect', 'fixture', '--era', target.mode, '--elicit', elicit]);
    connection.info = await connection.run(mcpdo, ['--format', 'json', '@fixture', 'connections/show']);
    return connection;
  }

  /** Runs a command to its end and returns what it printed. */
  run(script, args, { signal } = {}) {
    const options = { env: this.env, maxBuffer: 1 << 24, signal, killSignal: 'SIGINT' };
    return new Promise((resolve, reject) => {
      execFile(process.execPath, [script, ...args], options, (error, out, err) => {
        try {
          const printed = JSON.parse(out === '' ? err : out);
          if (error && out === '') reject(new Error(printed.error.message));
          else resolve(printed);
        } catch {
          reject(error ?? new Error(`not JSON: ${out}${err}`));
        }
      });
    });
  }

  /** Runs a command on the connection and answers the questions that it raises. */
  async ask(args, answers) {
    const options = typeof args.at(-1) === 'object' ? args.pop() : {};
    let printed = await this.run(mcpdo, ['--format', 'json', '@fixture', ...args], options);
    while (printed.elicitationPending) {
      const { elicitationId, ...question } = printed.elicitationPending;
      const answer = answers.elicit(question);
      const reply = answer.action === 'accept' ? JSON.stringify(answer.content) : `--${answer.action}`;
      printed = await this.run(mcpdo, ['--format', 'json', 'elicitation/respond', elicitationId, reply]);
    }
    return printed;
  }

  /** Runs a command that goes on printing until it is stopped. */
  follow(args, hear) {
    const child = spawn(process.execPath, [mcpdo, '--format', 'json', '@fixture', ...args], { env: this.env, stdio: ['ignore', 'pipe', 'inherit'] });
    const ended = once(child, 'close');
    let rest = '';
    child.stdout.setEncoding('utf8').on('data', (printed) => {
      const values = (rest + printed).split(/(?<=^})\n/m); // indented, so that only the outermost brace begins a line
      rest = values.pop();
      for (const value of values) hear(JSON.parse(value));
    });
    return {
      stop: async () => {
        child.kill('SIGINT');
        await ended;
      },
    };
  }

  /** Runs one request without a connection. */
  async once(...args) {
    const { url, command, mode } = this.target;
    const where = url === undefined ? ['--transport', 'stdio', '--', ...command] : ['--transport', 'http', '--server-url', url];
    const printed = await this.run(inspector, ['--cli', '--quiet', '--format', 'json', '--protocol-era', mode, ...args, ...where]);
    return printed.result ?? printed;
  }

  async close() {
    if (!open.delete(this)) return;
    await this.run(mcpdo, ['--format', 'json', 'daemon', 'stop']);
    await rm(this.home, { recursive: true, force: true });
  }
}

/** Its output is the result and nothing else, whatever was reported on the way. */
async function noProgress({ session }) {
  assert.equal(text(await session.call('test_tool_with_progress')), 'All of it is done.');
}

async function notCancelled({ session }) {
  const { connection } = session;
  const key = `mcpdo-${process.pid}-${Date.now()}`;
  const abort = new AbortController();
  const ended = session.call('test_wait', { key, milliseconds: 5_000 }, { signal: abort.signal });
  ended.catch(() => {}); // looked at below
  const outcome = ['--method', 'tools/call', '--tool-name', 'test_wait_outcome', '--tool-args-json', JSON.stringify({ key })];
  await until('the call is under way', async () => text(await connection.once(...outcome)) !== 'unknown');
  abort.abort();
  await assert.rejects(ended);
  // The connection does one thing at a time.
  assert.equal(text(await session.call('test_wait_outcome', { key })), 'finished', 'it cancels now');
}

async function noSampling({ session, era }) {
  const asked = session.call('test_input_required_result_sampling');
  if (era === 'modern') await assert.rejects(asked, /lacks a capability/);
  else assert.equal((await asked).isError, true);
}

async function noLevel({ session }) {
  await assert.rejects(session.connection.ask(['logging/setLevel', 'error']), /not supported by the negotiated protocol version/);
}

await main({
  script: 'inspector',
  name: 'MCP Inspector',
  package: '@modelcontextprotocol/inspector',
  modes: ['legacy', 'auto', 'modern'],
  eraOf: (mode) => (mode === 'legacy' ? 'legacy' : 'modern'),
  keeps: true,

  async open(target, { capabilities, answers, hear }) {
    const connection = await Connection.open(target, capabilities);
    const ask = (...args) => connection.ask(args, answers);
    const call = (name, args = {}, options = {}) => ask(
      'tools/call', '--tool-name', name, '--tool-args-json', JSON.stringify(args), { signal: options.signal },
    );
    if (capabilities.roots) await ask('roots/set', '--roots-json', JSON.stringify(answers.roots().roots));
    const session = {
      connection,
      showsCodes: false, // of errors it shows the words
      alwaysTasks: true,
      version: () => connection.info.protocolVersion,
      capabilities: () => connection.info.capabilities,
      close: () => connection.close(),
      async list() {
        const { tools } = await ask('tools/list');
        assert.deepEqual((await connection.once('--method', 'tools/list', '--strict')).tools, tools);
        return tools;
      },
      call,
      resources: async () => (await ask('resources/list')).resources,
      templates: async () => (await ask('resources/templates/list')).resourceTemplates,
      read: (uri) => ask('resources/read', uri),
      prompts: async () => (await ask('prompts/list')).prompts,
      prompt: (name, args = {}) => ask(
        'prompts/get', '--prompt-name', name, ...Object.entries(args).flatMap(([key, value]) => ['--prompt-args', `${key}=${value}`]),
      ),
      complete: async (ref, argument) => (await ask(
        'prompts/complete', '--complete-ref-type', ref.type, '--complete-ref', ref.name,
        '--complete-arg-name', argument.name, '--complete-arg-value', argument.value,
      )).values,
      async subscribe(uri) {
        const follower = connection.follow(['resources/subscribe', uri], ({ type, ...params }) => hear(type, params));
        await until('it is subscribed', () => kinds(session).includes('subscribed'));
        return follower.stop;
      },
      async hearLogs() {
        const follower = connection.follow(['logging/tail'], ({ message }) => hear('message', message.params));
        await connection.run(mcpdo, ['--format', 'json', 'daemon', 'status']); // the one before it has been heard by then
        return follower.stop;
      },
      resumed: () => true, // only a client that came back has a result
      tasks: () => ({
        async run(name, args) {
          try {
            return { status: 'completed', result: await call(name, args) };
          } catch {
            return { status: 'failed' };
          }
        },
        get: (taskId) => ask('tasks/get', '--task-id', taskId),
      }),
    };
    if (target.mode === 'legacy') session.level = (level) => ask('logging/setLevel', level);
    return session;
  },

  gaps: ({ era }) => ({
    progress: { reason: 'prints none', proof: noProgress },
    cancel: { reason: 'its connection continues the interrupted call', proof: notCancelled },
    sampling: { reason: 'has no model, and does not declare one', proof: noSampling },
    changes: { reason: 'no command shows them', proof: () => {} },
    'end session': { reason: 'does not expose the session', proof: ({ session }) => assert.equal(session.connection.info.sessionId, undefined) },
    ...(era === 'modern' && { 'log level': { reason: 'always requests every level', proof: noLevel } }),
  }),
});
