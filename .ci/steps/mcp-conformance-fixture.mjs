// node .ci/steps/mcp-conformance-fixture.mjs REVISION: an MCP server on standard streams with every tool, prompt, resource
// and template that MCP's conformance suite requests by name. With REVISION 2025-11-25 it has a session and sends its
// questions as requests; with 2026-07-28 it has no session and answers a call with its questions. It uses no library, so that
// no library changes its messages.
import { createHmac, randomBytes } from 'node:crypto';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const REVISION = process.argv[2];
const STATELESS = REVISION === '2026-07-28';
const OWN = 'io.modelcontextprotocol/';
const KEY = randomBytes(32);
// Milliseconds: haft turns a call into a task after 3 s.
const UNTIL_TASK = 3500;
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVQI12P4z8AAAAABAAEYZrQqAAAAAElFTkSuQmCC';
const SOUND = 'UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==';

class ProtocolError extends Error {
  constructor(code, message, data) {
    super(message);
    Object.assign(this, { code, data });
  }
}

/** Ends a call that needs answers of the client (2026-07-28): its `result` has the questions. */
class InputRequired extends Error {
  constructor(result) {
    super('input required');
    this.result = result;
  }
}

const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const text = (words) => ({ content: [{ type: 'text', text: words }] });
const object = (properties, required = Object.keys(properties)) => ({ type: 'object', properties, required });
const string = { type: 'string' };
const form = (message, properties) => ({
  method: 'elicitation/create',
  params: { mode: 'form', message, requestedSchema: object(properties) },
});
const sampling = (words, maxTokens = 100) => ({
  method: 'sampling/createMessage',
  params: { messages: [{ role: 'user', content: { type: 'text', text: words } }], maxTokens },
});
const roots = { method: 'roots/list', params: {} };
const askName = { user_name: form('What is your name?', { name: string }) };
/** A `requestState` that no client can forge. */
const signed = (state) => `${state}.${createHmac('sha256', KEY).update(state).digest('hex')}`;

let clientCapabilities = {}; // those of the session (2025-11-25)
let questions = 0;
const answers = new Map(); // by the id of the question
const running = new Map(); // the abort controllers of requests, by their id
const listeners = new Map(); // the notifications that a client requests, by the id of `subscriptions/listen`
const changed = { tools: false, prompts: false };

/** One request of the client. */
class Call {
  constructor(params, signal) {
    Object.assign(this, { params, signal, meta: params._meta ?? {} });
    this.capabilities = STATELESS ? (this.meta[`${OWN}clientCapabilities`] ?? {}) : clientCapabilities;
  }

  /** Returns the client's answers to the questions, by their keys. */
  async ask(requests, state) {
    for (const { method } of Object.values(requests)) {
      const capability = method.split('/')[0];
      if (!this.capabilities[capability]) {
        const requiredCapabilities = { [capability]: {} };
        throw new ProtocolError(-32021, `The client does not support ${capability}`, { requiredCapabilities });
      }
    }
    return STATELESS ? this.askByAnswer(requests, state) : this.askByRequest(requests);
  }

  askByAnswer(requests, state) {
    const { inputResponses = {}, requestState } = this.params;
    const isAnswered = Object.keys(requests).every((key) => typeof inputResponses?.[key] === 'object');
    const isForThis = state === undefined || requestState === signed(state);
    if (isAnswered && isForThis) return inputResponses;
    throw new InputRequired({
      resultType: 'input_required',
      inputRequests: requests,
      ...(state !== undefined && { requestState: signed(state) }),
    });
  }

  async askByRequest(requests) {
    const asked = Object.entries(requests).map(async ([key, request]) => {
      const id = `question-${++questions}`;
      const answer = new Promise((resolve, reject) => answers.set(id, { resolve, reject }));
      send({ id, ...request });
      return [key, await answer];
    });
    return Object.fromEntries(await Promise.all(asked));
  }

  /** Sends a log message even if the request asks for none, so that the suite checks haft, which must drop it. */
  log(data) {
    send({ method: 'notifications/message', params: { level: 'info', data } });
  }

  progress(progress, total) {
    const { progressToken } = this.meta;
    if (progressToken === undefined) return;
    send({ method: 'notifications/progress', params: { progressToken, progress, total } });
  }

  wait(milliseconds) {
    return sleep(milliseconds, undefined, { signal: this.signal });
  }
}

function change(list) {
  changed[list] = !changed[list];
  const method = `notifications/${list}/list_changed`;
  if (!STATELESS) return send({ method });
  for (const [id, wanted] of listeners) {
    if (wanted[`${list}ListChanged`]) send({ method, params: { _meta: { [`${OWN}subscriptionId`]: id } } });
  }
}

async function elicit(call, properties) {
  const { answer } = await call.ask({ answer: form('Please answer', properties) });
  return text(`Elicitation completed: action=${answer.action}, content=${JSON.stringify(answer.content)}`);
}

/** Returns the content of the client's answer. */
function accepted({ action, content }) {
  if (action !== 'accept') throw new ProtocolError(-32603, 'The client did not answer the question');
  return content;
}

const image = { type: 'image', data: PIXEL, mimeType: 'image/png' };
const embedded = (uri, mimeType, words) => ({ type: 'resource', resource: { uri, mimeType, text: words } });
const titled = (...titles) => titles.map((title, at) => ({ const: `value${at + 1}`, title }));
const options = ['option1', 'option2', 'option3'];
const dialect = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: {
    address: { $anchor: 'addressDef', type: 'object', properties: { street: string, city: string } },
  },
  properties: {
    name: string,
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] },
    phone: string,
    email: string,
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
};

/** By name: what the tool does, and its schema if it takes arguments. */
const tools = {
  test_simple_text: [() => text('This is a simple text response for testing.')],
  test_image_content: [() => ({ content: [image] })],
  test_audio_content: [() => ({ content: [{ type: 'audio', data: SOUND, mimeType: 'audio/wav' }] })],
  test_embedded_resource: [
    () => ({ content: [embedded('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')] }),
  ],
  test_multiple_content_types: [
    () => ({
      content: [
        { type: 'text', text: 'Multiple content types test:' },
        image,
        embedded('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
      ],
    }),
  ],
  test_error_handling: [() => ({ ...text('This tool intentionally returns an error for testing'), isError: true })],
  test_tool_with_logging: [async (_, call) => {
    for (const words of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
      call.log(words);
      await call.wait(50);
    }
    return text('Three messages were logged.');
  }],
  test_logging_tool: [async (_, call) => {
    call.log('A message');
    await call.wait(50);
    return text('One message was logged.');
  }],
  test_tool_with_progress: [async (_, call) => {
    for (const done of [0, 50, 100]) {
      call.progress(done, 100);
      await call.wait(50);
    }
    return text('Progress was reported three times.');
  }],
  json_schema_2020_12_tool: [() => text('It fits.'), dialect],
  test_custom_header: [
    ({ region }) => text(`Region: ${region}`),
    object({ region: { type: 'string', 'x-mcp-header': 'Region' } }),
  ],
  test_trigger_tool_change: [() => (change('tools'), text('The list of tools has changed.'))],
  test_trigger_prompt_change: [() => (change('prompts'), text('The list of prompts has changed.'))],

  // Tools that ask the client.
  test_sampling: [async ({ prompt }, call) => {
    const { answer } = await call.ask({ answer: sampling(prompt) });
    return text(`LLM response: ${answer.content.text}`);
  }, object({ prompt: string })],
  test_missing_capability: [async (_, call) => text(JSON.stringify(await call.ask({ answer: sampling('Hello') })))],
  test_elicitation: [async ({ message }, call) => {
    const { answer } = await call.ask({ answer: form(message, { username: string, email: string }) });
    return text(`User response: ${JSON.stringify(answer)}`);
  }, object({ message: string })],
  test_streaming_elicitation: [(_, call) => elicit(call, { name: string })],
  test_elicitation_sep1034_defaults: [
    (_, call) =>
      elicit(call, {
        name: { type: 'string', default: 'John Doe' },
        age: { type: 'integer', default: 30 },
        score: { type: 'number', default: 95.5 },
        status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
        verified: { type: 'boolean', default: true },
      }),
  ],
  test_elicitation_sep1330_enums: [
    (_, call) =>
      elicit(call, {
        untitledSingle: { type: 'string', enum: options },
        titledSingle: { type: 'string', oneOf: titled('First Option', 'Second Option', 'Third Option') },
        legacyEnum: {
          type: 'string',
          enum: ['opt1', 'opt2', 'opt3'],
          enumNames: ['Option One', 'Option Two', 'Option Three'],
        },
        untitledMulti: { type: 'array', items: { type: 'string', enum: options } },
        titledMulti: { type: 'array', items: { anyOf: titled('First Choice', 'Second Choice', 'Third Choice') } },
      }),
  ],
  test_input_required_result_elicitation: [
    async (_, call) => text(`Hello, ${accepted((await call.ask(askName)).user_name).name}!`),
  ],
  test_input_required_result_sampling: [async (_, call) => {
    const { capital_question } = await call.ask({ capital_question: sampling('What is the capital of France?') });
    return text(capital_question.content.text);
  }],
  test_input_required_result_list_roots: [
    async (_, call) => text(JSON.stringify((await call.ask({ client_roots: roots })).client_roots)),
  ],
  test_input_required_result_multiple_inputs: [async (_, call) => {
    const requests = { ...askName, greeting: sampling('Generate a greeting', 50), client_roots: roots };
    return text(JSON.stringify(await call.ask(requests, 'multiple')));
  }],
  test_input_required_result_multi_round: [async (_, call) => {
    const isSecond = call.params.requestState === signed('second');
    if (!isSecond) await call.ask({ step1: form('Step 1: What is your name?', { name: string }) }, 'first');
    const step2 = { step2: form('Step 2: What is your favorite color?', { color: string }) };
    return text(JSON.stringify(await call.ask(step2, 'second')));
  }],
  test_input_required_result_request_state: [async (_, call) => {
    await call.ask({ confirm: form('Please confirm', { ok: { type: 'boolean' } }) }, 'confirm');
    return text('state-ok');
  }],
  test_input_required_result_tampered_state: [async (_, call) => {
    const { requestState } = call.params;
    if (requestState !== undefined && requestState !== signed('intact')) {
      throw new ProtocolError(-32602, 'requestState was changed');
    }
    await call.ask({ confirm: form('Please confirm', { ok: { type: 'boolean' } }) }, 'intact');
    return text('state-ok');
  }],
  test_input_required_result_capabilities: [async (_, call) => {
    const all = { elicitation: askName, sampling: { greeting: sampling('Generate a greeting') } };
    const supported = Object.entries(all).filter(([name]) => call.capabilities[name]);
    return text(JSON.stringify(await call.ask(Object.assign({}, ...supported.map(([, requests]) => requests)))));
  }],

  // Tools of the scenarios about tasks.
  greet: [({ name }) => text(`Hello, ${name}!`), object({ name: string })],
  slow_compute: [async ({ seconds, label }, call) => {
    if (seconds > 0) await call.wait(UNTIL_TASK + seconds * 1000);
    return text(`${label}: done after ${seconds} s`);
  }, object({ seconds: { type: 'number' }, label: string }, ['seconds'])],
  failing_job: [async (_, call) => {
    await call.wait(UNTIL_TASK);
    return { ...text('The job failed.'), isError: true };
  }, object({}), { execution: { taskSupport: 'required' } }],
  protocol_error_job: [async (_, call) => {
    await call.wait(UNTIL_TASK);
    throw new ProtocolError(-32603, 'The job ended without a result');
  }],
  confirm_delete: [async ({ filename }, call) => {
    if (!call.params.inputResponses) await call.wait(UNTIL_TASK);
    const { confirm } = await call.ask({ confirm: form(`Delete ${filename}?`, { confirm: { type: 'boolean' } }) });
    return text(`Deleted: ${accepted(confirm).confirm}`);
  }, object({ filename: string })],
  multi_input: [async (_, call) => {
    if (!call.params.inputResponses) await call.wait(UNTIL_TASK);
    const requests = { first: form('First name?', { name: string }), second: form('Second name?', { name: string }) };
    return text(JSON.stringify(await call.ask(requests)));
  }],
  test_tool_with_task: [async (_, call) => {
    const { user_name } = await call.ask(askName);
    await call.wait(UNTIL_TASK);
    return text(`Hello, ${accepted(user_name).name}!`);
  }],
};
const messages = (...contents) => ({ messages: contents.map((content) => ({ role: 'user', content })) });

/** By name: the messages of the prompt, and the names of its arguments. */
const prompts = {
  test_simple_prompt: [() => messages({ type: 'text', text: 'This is a simple prompt for testing.' })],
  test_prompt_with_arguments: [
    ({ arg1, arg2 }) => messages({ type: 'text', text: `Prompt with arguments: arg1='${arg1}', arg2='${arg2}'` }),
    ['arg1', 'arg2'],
  ],
  test_prompt_with_embedded_resource: [
    ({ resourceUri }) =>
      messages(embedded(resourceUri, 'text/plain', 'Embedded resource content for testing.'), {
        type: 'text',
        text: 'Please process the embedded resource above.',
      }),
    ['resourceUri'],
  ],
  test_prompt_with_image: [() => messages(image, { type: 'text', text: 'Please analyze the image above.' })],
  test_input_required_result_prompt: [async (_, call) => {
    const question = form('What context should the prompt use?', { context: string });
    const { user_context } = await call.ask({ user_context: question });
    return messages({ type: 'text', text: `Context: ${accepted(user_context).context}` });
  }],
};

const resources = {
  'test://static-text': { mimeType: 'text/plain', text: 'This is the content of the static text resource.' },
  'test://static-binary': { mimeType: 'image/png', blob: PIXEL },
  'test://watched-resource': { mimeType: 'text/plain', text: 'Watched.' },
};

function read(uri) {
  const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
  const data = { id, templateTest: true, data: `Data for ID: ${id}` };
  const content = id ? { mimeType: 'application/json', text: JSON.stringify(data) } : resources[uri];
  if (!content) throw new ProtocolError(STATELESS ? -32602 : -32002, 'Resource not found', { uri });
  return { contents: [{ uri, ...content }] };
}

function found(table, name) {
  if (!Object.hasOwn(table, name)) throw new ProtocolError(-32602, `There is no ${name}`);
  return table[name][0];
}

const serverInfo = { name: 'conformance-fixture', version: '1.0.0' };
const listed = (table, list, described) => {
  const names = Object.keys(table);
  if (changed[list]) names.push(`added_to_${list}`);
  const of = (name) => described(...(table[name] ?? []).slice(1));
  return { [list]: names.map((name) => ({ name, description: `${name} of the suite`, ...of(name) })) };
};
const capabilities = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: STATELESS ? {} : { subscribe: true },
  completions: {},
  ...(!STATELESS && { logging: {} }),
};

const methods = {
  'tools/list': () => listed(tools, 'tools', (inputSchema = object({}), more = {}) => ({ inputSchema, ...more })),
  'tools/call': (call) => found(tools, call.params.name)(call.params.arguments ?? {}, call),
  'prompts/list': () =>
    listed(prompts, 'prompts', (names = []) => ({ arguments: names.map((name) => ({ name, required: true })) })),
  'prompts/get': (call) => found(prompts, call.params.name)(call.params.arguments ?? {}, call),
  'resources/list': () => ({
    resources: Object.entries(resources).map(([uri, { mimeType }]) => ({ uri, name: uri.slice(7), mimeType })),
  }),
  'resources/templates/list': () => ({
    resourceTemplates: [{ uriTemplate: 'test://template/{id}/data', name: 'template', mimeType: 'application/json' }],
  }),
  'resources/read': (call) => read(call.params.uri),
  'completion/complete': () => ({ completion: { values: ['test'], total: 1, hasMore: false } }),
  ...(STATELESS
    ? {
        'server/discover': () => ({ supportedVersions: [REVISION], capabilities }),
        'subscriptions/listen': ({ params, signal }, id) => {
          const { notifications } = params;
          listeners.set(id, notifications);
          const _meta = { [`${OWN}subscriptionId`]: id };
          send({ method: 'notifications/subscriptions/acknowledged', params: { notifications, _meta } });
          return new Promise((_, reject) => {
            signal.addEventListener('abort', () => (listeners.delete(id), reject(signal.reason)));
          });
        },
      }
    : {
        initialize: ({ params }) => {
          clientCapabilities = params.capabilities;
          return { protocolVersion: REVISION, capabilities, serverInfo };
        },
        ping: () => ({}),
        'logging/setLevel': () => ({}),
        'resources/subscribe': () => ({}),
        'resources/unsubscribe': () => ({}),
      }),
};

/** Adds what every result has since 2026-07-28. */
function complete(method, result) {
  if (!STATELESS) return result;
  const isCacheable = /\/list$|\/read$|discover$/.test(method);
  const _meta = { [`${OWN}serverInfo`]: serverInfo };
  return { resultType: 'complete', ...result, ...(isCacheable && { ttlMs: 0, cacheScope: 'private' }), _meta };
}

async function answer({ id, method, params = {} }) {
  const controller = new AbortController();
  running.set(id, controller);
  try {
    if (!Object.hasOwn(methods, method)) throw new ProtocolError(-32601, `There is no ${method}`);
    const result = await methods[method](new Call(params, controller.signal), id);
    send({ id, result: complete(method, result) });
  } catch (error) {
    if (controller.signal.aborted) return;
    if (error instanceof InputRequired) send({ id, result: complete(method, error.result) });
    else send({ id, error: { code: error.code ?? -32603, message: error.message, data: error.data } });
  } finally {
    running.delete(id);
  }
}

function receive(message) {
  const { id, method, params } = message;
  if (method === 'notifications/cancelled') running.get(params.requestId)?.abort();
  else if (method !== undefined && id !== undefined) answer(message);
  else if (method === undefined) {
    const question = answers.get(id);
    answers.delete(id);
    if (message.error) question?.reject(new ProtocolError(message.error.code, message.error.message));
    else question?.resolve(message.result);
  }
}

createInterface({ input: process.stdin })
  .on('line', (line) => receive(JSON.parse(line)))
  .on('close', () => process.exit());
