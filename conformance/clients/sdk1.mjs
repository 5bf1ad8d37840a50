// SPDX-License-Identifier: Apache-2.0
import { main } from './harness.mjs';
import { open } from './sdk.mjs';

await main({
  script: 'sdk1', name: 'TypeScript SDK', package: '@modelcontextprotocol/sdk', modes: ['legacy'], eraOf: () => 'legacy', open,
});
