// Anthropic's own JavaScript client against a live server: BASE_URL and API_KEY in the environment, findings as JSON out.
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY, maxRetries: 0, timeout: 20000 });
const limits = { model: "talkback", max_tokens: 200 };
const say = (content) => [{ role: "user", content }];
const weather = {
  name: "weather",
  description: "What the weather is like in a town.",
  input_schema: { type: "object", properties: { town: { type: "string" } }, required: ["town"] },
};

async function refusal(asking) {
  try {
    await asking;
    return null;
  } catch (error) {
    return { name: error.constructor.name, status: error.status ?? null, type: error.type ?? error.error?.error?.type };
  }
}

async function plain() {
  const answer = await client.messages.create({ ...limits, messages: say("plain") });
  return { content: answer.content, stop: answer.stop_reason, model: answer.model };
}

async function stream() {
  const runner = client.messages.stream({ ...limits, messages: say("stream") });
  const texts = [];
  runner.on("text", (text) => texts.push(text));
  const answer = await runner.finalMessage();
  return { text: texts.join(""), whole: answer.content[0].text, pieces: texts.length, tokens: answer.usage.output_tokens };
}

async function tools() {
  const messages = say("tools");
  const first = await client.messages.stream({ ...limits, messages, tools: [weather] }).finalMessage();
  const calls = first.content.filter((block) => block.type === "tool_use");
  const results = calls.map((call) => ({ type: "tool_result", tool_use_id: call.id, content: `${call.input.town}: 31 degrees` }));
  const history = [...messages, { role: "assistant", content: first.content }, { role: "user", content: results }];
  const second = await client.messages.create({ ...limits, messages: history, tools: [weather] });
  return { stop: first.stop_reason, inputs: calls.map((call) => call.input), after: second.content[0].text };
}

async function errors() {
  const stranger = new Anthropic({ baseURL: process.env.BASE_URL, apiKey: "tb-wrong", maxRetries: 0 });
  const ask = (more) => client.messages.create({ ...limits, messages: say("Hi"), ...more });
  return {
    fault: await refusal(ask({ max_tokens: 0 })),
    length: await refusal(ask({ messages: say("word ".repeat(3000)) })),
    model: await refusal(ask({ model: "claude-opus" })),
    key: await refusal(stranger.messages.create({ ...limits, messages: say("Hi") })),
  };
}

async function abort() {
  const runner = client.messages.stream({ ...limits, max_tokens: 1000, messages: say("abort") });
  let words = 0;
  runner.on("text", () => {
    words += 1;
    runner.abort();
  });
  const ended = await refusal(runner.finalMessage());
  return { words, ended: ended.name };
}

const seen = { plain: await plain(), stream: await stream(), tools: await tools(), errors: await errors(), abort: await abort() };
console.log(JSON.stringify(seen));
