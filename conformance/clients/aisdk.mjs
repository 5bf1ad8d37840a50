// SPDX-License-Identifier: Apache-2.0
//
// The MCP client of the AI SDK: both eras. It is made for tools; what it leaves
// out of the protocol is named below.

import assert from 'node:assert/strict';
import { createMCPClient, ElicitationRequestSchema } from '@ai-sdk/mcp';
import { Experimental_StdioMCPTransport as StdioMCPTransport } from '@ai-sdk/mcp/mcp-stdio';
import { beginWait, text } from './checks.mjs';
import { lacks, main, pages, Traffic } from './harness.mjs';

await main({
  script: 'aisdk',
  name: 'AI SDK',
  package: '@ai-sdk/mcp',
  modes: ['legacy', 'auto'],
  eraOf: (mode) => (mode === 'legacy' ? 'legacy' : 'modern'),

  async open(target, { capabilities, answers }) {
    const uncaught = [];
    const make = (initialSessionId, initialInitializeResult) => {
      const traffic = new Traffic();
      const transport = target.url === undefined
        ? new StdioMCPTransport({ command: target.command[0], args: target.command.slice(1), stderr: 'inherit' })
        : { type: 'http', url: target.url, fetch: traffic.fetch, initialSessionId };
      return createMCPClient({
        transport, initialInitializeResult, clientName: 'aisdk.mjs', capabilities: only(capabilities, 'elicitation'),
        protocolVersionDiscovery: target.mode === 'auto', onUncaughtError: (error) => uncaught.push(error),
      }).then((client) => ({ client, traffic }));
    };
    const { client, traffic } = await make();
    if (capabilities.elicitation) client.onElicitationRequest(ElicitationRequestSchema, ({ params }) => answers.elicit(params));
    return {
      client,
      uncaught,
      version: () => client.initializeResult.protocolVersion,
      capabilities: () => client.initializeResult.capabilities,
      close: () => client.close(),
      list: () => pages((params) => client.listTools({ params }), 'tools'),
      call: (name, args, options) => client.callTool({ name, arguments: args, options: { signal: options?.signal } }),
      resources: () => pages((params) => client.listResources({ params }), 'resources'),
      templates: async () => (await client.listResourceTemplates()).resourceTemplates,
      read: (uri) => client.readResource({ uri }),
      prompts: () => pages((params) => client.listPrompts({ params }), 'prompts'),
      prompt: (name, args) => client.getPrompt({ name, arguments: args }),
      complete: async (ref, argument) => (await client.complete({ ref, argument })).completion.values,
      async end() { // it ends its session when it is closed
        const session = traffic.requests.findLast((entry) => entry.session)?.session;
        assert.equal(typeof session, 'string');
        await client.close();
        assert.equal(traffic.count('DELETE', 204), 1);
        const again = await make(session, client.initializeResult);
        await assert.rejects(again.client.callTool({ name: 'test_simple_text' }));
        assert.equal(again.traffic.count('POST', 404), 1);
        await again.client.close();
      },
    };
  },

  gaps: ({ era, transport }) => ({
    progress: { reason: 'drops notifications', proof: noProgress },
    ...((era === 'legacy' || transport === 'stdio') && {
      cancel: { reason: 'stops waiting without telling the server', proof: notCancelled },
    }),
    sampling: { reason: 'answers only forms', proof: asksInVain('test_input_required_result_sampling', 'sampling') },
    roots: { reason: 'answers only forms', proof: asksInVain('test_input_required_result_list_roots', 'roots') },
    changes: { reason: 'drops notifications', proof: lacks('listen', 'setNotificationHandler', 'onNotification') },
    subscribe: { reason: 'no API for it', proof: lacks('listen', 'subscribeResource', 'subscribe') },
    logs: { reason: 'drops notifications', proof: lacks('listen', 'setNotificationHandler', 'onNotification') },
    'log level': { reason: 'no API for it', proof: lacks('setLoggingLevel', 'setLevel') },
    resume: { reason: 'does not resume the stream of a call', proof: neverBack },
    tasks: { reason: 'no API for it', proof: lacks('getTask', 'callToolStream', 'experimental_tasks') },
  }),
});

function only(capabilities, name) {
  return name in capabilities ? { [name]: capabilities[name] } : {};
}

/** Its requests have no progress token, so it hears of none. */
async function noProgress({ session }) {
  const before = session.uncaught.length;
  let told = false;
  const options = { onprogress: () => { told = true; } };
  text(await session.client.callTool({ name: 'test_tool_with_progress', options }));
  assert.equal(told, false, 'it tells of progress now');
  assert.equal(session.uncaught.length, before);
}

async function notCancelled({ session }) {
  const wait = await beginWait(session);
  wait.abort();
  await assert.rejects(wait.ended, /aborted/);
  // Calls of one caller are begun in order, so this one would come after a cancellation.
  text(await session.call('test_simple_text'));
  assert.equal(await wait.outcome(), 'waiting', 'it tells the server now');
}

/** The server does not ask a client that did not say that it can answer. */
function asksInVain(tool, capability) {
  return async ({ session, era }) => {
    if (era === 'modern') {
      await assert.rejects(session.call(tool), (error) => error.code === -32021 && capability in error.data.requiredCapabilities);
      return;
    }
    assert.equal((await session.call(tool)).isError, true);
  };
}

async function neverBack({ session }) {
  const hung = session.call('test_reconnection', undefined, { signal: AbortSignal.timeout(2_000) });
  await assert.rejects(hung, /aborted/, 'it comes back to streams now');
}
