// SPDX-License-Identifier: Apache-2.0
// A descriptor set with thousands of methods, written field by field, and a backend that has none of them.

import { once } from 'node:events';
import { createServer } from 'node:http2';

const varint = (n) => { const out = []; for (; n > 127; n = Math.floor(n / 128)) out.push((n % 128) | 128); return Buffer.from([...out, n]); };
const bytes = (field, value) => { const b = Buffer.from(value); return Buffer.concat([varint(field * 8 + 2), varint(b.length), b]); };
const number = (field, n) => Buffer.concat([varint(field * 8), varint(n)]);

const verbs = ['Get', 'List', 'Find', 'Create', 'Update', 'Replace', 'Archive', 'Restore', 'Export', 'Import', 'Merge', 'Split', 'Lock', 'Approve', 'Reject', 'Count', 'Watch', 'Move', 'Copy', 'Tag'];
const nouns = ['Invoice', 'Shipment', 'Vessel', 'Berth', 'Container', 'Crane', 'Customer', 'Contract', 'Ticket', 'Report', 'Alarm', 'Meter', 'Route', 'Depot', 'Driver', 'Pallet', 'Order', 'Refund', 'Voucher', 'Permit', 'Survey', 'Lease'];
const areas = ['Harbor', 'Billing', 'Fleet', 'Yard', 'Customs', 'Safety', 'Energy', 'Payroll', 'Planning', 'Archive', 'Legal', 'Quality', 'Retail', 'Transit', 'Storage', 'Repair', 'Training', 'Catering', 'Security', 'Water', 'Waste', 'Parking', 'Rail', 'Air', 'Weather'];

/** The names of the tools: 25 services with 440 methods each. */
export const count = verbs.length * nouns.length * areas.length;

/** A FileDescriptorSet with count methods, each with a comment. */
export function descriptors() {
  const kinds = { string: 9, int64: 3, bool: 8 };
  const field = (name, at, kind) => bytes(2, Buffer.concat([bytes(1, name), number(3, at), number(4, 1), number(5, kinds[kind]), bytes(10, name)]));
  const request = Buffer.concat([bytes(1, 'Request'), field('id', 1, 'int64'), field('reason', 2, 'string'), field('force', 3, 'bool')]);
  const response = Buffer.concat([bytes(1, 'Response'), field('id', 1, 'int64'), field('state', 2, 'string')]);
  const services = [];
  const places = [];
  for (const [s, area] of areas.entries()) {
    const methods = [];
    for (const verb of verbs) {
      for (const noun of nouns) {
        const comment = ` ${verb} the ${noun.toLowerCase()} of ${area.toLowerCase()}.\n\n It is one of many that the ${area.toLowerCase()} department keeps.\n`;
        places.push(bytes(1, Buffer.concat([
          bytes(1, Buffer.concat([6, s, 2, methods.length].map(varint))), bytes(2, Buffer.concat([1, 1, 1].map(varint))), bytes(3, comment),
        ])));
        methods.push(bytes(2, Buffer.concat([bytes(1, verb + noun), bytes(2, '.many.v1.Request'), bytes(3, '.many.v1.Response')])));
      }
    }
    services.push(bytes(6, Buffer.concat([bytes(1, area), ...methods])));
  }
  const file = Buffer.concat([
    bytes(1, 'many/v1/many.proto'), bytes(2, 'many.v1'), bytes(4, request), bytes(4, response), ...services, bytes(9, Buffer.concat(places)), bytes(12, 'proto3'),
  ]);
  return bytes(1, file);
}

/** A gRPC server without methods; returns its URL, and ends with stop. */
export async function emptyBackend() {
  const server = createServer();
  const sessions = new Set();
  server.on('session', (s) => { sessions.add(s); s.on('close', () => sessions.delete(s)); });
  server.on('stream', (stream) => {
    stream.on('error', () => undefined);
    stream.respond({ ':status': 200, 'content-type': 'application/grpc', 'grpc-status': '12' }, { endStream: true });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `http://127.0.0.1:${server.address().port}`, stop: () => { for (const s of sessions) s.destroy(); server.close(); } };
}
