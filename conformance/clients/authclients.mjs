// SPDX-License-Identifier: Apache-2.0
//
// The clients of auth.mjs. Each has a name, its package (or version) and modes, and open(url,
// mode, tools), which logs in and returns {list, call, close}; gaps say what a client
// cannot do, and prove it.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { follow } from './authority.mjs';
import { until } from './checks.mjs';

const info = { name: 'auth.mjs', version: '1.0.0' };
export const callback = 'http://127.0.0.1:1/callback'; // nothing listens there: the script reads the address
const path = (file) => fileURLToPath(new URL(file, import.meta.url));

function failure(result) {
  if (result.isError) throw new Error(result.content.map((part) => part.text).join('\n'));
  return result;
}

/**
 * A port that nothing listens on, below those that the kernel gives to connections: one of these could be taken by somebody's
 * connection before the sidecar listens on it.
 */
export async function freePort() {
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 18_000);
    const server = createServer().listen(port, '127.0.0.1');
    if (await once(server, 'listening').then(() => true, () => false)) {
      server.close();
      await once(server, 'close');
      return port;
    }
  }
}

/** The memory of a client of the TypeScript SDK, and its browser. */
class Memory {
  redirectUrl = callback;

  clientMetadata = {
    client_name: info.name, redirect_uris: [callback], grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
    token_endpoint_auth_method: 'none', application_type: 'native',
  };

  clientInformation = () => this.client;

  saveClientInformation = (client) => { this.client = client; };

  tokens = () => this.saved;

  saveTokens = (tokens) => { this.saved = tokens; };

  codeVerifier = () => this.verifier;

  saveCodeVerifier = (verifier) => { this.verifier = verifier; };

  saveDiscoveryState = (state) => { this.discovered = state; };

  discoveryState = () => this.discovered;

  invalidateCredentials = (what) => {
    if (what === 'all' || what === 'tokens') this.saved = undefined;
    if (what === 'all' || what === 'client') this.client = undefined;
  };

  redirectToAuthorization = async (url) => { this.back = await this.logIn(url, callback); };

  logIn = follow;
}

export const typescript = {
  script: 'typescript',
  name: 'TypeScript client',
  package: '@modelcontextprotocol/client',
  modes: ['legacy', 'auto'],

  async open(url, mode, { registered, logIn, scope } = {}) {
    const memory = new Memory();
    if (registered) memory.client = registered;
    if (logIn) memory.logIn = logIn;
    if (scope) memory.clientMetadata.scope = scope;
    let client;
    let transport;
    const connect = async () => {
      client = new Client(info, { versionNegotiation: { mode } });
      transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: memory });
      await client.connect(transport);
    };
    // The client throws where a user has to log in, and goes on with the code.
    const loggedIn = async (work) => {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof UnauthorizedError) && !(error.cause instanceof UnauthorizedError)) throw error;
        await transport.finishAuth(memory.back.searchParams);
        return undefined;
      }
    };
    if (await loggedIn(async () => { await connect(); return true; }) === undefined) await connect();
    return {
      list: async () => (await client.listTools()).tools,
      call: async (name, args) => {
        const call = () => client.callTool({ name, arguments: args });
        return failure(await loggedIn(call) ?? await call());
      },
      token: () => memory.saved.access_token,
      refresh: () => { memory.saved = { ...memory.saved, access_token: 'expired-expired-expired' }; },
      close: () => client.close(),
    };
  },
};

/** An environment in which a client that opens a browser runs browser.mjs. */
async function withBrowser() {
  const folder = await mkdtemp(join(tmpdir(), 'browser-'));
  const script = join(folder, 'xdg-open');
  await writeFile(script, `#!/bin/sh\nexec '${process.execPath}' '${path('browser.mjs')}' "$@"\n`, { mode: 0o755 });
  for (const name of ['www-browser', 'x-www-browser', 'sensible-browser']) await symlink(script, join(folder, name));
  return {
    env: { ...process.env, HOME: folder, PATH: folder + delimiter + process.env.PATH, BROWSER: script, DISPLAY: ':0' },
    folder,
    close: () => rm(folder, { recursive: true, force: true }),
  };
}

const remote = {
  script: 'remote',
  name: 'mcp-remote',
  package: 'mcp-remote',
  modes: ['legacy', 'auto'],

  async open(url, mode) {
    const browser = await withBrowser();
    const client = new OldClient(info, { capabilities: {} });
    await client.connect(new StdioClientTransport({
      command: process.execPath, args: [path('node_modules/mcp-remote/dist/proxy.js'), url, '--protocol', mode, '--transport', 'http-only'],
      env: { ...browser.env, MCP_REMOTE_CONFIG_DIR: browser.folder }, stderr: process.env.VERBOSE ? 'inherit' : 'ignore',
    }));
    return {
      list: async () => (await client.listTools()).tools,
      call: async (name, args) => failure(await client.callTool({ name, arguments: args })),
      close: async () => { await client.close(); await browser.close(); },
    };
  },
};

const goSDK = {
  script: 'go',
  name: 'Go SDK',
  version: '1.8.0',
  modes: ['legacy', 'auto'],

  async open(url, mode, { goClient }) {
    const child = spawn(goClient, ['-url', url, '-mode', mode], { stdio: ['pipe', 'pipe', 'inherit'] });
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const ask = async (request) => {
      if (request) child.stdin.write(`${JSON.stringify(request)}\n`);
      const { value, done } = await lines.next();
      if (done) throw new Error('the client ended');
      const answer = JSON.parse(value);
      if (answer.error) throw new Error(answer.error);
      return answer.result;
    };
    await ask();
    return {
      list: async () => (await ask({ list: true })).tools,
      call: async (name, args) => failure(await ask({ call: name, arguments: args })),
      close: async () => { child.stdin.end(); },
    };
  },
};

const mcpdo = path('node_modules/@modelcontextprotocol/inspector/clients/mcpdo/build/mcp-bin.js');

const inspector = {
  script: 'inspector',
  name: 'MCP Inspector',
  lifetime: 90, // of tokens, in seconds: it renews those that end within a minute
  package: '@modelcontextprotocol/inspector',
  modes: ['legacy', 'auto'],
  gaps: {
    'step-up': {
      reason: 'asks for every scope at its first login',
      proof: async ({ session, idp }) => {
        await session.call('fleet_cancel_order', { order_id: '9007199254740999' });
        assert.ok(idp.scope.includes('tools:write'));
      },
    },
  },

  async open(url, mode) {
    const browser = await withBrowser();
    const config = join(browser.folder, 'config.json');
    await writeFile(config, JSON.stringify({ mcpServers: { fixture: { type: 'http', url } } }));
    const env = {
      ...browser.env, MCP_OAUTH_CALLBACK_URL: `http://127.0.0.1:${await freePort()}/oauth/callback`, MCP_INSPECTOR_DAEMON_DIR: join(browser.folder, 'daemon'), MCP_INSPECTOR_DAEMON_TOKEN: 'token',
    };
    const run = async (...args) => {
      const child = spawn(process.execPath, [mcpdo, '--format', 'json', ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
      let out = '';
      let err = '';
      child.stdout.on('data', (text) => { out += text; });
      child.stderr.on('data', (text) => { err += text; });
      await new Promise((done) => { child.once('close', done); });
      if (process.env.VERBOSE) console.error(args.join(' '), out, err);
      try {
        return JSON.parse(out);
      } catch {
        throw new Error(err || out);
      }
    };
    // Without a terminal it shows the address of the login, and goes on once its own address was called.
    const signIn = () => until('the client is signed in', async () => {
      const shown = await run('@fixture', 'connections/show');
      if (!shown.pendingAuth) return true;
      if (!shown.authUrl) return false;
      const url = new URL(shown.authUrl);
      await fetch(await follow(url, url.searchParams.get('redirect_uri'))).catch(() => {}); // once is enough
      return false;
    });
    const signedIn = async (...args) => {
      try {
        return await run(...args);
      } catch {
        await run('--config', config, 'connect', 'fixture', '--era', mode);
        await signIn();
        return run(...args);
      }
    };
    await run('--config', config, 'connect', 'fixture', '--era', mode);
    await signIn();
    return {
      list: async () => (await signedIn('@fixture', 'tools/list')).tools,
      call: async (name, args) => failure(await signedIn('@fixture', 'tools/call', '--tool-name', name, '--tool-args-json', JSON.stringify(args))),
      close: async () => { await run('daemon', 'stop'); await browser.close(); },
    };
  },
};

export const drivers = [typescript, goSDK, remote, inspector];
