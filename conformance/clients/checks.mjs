// SPDX-License-Identifier: Apache-2.0
//
// What every client is asked to do, in front of the conformance fixture. The
// expectations are the same for all of them; a client that cannot do something
// says so in its own script. The names are those of README.md, and the
// Go SDK's tests use them too.

import assert from 'node:assert/strict';

export const modernRevision = '2026-07-28';
export const legacyRevision = '2025-11-25';

const watched = 'test://watched-resource';
const waitTime = 30_000;

/** Answers what a client is asked, and remembers the questions. */
export class Answers {
  action = 'accept';
  asked = [];

  /** Fills in a form as its schema asks. */
  elicit(params) {
    this.asked.push(params.message);
    assert.ok(params.mode === undefined || params.mode === 'form', `mode ${params.mode}`);
    if (this.action !== 'accept') return { action: this.action };
    const words = { name: 'Alice', color: 'blue', context: 'tests' };
    const content = {};
    for (const [name, { type }] of Object.entries(params.requestedSchema.properties)) {
      content[name] = type === 'boolean' ? true : (words[name] ?? 'something');
    }
    return { action: 'accept', content };
  }

  sample(params) {
    this.asked.push(params.messages[0].content.text ?? params.messages[0].content[0].text);
    return { model: 'none', role: 'assistant', content: { type: 'text', text: 'Paris.' } };
  }

  roots() {
    this.asked.push('roots');
    return { roots: [{ uri: 'file:///tmp', name: 'tmp' }] };
  }
}

/** The text of a result that must be a success with one block. */
export function text(result) {
  assert.equal(result.isError ?? false, false, JSON.stringify(result));
  assert.equal(result.content.length, 1);
  return result.content[0].text;
}

/** Waits until probe returns something that is true. */
export async function until(what, probe) {
  for (const limit = Date.now() + waitTime; Date.now() < limit;) {
    const found = await probe();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`it never came to this: ${what}`);
}

/** Expects an error of the protocol; some clients show its words and not its code. */
async function refuses(session, promise, code, what) {
  let result;
  try {
    result = await promise;
  } catch (error) {
    if (session.showsCodes) assert.equal(session.code(error), code, what);
    return;
  }
  throw new Error(`nothing was rejected: ${JSON.stringify(result)}`);
}

const logs = (session) => session.heard.filter((event) => event.kind === 'message');
const kinds = (session) => session.heard.map((event) => event.kind);

/** Waits for a notification, and forgets what was heard until then. */
async function hears(session, kind) {
  await until(`the client hears ${kind}`, () => kinds(session).includes(kind));
  session.heard.length = 0;
}

let waits = 0;

/** Begins a call that would last a minute; the promise is that of its end. */
export async function beginWait(session) {
  const key = `${process.pid}-${Date.now()}-${++waits}`;
  const abort = new AbortController();
  const ended = session.call('test_wait', { key, milliseconds: 60_000 }, { signal: abort.signal });
  ended.catch(() => {}); // its starter looks at it later
  const outcome = async () => text(await session.call('test_wait_outcome', { key }));
  await until('the call is under way', async () => await outcome() === 'waiting');
  return { abort: () => abort.abort(new Error('enough')), ended, outcome };
}

// wire is the era that the sidecar sees, era the one that the client offers; a
// bridge may stand between them.
const inModern = (what) => ({ wire }) => wire === 'modern' && `MCP ${modernRevision} has no ${what}`;
const inLegacy = (what) => ({ wire }) => wire === 'legacy' && `MCP ${legacyRevision} has no ${what}`;
const onStdio = (what) => ({ transport }) => transport === 'stdio' && `stdio has no ${what}`;
const either = (...rules) => (run) => rules.map((rule) => rule(run)).find(Boolean);

/** Every check, in the order of the table. */
export const checks = [
  {
    name: 'connect',
    async run(test) {
      const session = await test.open();
      test.session = session;
      assert.equal(session.version(), test.era === 'modern' ? modernRevision : legacyRevision);
      const can = session.capabilities?.();
      if (can) {
        assert.equal(can.tools?.listChanged, true);
        assert.equal(can.resources?.subscribe, true);
      }
      if (test.era === 'legacy') await session.ping?.();
    },
  },
  {
    name: 'list',
    needs: ['list'],
    async run({ session }) {
      const tools = await session.list();
      const names = tools.map((tool) => tool.name);
      assert.ok(names.length > 40, `${names.length} tools`);
      for (const name of ['about', 'test_simple_text', 'test_x_mcp_header', 'slow_compute']) assert.ok(names.includes(name), name);
      assert.equal(new Set(names).size, names.length, 'a name is there twice');
      assert.ok(tools.every((tool) => tool.description && tool.inputSchema.type === 'object'));
    },
  },
  {
    name: 'call',
    needs: ['call'],
    async run({ session }) {
      assert.equal(text(await session.call('greet', { name: 'Wörld' })), 'Hello, Wörld!');
      assert.equal(text(await session.call('test_simple_text')), 'This is a simple text response for testing.');
      const structured = await session.call('test_structured_output', { value: Number.MAX_SAFE_INTEGER });
      assert.deepEqual(structured.structuredContent, { value: Number.MAX_SAFE_INTEGER });
    },
  },
  {
    // An argument that has to be repeated in a header, encoded.
    name: 'headers',
    needs: ['call'],
    absent: either(inLegacy('arguments in headers'), onStdio('headers')),
    async run({ session }) {
      assert.equal(text(await session.call('test_x_mcp_header', { region: 'Zürich ' })), 'Region: Zürich ');
    },
  },
  {
    name: 'content',
    needs: ['call'],
    async run({ session }) {
      const mixed = await session.call('test_multiple_content_types');
      assert.deepEqual(mixed.content.map((block) => block.type), ['text', 'image', 'resource']);
      const [sound] = (await session.call('test_audio_content')).content;
      assert.equal(sound.mimeType, 'audio/wav');
      assert.equal(Buffer.from(sound.data, 'base64').subarray(0, 4).toString(), 'RIFF');
    },
  },
  {
    name: 'errors',
    needs: ['call'],
    async run({ session }) {
      const result = await session.call('test_error_handling');
      assert.equal(result.isError, true);
      assert.equal(result.content[0].text, 'This tool intentionally returns an error for testing');
      await refuses(session, session.call('no_such_tool'), -32602);
    },
  },
  {
    name: 'resources',
    needs: ['resources', 'templates', 'read'],
    async run({ session, wire }) {
      const resources = await session.resources();
      assert.ok(resources.some((resource) => resource.uri === 'test://static-text'));
      assert.deepEqual((await session.templates()).map((template) => template.uriTemplate), ['test://template/{id}/data']);
      const { contents } = await session.read('test://static-text');
      assert.equal(contents[0].text, 'This is the content of the static text resource.');
      const made = await session.read('test://template/123/data');
      assert.equal(JSON.parse(made.contents[0].text).id, '123');
      const binary = await session.read('test://static-binary');
      assert.equal(Buffer.from(binary.contents[0].blob, 'base64').subarray(1, 4).toString(), 'PNG');
      const unknown = session.unknownResource ?? (wire === 'modern' ? -32602 : -32002);
      await refuses(session, session.read('test://no-such-resource'), unknown);
    },
  },
  {
    name: 'prompts',
    needs: ['prompts', 'prompt'],
    async run({ session }) {
      const prompts = await session.prompts();
      assert.ok(prompts.some((prompt) => prompt.name === 'test_simple_prompt'));
      const filled = await session.prompt('test_prompt_with_arguments', { arg1: 'a', arg2: 'b' });
      assert.equal(filled.messages[0].content.text, "Prompt with arguments: arg1='a', arg2='b'");
      await refuses(session, session.prompt('no_such_prompt'), -32602);
    },
  },
  {
    name: 'completion',
    needs: ['complete'],
    async run({ session }) {
      const ref = { type: 'ref/prompt', name: 'test_prompt_with_arguments' };
      assert.deepEqual(await session.complete(ref, { name: 'arg1', value: 'testi' }), ['testing']);
    },
  },
  {
    name: 'progress',
    needs: ['call'],
    async run({ session }) {
      const seen = [];
      text(await session.call('test_tool_with_progress', undefined, { onprogress: (p) => seen.push([p.progress, p.total]) }));
      assert.deepEqual(seen, [[0, 100], [50, 100], [100, 100]]);
    },
  },
  {
    name: 'cancel',
    needs: ['call'],
    async run({ session }) {
      const wait = await beginWait(session);
      wait.abort();
      await assert.rejects(wait.ended);
      await until('the backend saw the cancellation', async () => await wait.outcome() === 'cancelled');
    },
  },
  {
    name: 'elicitation',
    needs: ['call'],
    async run({ session }) {
      assert.equal(text(await session.call('test_input_required_result_elicitation')), 'Hello, Alice!');
      assert.equal(
        text(await session.call('test_elicitation', { message: 'Who are you?' })),
        'User response: action=accept, content={"username":"something","email":"something"}',
      );
      assert.ok(session.answers.asked.includes('Who are you?'));
      session.answers.action = 'decline';
      try {
        assert.equal(text(await session.call('test_input_required_result_elicitation')), 'The user would rather not say.');
      } finally {
        session.answers.action = 'accept';
      }
    },
  },
  {
    name: 'sampling',
    needs: ['call'],
    async run({ session }) {
      assert.equal(text(await session.call('test_input_required_result_sampling')), 'The model says: Paris.');
      assert.equal(text(await session.call('test_sampling', { prompt: 'Where?' })), 'LLM response: Paris.');
      assert.ok(session.answers.asked.includes('Where?'));
    },
  },
  {
    name: 'roots',
    needs: ['call'],
    async run({ session }) {
      assert.equal(text(await session.call('test_input_required_result_list_roots')), 'Opened: file:///tmp');
    },
  },
  {
    // Several questions before one answer.
    name: 'rounds',
    needs: ['call', 'read', 'prompt'],
    async run({ session, gaps }) {
      if (!gaps.sampling && !gaps.roots) {
        assert.equal(
          text(await session.call('test_input_required_result_multiple_inputs')),
          'Alice says "Paris." and opened file:///tmp',
        );
      }
      assert.equal(text(await session.call('test_input_required_result_multi_round')), 'Alice likes blue');
      assert.equal(text(await session.call('test_input_required_result_request_state')), 'state-ok: the answer is true');
      const prompt = await session.prompt('test_input_required_result_prompt');
      assert.equal(prompt.messages[0].content.text, 'In the context of tests.');
      const resource = await session.read('test://input-required');
      assert.equal(resource.contents[0].text, 'For the eyes of Alice.');
    },
  },
  {
    // A client that may not be asked learns what it would need.
    name: 'no capabilities',
    needs: ['call'],
    async run({ open, wire }) {
      const plain = await open({ capabilities: {} });
      assert.equal(text(await plain.call('slow_compute', { seconds: 0, label: 'x' })), 'Computed "x" for 0s.');
      const names = ['test_missing_capability', 'test_input_required_result_elicitation'];
      if (!plain.alwaysTasks) names.push('failing_job');
      for (const name of names) {
        if (wire === 'modern') {
          await refuses(plain, plain.call(name), -32021, name);
          continue;
        }
        // The legacy revisions have no such error, so the call fails as a call.
        const result = await plain.call(name);
        assert.equal(result.isError, true, name);
        assert.match(result.content[0].text, /The tool needs a client with this capability/);
      }
      assert.deepEqual(plain.answers.asked, []);
    },
  },
  {
    name: 'changes',
    needs: ['watch', 'list', 'prompts', 'resources'],
    async run({ open, era }) {
      const session = await open();
      const filter = { toolsListChanged: true, promptsListChanged: true };
      const stop = await session.watch(filter);
      const before = { tools: await session.list(), prompts: await session.prompts(), resources: await session.resources() };
      await session.call('test_trigger_tool_change');
      await hears(session, 'tools/list_changed');
      assert.equal(Math.abs((await session.list()).length - before.tools.length), 1);
      await session.call('test_trigger_resource_change'); // a modern client did not ask for it
      if (era === 'legacy') {
        await hears(session, 'resources/list_changed');
        assert.equal(Math.abs((await session.resources()).length - before.resources.length), 1);
      }
      await session.call('test_trigger_prompt_change');
      await until('the client hears of the prompts', () => kinds(session).includes('prompts/list_changed'));
      if (era === 'modern') assert.deepEqual(kinds(session), ['prompts/list_changed'], 'heard what it did not ask for');
      assert.equal(Math.abs((await session.prompts()).length - before.prompts.length), 1);
      await stop();
    },
  },
  {
    name: 'subscribe',
    needs: ['subscribe'],
    async run({ open, session: other }) {
      const session = await open();
      const edition = async () => (await session.read(watched)).contents[0].text;
      const before = await edition();
      const stop = await session.subscribe(watched);
      await other.call('test_trigger_resource_update');
      await until('the client hears of the resource', () => kinds(session).includes('resources/updated'));
      assert.equal(session.heard.find((event) => event.kind === 'resources/updated').params.uri, watched);
      assert.notEqual(await edition(), before);
      await stop();
    },
  },
  {
    name: 'logs',
    needs: ['hearLogs'],
    async run({ open }) {
      const session = await open();
      const stop = await session.hearLogs();
      await session.level?.('info');
      text(await session.call('test_tool_with_logging'));
      await until('three messages were logged', () => logs(session).length === 3);
      assert.deepEqual(logs(session).map(({ params }) => [params.level, params.data]), [
        ['info', 'It begins.'], ['info', 'It goes on.'], ['info', 'It ends.'],
      ]);
      await stop();
    },
  },
  {
    name: 'log level',
    needs: ['hearLogs', 'level'],
    async run({ open, era }) {
      const session = await open();
      const stop = await session.hearLogs();
      // Who asks for no logs gets none; a legacy server may choose.
      if (era === 'modern') text(await session.call('test_tool_with_logging'));
      await session.level('error');
      text(await session.call('test_tool_with_logging'));
      await session.level('info');
      text(await session.call('test_tool_with_logging'));
      await until('three messages were logged', () => logs(session).length === 3);
      assert.deepEqual(logs(session).map(({ params }) => params.data), ['It begins.', 'It goes on.', 'It ends.']);
      await stop();
    },
  },
  {
    // The connection ends before the result is there, and the client comes back.
    name: 'resume',
    needs: ['resumed'],
    absent: either(inModern('streams that can be resumed'), onStdio('connections to come back to')),
    async run({ open }) {
      const session = await open();
      const result = await session.call('test_reconnection');
      assert.match(text(result), /^The reader of this/);
      assert.ok(session.resumed(), 'the client never came back with Last-Event-ID');
      await session.reattach?.();
    },
  },
  {
    name: 'end session',
    needs: ['end'],
    absent: either(inModern('sessions'), onStdio('sessions but the process')),
    async run({ open }) {
      const session = await open();
      text(await session.call('test_simple_text'));
      await session.end(); // throws unless DELETE is answered well and the session is gone
    },
  },
  {
    name: 'tasks',
    needs: ['tasks'],
    absent: ({ era }) => era === 'legacy' && `MCP ${legacyRevision} has no tasks extension`,
    async run({ open, gaps }) {
      const session = await open({ tasks: true });
      const tasks = await session.tasks();
      const computed = await tasks.run('slow_compute', { seconds: 0.05, label: 'x' });
      assert.equal(computed.status, 'completed');
      assert.equal(text(computed.result), 'Computed "x" for 50ms.');
      const asked = await tasks.run('confirm_delete', { filename: 'a' });
      assert.equal(text(asked.result), 'a would be gone now.');
      assert.ok(session.answers.asked.includes('Delete a?'));
      const job = await tasks.run('failing_job');
      assert.equal(job.status, 'completed');
      assert.equal(job.result.isError, true);
      assert.equal((await tasks.run('protocol_error_job')).status, 'failed');
      if (!gaps.cancel) assert.equal((await tasks.cancelled('slow_compute', { seconds: 60 })).status, 'cancelled');
      await refuses(session, tasks.get('unknown'), -32602);
    },
  },
];
