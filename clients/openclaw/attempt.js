// Play one task of a world: openclaw.json from the variables that a harness gets, then one turn of the agent in the
// folder where the work lies. All that the client keeps is in a folder of its own, which is no part of the work.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOMY = 24_000; // tokens of window from which the agent fits as it comes
const PROGRAM = join(dirname(fileURLToPath(import.meta.url)), "node_modules", "openclaw", "openclaw.mjs");
const { OPENAI_BASE_URL: baseUrl, OPENAI_API_KEY: apiKey } = process.env;

// Who plays by the plain name, which means the episode's weights to the episode's key: what follows an @ the client
// takes for a profile of its own.
async function whoPlays() {
  const answer = await fetch(`${baseUrl}/models`, { headers: { authorization: `Bearer ${apiKey}` } });
  if (!answer.ok) throw new Error(`${baseUrl}/models answers ${answer.status}: ${await answer.text()}`);
  const [{ id, context_window }] = (await answer.json()).data;
  return { model: id, window: context_window };
}

function configuration({ model, window }, home) {
  const entry = { id: model, name: model, reasoning: false, contextWindow: window };
  entry.maxTokens = Math.max(1, Math.min(4096, Math.floor(window / 4)));
  const provider = { baseUrl, apiKey, api: "openai-completions", models: [entry] };
  const defaults = {
    model: { primary: `talkback/${model}` },
    skipBootstrap: true, // files of its own would be changes to the work
    contextInjection: "never",
    skills: [],
    compaction: { memoryFlush: { enabled: false } },
  };
  const own = {
    logging: { file: join(home, "openclaw.log") },
    models: { mode: "replace", catalogRefresh: { enabled: false }, providers: { talkback: provider } },
    agents: { defaults },
  };
  return window < ROOMY ? { ...own, tools: { allow: ["read", "exec"], toolSearch: false } } : own;
}

const home = mkdtempSync(join(tmpdir(), "openclaw-"));
const file = join(home, "openclaw.json");
writeFileSync(file, JSON.stringify(configuration(await whoPlays(), home), null, 2), { mode: 0o600 });
const quiet = ["OPENCLAW_OFFLINE", "OPENCLAW_NO_AUTO_UPDATE", "OPENCLAW_DISABLE_BONJOUR", "OPENCLAW_SKIP_CHANNELS"];
const environment = {
  ...process.env,
  ...Object.fromEntries(quiet.map((name) => [name, "1"])),
  HOME: home,
  OPENCLAW_HOME: home,
  OPENCLAW_CONFIG_PATH: file,
};
const asked = ["agent", "exec", "--config", file, "--cwd", ".", "--message-file", process.env.TALKBACK_TASK_FILE];
const client = spawn(process.execPath, [PROGRAM, ...asked, "--timeout", process.env.TALKBACK_LIMIT_S], {
  env: environment,
  stdio: "inherit",
});
client.on("exit", (status) => {
  rmSync(home, { recursive: true, force: true });
  process.exit(status ?? 1);
});
