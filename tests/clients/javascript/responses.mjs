// OpenAI's own JavaScript client on Responses: BASE_URL and API_KEY in the environment, findings as JSON out.
// It says "waiting" to stderr once a stream was kept alive, which is when the test lets the engine go on.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY, maxRetries: 0, timeout: 20000 });
const model = "talkback";
const weather = {
  type: "function",
  name: "weather",
  description: "What the weather is like in a town.",
  parameters: { type: "object", properties: { town: { type: "string" } }, required: ["town"] },
  strict: false,
};

async function waited() {
  const runner = client.responses.stream({ model, input: "wait" });
  let alive = 0;
  runner.on("event", (event) => {
    if (event.type === "response.in_progress" && ++alive === 3) console.error("waiting");
  });
  return { text: (await runner.finalResponse()).output_text, alive: alive >= 3 };
}

async function continued() {
  const first = await client.responses.create({ model, input: "plain", instructions: "Be brief." });
  const second = await client.responses.create({ model, input: "again", previous_response_id: first.id });
  const kept = await client.responses.retrieve(second.id);
  return { first: first.output_text, second: second.output_text, kept: kept.output[0].content[0].text, usage: second.usage };
}

async function tools() {
  const runner = client.responses.stream({ model, input: "tools", tools: [weather] });
  const first = await runner.finalResponse();
  const calls = first.output.filter((item) => item.type === "function_call");
  const input = calls.map((call) => ({ type: "function_call_output", call_id: call.call_id, output: "31 degrees" }));
  const second = await client.responses.create({ model, input, previous_response_id: first.id, tools: [weather] });
  return { inputs: calls.map((call) => JSON.parse(call.arguments)), after: second.output_text };
}

async function refused() {
  try {
    return await client.responses.create({ model, input: "Hi", previous_response_id: "resp_nobodys" });
  } catch (error) {
    return [error.constructor.name, error.status, error.code];
  }
}

const seen = { waited: await waited(), continued: await continued(), tools: await tools(), refused: await refused() };
console.log(JSON.stringify(seen));
