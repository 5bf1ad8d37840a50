// SPDX-License-Identifier: Apache-2.0
//
// The OpenAI Agents SDK: tools and resources of an MCP server, without a model.
// It opens the official TypeScript client in the mode auto and shows a part of it.

import assert from 'node:assert/strict';
import { MCPServerStdio, MCPServerStreamableHttp } from '@openai/agents';
import { text } from './checks.mjs';
import { lacks, main, pages } from './harness.mjs';

await main({
  script: 'openai',
  name: 'OpenAI Agents SDK',
  package: '@openai/agents',
  modes: ['auto'],
  eraOf: () => 'modern',

  async open(target) {
    const server = target.url === undefined
      ? new MCPServerStdio({ command: target.command[0], args: target.command.slice(1), name: 'fixture', clientSessionTimeoutSeconds: 20 })
      : new MCPServerStreamableHttp({ url: target.url, name: 'fixture', clientSessionTimeoutSeconds: 20 });
    await server.connect();
    return {
      client: server,
      // It shows no version; its client inside has one.
      version: () => server.underlying.session.getNegotiatedProtocolVersion(),
      capabilities: () => server.underlying.session.getServerCapabilities(),
      code: codeOf,
      close: () => server.close(),
      list: () => server.listTools(),
      call: (name, args, options) => server.callToolResult(name, args ?? null, null, { signal: options?.signal }),
      resources: () => pages((params) => server.listResources(params), 'resources'),
      templates: () => pages((params) => server.listResourceTemplates(params), 'resourceTemplates'),
      read: (uri) => server.readResource(uri),
    };
  },

  gaps: () => ({
    prompts: { reason: 'no API for it', proof: lacks('listPrompts', 'getPrompt') },
    completion: { reason: 'no API for it', proof: lacks('complete') },
    progress: { reason: 'no way to receive it', proof: noProgress },
    elicitation: { reason: 'declares no capabilities', proof: asksInVain('test_input_required_result_elicitation') },
    sampling: { reason: 'declares no capabilities', proof: asksInVain('test_input_required_result_sampling') },
    roots: { reason: 'declares no capabilities', proof: asksInVain('test_input_required_result_list_roots') },
    rounds: { reason: 'declares no capabilities', proof: asksInVain('test_input_required_result_multi_round') },
    changes: { reason: 'no way to receive them', proof: lacks('listen', 'setNotificationHandler', 'onNotification') },
    subscribe: { reason: 'no API for it', proof: lacks('listen', 'subscribeResource', 'subscribe') },
    logs: { reason: 'no way to receive them', proof: lacks('listen', 'setNotificationHandler', 'onNotification') },
    'log level': { reason: 'no API for it', proof: lacks('setLoggingLevel', 'setLevel') },
    tasks: { reason: 'no API for it', proof: lacks('getTask', 'callToolStream') },
  }),
});

/** Over HTTP it wraps errors, and says nothing of their code but in the cause. */
function codeOf(error) {
  return error.code ?? error.cause?.code;
}

async function noProgress({ session }) {
  let told = false;
  const options = { onprogress: () => { told = true; } };
  text(await session.client.callToolResult('test_tool_with_progress', null, null, options));
  assert.equal(told, false, 'it tells of progress now');
}

function asksInVain(tool) {
  return ({ session }) => assert.rejects(session.call(tool), (error) => session.code(error) === -32021);
}
