// SPDX-License-Identifier: Apache-2.0
//
// The official TypeScript client, second generation: both eras. Tasks are an
// extension, which has a separate package for this client.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { createApplicationInputHandler, createTaskSessionFromClient } from '@modelcontextprotocol/ext-tasks/client';
import { legacyRevision, modernRevision, until } from './checks.mjs';
import { main, Traffic } from './harness.mjs';
import { sessionOf } from './mcp.mjs';

const tasksExtension = 'io.modelcontextprotocol/tasks';
const info = { name: 'typescript.mjs', version: '1.0.0' };

await main({
  script: 'typescript',
  name: 'TypeScript client',
  package: '@modelcontextprotocol/client',
  modes: ['legacy', 'auto', modernRevision],
  eraOf: (mode) => (mode === 'legacy' ? 'legacy' : 'modern'),

  async open(target, { capabilities, answers, hear, tasks }) {
    const negotiation = { mode: ['legacy', 'auto'].includes(target.mode) ? target.mode : { pin: target.mode } };
    if (tasks) capabilities = { ...capabilities, extensions: { [tasksExtension]: {} } };
    const make = (sessionId) => {
      const client = new Client(info, { capabilities, versionNegotiation: negotiation });
      if (capabilities.elicitation) client.setRequestHandler('elicitation/create', ({ params }) => answers.elicit(params));
      if (capabilities.sampling) client.setRequestHandler('sampling/createMessage', ({ params }) => answers.sample(params));
      if (capabilities.roots) client.setRequestHandler('roots/list', () => answers.roots());
      const traffic = new Traffic();
      const transport = target.url === undefined
        ? new StdioClientTransport({ command: target.command[0], args: target.command.slice(1), stderr: 'inherit' })
        : new StreamableHTTPClientTransport(new URL(target.url), {
          fetch: traffic.fetch, sessionId, ...(sessionId && { protocolVersion: legacyRevision }),
        });
      return { client, transport, traffic };
    };
    const { client, transport, traffic } = make();
    await client.connect(transport);
    const modern = client.getProtocolEra() === 'modern';
    const sdk = {
      version: () => client.getNegotiatedProtocolVersion(),
      call: (by, params, options) => by.callTool(params, options),
      request: (by, request, options) => by.request(request, options),
      notify: (by, name, handler) => by.setNotificationHandler(`notifications/${name}`, handler),
      async attach(sessionId) {
        const again = make(sessionId);
        await again.client.connect(again.transport);
        return again;
      },
    };
    const session = sessionOf({ client, transport, traffic, modern, hear, sdk });
    session.unknownResource = -32602; // the client gives the older code the newer number
    if (modern) session.tasks = () => tasksOf(client, transport, capabilities, answers);
    return session;
  },
});

/** Runs tools as tasks, with the package that the extension's authors made. */
function tasksOf(client, transport, capabilities, answers) {
  const session = createTaskSessionFromClient(client, {
    endpointId: 'fixture',
    rawDispatch: dispatchOver(transport),
    v2RequestFraming: { protocolVersion: modernRevision, clientInfo: info, clientCapabilities: capabilities },
    onInputRequest: createApplicationInputHandler({
      elicitation: ({ params }) => answers.elicit(params),
      sampling: ({ params }) => answers.sample(params),
      roots: () => answers.roots(),
    }),
  });
  const begin = async (name, args) => {
    const execution = await session.callTool(name, args);
    if (execution.kind !== 'task') throw new Error(`${name} did not become a task`);
    return execution;
  };
  return {
    async run(name, args) {
      return (await (await begin(name, args)).settle()).outcome;
    },
    async cancelled(name, args) {
      const execution = await begin(name, args);
      await execution.cancel();
      return (await execution.settle()).outcome;
    },
    get: (taskId) => session.task(taskId).snapshot(),
  };
}

/**
 * Sends requests that the client's own schemas would refuse, as the package asks
 * its host to do: with ids that the client does not use, over its transport.
 */
function dispatchOver(transport) {
  const waiting = new Map();
  const deliver = transport.onmessage;
  transport.onmessage = (message, extra) => {
    const resolve = waiting.get(message.id);
    if (resolve === undefined || 'method' in message) return deliver.call(transport, message, extra);
    waiting.delete(message.id);
    return resolve(message.error ? { kind: 'error', error: message.error } : { kind: 'result', result: message.result });
  };
  let last = 0;
  return async (request) => {
    const id = `task-${++last}`;
    let reply;
    waiting.set(id, (response) => { reply = response; });
    await transport.send({ jsonrpc: '2.0', id, ...request });
    return until(`${request.method} is answered`, () => reply);
  };
}
