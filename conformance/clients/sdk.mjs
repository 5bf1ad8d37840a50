// SPDX-License-Identifier: Apache-2.0
//
// The official TypeScript SDK, first generation: the legacy era. Behind a
// command that is not the sidecar it is also how stdio bridges are tried.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CallToolResultSchema, CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema, LoggingMessageNotificationSchema,
  PromptListChangedNotificationSchema, ResourceListChangedNotificationSchema, ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { legacyRevision } from './checks.mjs';
import { Traffic } from './harness.mjs';
import { sessionOf } from './mcp.mjs';

const schemas = {
  'tools/list_changed': ToolListChangedNotificationSchema,
  'prompts/list_changed': PromptListChangedNotificationSchema,
  'resources/list_changed': ResourceListChangedNotificationSchema,
  'resources/updated': ResourceUpdatedNotificationSchema,
  message: LoggingMessageNotificationSchema,
};

/** Opens a session of the first generation's client. */
export async function open(target, { capabilities, answers, hear }) {
  const make = (sessionId) => {
    const client = new Client({ name: 'sdk.mjs', version: '1.0.0' }, { capabilities });
    if (capabilities.elicitation) client.setRequestHandler(ElicitRequestSchema, ({ params }) => answers.elicit(params));
    if (capabilities.sampling) client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => answers.sample(params));
    if (capabilities.roots) client.setRequestHandler(ListRootsRequestSchema, () => answers.roots());
    const traffic = new Traffic();
    const transport = target.url === undefined
      ? new StdioClientTransport({ command: target.command[0], args: target.command.slice(1), env: target.env, stderr: 'inherit' })
      : new StreamableHTTPClientTransport(new URL(target.url), { fetch: traffic.fetch, sessionId });
    if (sessionId) transport.setProtocolVersion(legacyRevision);
    return { client, transport, traffic };
  };
  const { client, transport, traffic } = make();
  // The client tells its transport, and only that, what was agreed on.
  let version;
  const tell = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = (agreed) => { version = agreed; tell?.(agreed); };
  await client.connect(transport);
  const sdk = {
    version: () => version,
    call: (by, params, options) => by.callTool(params, CallToolResultSchema, options),
    request: (by, request, options) => by.request(request, CallToolResultSchema, options),
    notify: (by, name, handler) => by.setNotificationHandler(schemas[name], handler),
    async attach(id) {
      const again = make(id);
      await again.client.connect(again.transport);
      return again;
    },
  };
  return sessionOf({ client, transport, traffic, modern: false, hear, sdk });
}
