// OpenAI's own JavaScript client against a live server: BASE_URL and API_KEY in the environment, findings as JSON out.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY, maxRetries: 0, timeout: 20000 });
const model = "talkback";
const say = (content) => [{ role: "user", content }];
const weather = {
  type: "function",
  function: {
    name: "weather",
    description: "What the weather is like in a town.",
    parameters: { type: "object", properties: { town: { type: "string" } }, required: ["town"] },
  },
};

async function refusal(asking) {
  try {
    await asking;
    return null;
  } catch (error) {
    return { name: error.constructor.name, status: error.status ?? null, code: error.code ?? null, param: error.param ?? null };
  }
}

async function plain() {
  const answer = await client.chat.completions.create({ model, messages: say("plain") });
  return { choice: answer.choices[0], model: answer.model, usage: answer.usage };
}

async function stream() {
  const chunks = [];
  const options = { model, messages: say("stream"), stream: true, stream_options: { include_usage: true } };
  for await (const chunk of await client.chat.completions.create(options)) chunks.push(chunk);
  return {
    first: chunks[0].choices[0].delta,
    text: chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join(""),
    finish: chunks.flatMap((chunk) => chunk.choices).map((choice) => choice.finish_reason).filter(Boolean),
    usage: chunks.at(-1).usage,
    earlier: chunks.slice(0, -1).map((chunk) => chunk.usage).filter((usage) => usage !== null),
  };
}

async function tools() {
  const answer = await client.chat.completions.create({ model, messages: say("tools"), tools: [weather] });
  const message = answer.choices[0].message;
  const results = message.tool_calls.map((call) => ({ role: "tool", tool_call_id: call.id, content: "31 degrees" }));
  const after = await client.chat.completions.create({
    model,
    messages: [...say("tools"), message, ...results],
    tools: [weather],
  });
  return {
    finish: answer.choices[0].finish_reason,
    calls: message.tool_calls.map((call) => [call.function.name, JSON.parse(call.function.arguments)]),
    after: after.choices[0].message.content,
  };
}

async function toolsInAStream() {
  const runner = client.chat.completions.stream({ model, messages: say("streamed tools"), tools: [weather] });
  const message = await runner.finalMessage();
  return message.tool_calls.map((call) => [call.function.name, JSON.parse(call.function.arguments)]);
}

async function toolsAtOnce() {
  const create = { model, messages: say("parallel"), tools: [weather], parallel_tool_calls: true };
  const whole = (await client.chat.completions.create(create)).choices[0];
  const streamed = await client.chat.completions.stream(create).finalMessage();
  const of = (message) => message.tool_calls.map((call) => [call.function.name, JSON.parse(call.function.arguments)]);
  const results = streamed.tool_calls.map((call) => ({ role: "tool", tool_call_id: call.id, content: "28 degrees" }));
  const messages = [...say("parallel"), streamed, ...results];
  const after = await client.chat.completions.create({ model, messages, tools: [weather] });
  return {
    finish: whole.finish_reason,
    calls: of(whole.message),
    streamed: of(streamed),
    ids: new Set(streamed.tool_calls.map((call) => call.id)).size,
    after: after.choices[0].message.content,
  };
}

async function schema() {
  const format = { type: "json_schema", json_schema: { name: "weather", strict: true, schema: weather.function.parameters } };
  const answer = await client.chat.completions.create({ model, messages: say("schema"), response_format: format });
  return JSON.parse(answer.choices[0].message.content);
}

async function errors() {
  const create = (more) => client.chat.completions.create({ model, messages: say("errors"), ...more });
  const stranger = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: "tb-wrong", maxRetries: 0 });
  return {
    fault: await refusal(create({ temperature: 3 })),
    length: await refusal(create({ messages: say("word ".repeat(3000)) })),
    model: await refusal(create({ model: "gpt-4o" })),
    key: await refusal(stranger.models.list()),
  };
}

async function abort() {
  const stop = new AbortController();
  const options = { model, messages: say("abort"), stream: true };
  const words = [];
  for await (const chunk of await client.chat.completions.create(options, { signal: stop.signal })) {
    if (chunk.choices[0].delta.content) {
      words.push(chunk.choices[0].delta.content);
      stop.abort();
    }
  }
  return { words: words.length };
}

const models = (await client.models.list()).data.map((model) => model.id);
const seen = { models, plain: await plain(), stream: await stream(), tools: await tools() };
seen.toolsInAStream = await toolsInAStream();
seen.toolsAtOnce = await toolsAtOnce();
seen.schema = await schema();
seen.errors = await errors();
seen.abort = await abort();
console.log(JSON.stringify(seen));
