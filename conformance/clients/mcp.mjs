// SPDX-License-Identifier: Apache-2.0
//
// What the two generations of the official TypeScript SDK have in common.

import assert from 'node:assert/strict';
import { text, until } from './checks.mjs';
import { pages } from './harness.mjs';

// Notifications that a check may wait for.
const notifications = ['tools/list_changed', 'prompts/list_changed', 'resources/list_changed', 'resources/updated', 'message'];

/**
 * A session over a connected client. sdk has what differs: call(client, params,
 * options), request(client, request, options), notify(client, name, handler),
 * and transport(sessionId), which makes a client and a transport for a session
 * that is there already.
 */
export function sessionOf({ client, transport, traffic, modern, hear, sdk }) {
  for (const name of notifications) sdk.notify(client, name, (notification) => hear(name, notification.params));
  let logLevel; // modern: a matter of every request
  const meta = () => (logLevel === undefined ? {} : { _meta: { 'io.modelcontextprotocol/logLevel': logLevel } });
  const session = {
    client,
    transport,
    version: () => (modern ? client.getNegotiatedProtocolVersion() : sdk.version(client, transport)),
    capabilities: () => client.getServerCapabilities(),
    close: () => client.close(),
    list: async () => pages((params) => client.listTools(params), 'tools'),
    call: (name, args, options) => sdk.call(client, { name, ...(args && { arguments: args }), ...meta() }, options),
    resources: async () => pages((params) => client.listResources(params), 'resources'),
    templates: async () => pages((params) => client.listResourceTemplates(params), 'resourceTemplates'),
    read: (uri) => client.readResource({ uri }),
    prompts: async () => pages((params) => client.listPrompts(params), 'prompts'),
    prompt: (name, args) => client.getPrompt({ name, ...(args && { arguments: args }) }),
    hearLogs: async () => () => {},
    complete: async (ref, argument) => (await client.complete({ ref, argument })).completion.values,
  };
  return Object.assign(session, modern ? modernParts() : legacyParts());

  function modernParts() {
    const listen = async (filter) => {
      const subscription = await client.listen(filter);
      assert.deepEqual({ ...subscription.honoredFilter }, filter);
      return async () => {
        await subscription.close();
        assert.equal(await subscription.closed, 'local');
      };
    };
    return {
      watch: listen,
      subscribe: (uri) => listen({ resourceSubscriptions: [uri] }),
      level: (level) => { logLevel = level; },
    };
  }

  function legacyParts() {
    return {
      ping: async () => assert.deepEqual({ ...(await client.ping()) }, {}),
      level: (level) => client.setLoggingLevel(level),
      watch: async () => () => {}, // a legacy session hears of everything
      async subscribe(uri) {
        await client.subscribeResource({ uri });
        return () => client.unsubscribeResource({ uri });
      },
      resumed: () => traffic.resumed(),
      reattach,
      end,
    };
  }

  /** Leaves in the middle of a call and fetches its result as another process would. */
  async function reattach() {
    const params = { name: 'test_wait', arguments: { key: `resume-${process.pid}-${Date.now()}`, milliseconds: 300 } };
    let token;
    const left = sdk.call(client, params, { onprogress: () => {}, onresumptiontoken: (id) => { token ??= id; } });
    left.catch(() => {}); // it is to be interrupted
    await until('the stream has an event', () => token);
    const { sessionId } = transport;
    await transport.close();
    await assert.rejects(left);
    const again = await sdk.attach(sessionId);
    try {
      const result = await sdk.request(again.client, { method: 'tools/call', params }, { resumptionToken: token });
      assert.equal(text(result), 'finished');
    } finally {
      await again.client.close();
    }
  }

  async function end() {
    const { sessionId } = transport;
    assert.equal(typeof sessionId, 'string');
    await transport.terminateSession();
    assert.equal(traffic.count('DELETE', 204), 1);
    const again = await sdk.attach(sessionId);
    try {
      await assert.rejects(sdk.call(again.client, { name: 'test_simple_text' }));
      assert.equal(again.traffic.count('POST', 404), 1);
    } finally {
      await again.client.close();
    }
  }
}
