// SPDX-License-Identifier: Apache-2.0
//
// An agent that traces its work with OpenTelemetry's SDK for Node and calls one
// tool with an official client, of either generation. The context of its span
// goes into _meta. It prints the trace id.
//
// tracing.mjs --client client|sdk --version REVISION --collector URL --service NAME (--url URL | -- COMMAND...)

import { parseArgs } from 'node:util';
import { context, propagation, SpanKind, trace } from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';

const { values: options, positionals: command } = parseArgs({
  allowPositionals: true,
  options: { client: { type: 'string' }, version: { type: 'string' }, collector: { type: 'string' }, service: { type: 'string' }, url: { type: 'string' } },
});
const info = { name: 'tracing.mjs', version: '1.0.0' };

const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ 'service.name': options.service }),
  spanProcessors: [new SimpleSpanProcessor(new OTLPTraceExporter({ url: `${options.collector}/v1/traces` }))],
});
provider.register(); // with W3C's propagators

const client = await (options.client === 'sdk' ? connectOlder() : connectNewer());
const span = trace.getTracer('agent').startSpan('agent step', { kind: SpanKind.CLIENT });
const meta = {};
propagation.inject(trace.setSpan(context.active(), span), meta);
const result = await client.callTool({ name: 'lab_echo', arguments: { nonce: 'one' }, _meta: meta });
if (result.isError || result.structuredContent?.nonce !== 'one') throw new Error(JSON.stringify(result));
span.end();
await provider.shutdown();
console.log(span.spanContext().traceId);
await client.close();



async function connectNewer() {
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  const mode = options.version === '2026-07-28' ? { pin: options.version } : 'legacy';
  const client = new Client(info, { versionNegotiation: { mode } });
  await client.connect(options.url ? new StreamableHTTPClientTransport(new URL(options.url)) : new StdioClientTransport(server()));
  if (client.getNegotiatedProtocolVersion() !== options.version) throw new Error(`speaks ${client.getNegotiatedProtocolVersion()}`);
  return client;
}

async function connectOlder() {
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
  const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
  const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
  const client = new Client(info);
  await client.connect(options.url ? new StreamableHTTPClientTransport(new URL(options.url)) : new StdioClientTransport(server()));
  return client;
}

/** The sidecar as a process of the agent. Clients pass hardly any variables on by themselves. */
function server() {
  return { command: command[0], args: command.slice(1), env: process.env, stderr: 'inherit' };
}
