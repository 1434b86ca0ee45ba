// Talkback's plug-in for OpenClaw, seen to work with 2026.9.6. Learning never depends on it: without it Talkback reads
// session and turn type from the requests themselves. With it they are said outright, an ended session is closed at
// once, and what the person thinks of a reply is one command away: /good, /bad, /correct, /guide.

const PROVIDER = "talkback"; // the provider's name in openclaw.json
const MOST_SESSIONS = 1000;
const LIMIT_MS = 10_000;
const ENDINGS = new Set(["new", "reset", "idle", "daily", "deleted"]); // a compaction or a restart ends no conversation
const NOTE = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"; // comes last, and nobody said it
const SIDE_KEYS = /:(subagent|cron|internal-session-effects):/;

/** What a message says; its content is a text or a list of parts. */
function wordsOf(message) {
  const { content } = message;
  return typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join("\n");
}

/** Whether the last user message of this request, the client's own note aside, is what the run was started with: a
 * memory flush carries the same session id and asks something else. */
function isAskedBy(run, context) {
  const said = context.messages.filter(({ role }) => role === "user").map(wordsOf);
  const last = said.findLast((words) => !words.trimStart().startsWith(NOTE));
  return Boolean(run?.prompt) && last !== undefined && last.includes(run.prompt);
}

/** main, side, or nothing where only the request's content can tell. */
function turnType(run, isAsked) {
  if (run?.isSide) return "side";
  return isAsked && run.attempt === 1 ? "main" : undefined; // another attempt wraps the person's words
}

// OpenClaw registers a plug-in more than once (for its commands, for its provider); all of them share what they know.
const { runs, replies } = (globalThis[Symbol.for("talkback.openclaw")] ??= {
  runs: new Map(), // session id -> the run that it is in
  replies: new Map(), // session id -> completion id of the last reply to the person
});

/** A map that forgets its oldest entry rather than grow. */
function remember(map, key, value) {
  map.delete(key);
  map.set(key, value);
  if (map.size > MOST_SESSIONS) map.delete(map.keys().next().value);
}

export default {
  id: "talkback",
  name: "Talkback",
  description: "Session, turn type and feedback for Talkback.",

  register(api) {
    /** POST to Talkback. Resolves to nothing when it was taken, else to a sentence that says why not. */
    async function post(path, body, config) {
      const provider = config.models?.providers?.[PROVIDER];
      if (!provider?.baseUrl) return `openclaw.json names no provider "${PROVIDER}" with a baseUrl.`;
      try {
        const { apiKey } = await api.runtime.modelAuth.resolveApiKeyForProvider({ provider: PROVIDER, cfg: config });
        const answer = await fetch(provider.baseUrl.replace(/\/+$/, "") + path, {
          method: "POST",
          headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
          body: JSON.stringify(body),
          signal: AbortSignal.timeout(LIMIT_MS),
        });
        if (answer.ok) return undefined;
        const { error } = await answer.json().catch(() => ({}));
        return error?.message ?? `Talkback answered ${answer.status}.`;
      } catch (failure) {
        return `Talkback could not be reached: ${failure.message}`;
      }
    }

    api.on("before_prompt_build", (event, { sessionId, sessionKey = "", runId, trigger, inputProvenance }) => {
      if (!sessionId) return;
      const before = runs.get(sessionId);
      const attempt = runId && before?.runId === runId ? before.attempt + 1 : 1;
      const fromElsewhere = inputProvenance !== undefined && inputProvenance.kind !== "external_user";
      const isSide = (trigger ?? "user") !== "user" || SIDE_KEYS.test(sessionKey) || fromElsewhere;
      remember(runs, sessionId, { runId, attempt, isSide, prompt: event.prompt });
    });

    api.on("session_end", async ({ sessionId, reason }) => {
      runs.delete(sessionId);
      replies.delete(sessionId);
      if (!sessionId || !ENDINGS.has(reason)) return;
      const trouble = await post(`/sessions/${encodeURIComponent(sessionId)}/close`, {}, api.config);
      if (trouble) api.logger.warn(`session ${sessionId} was not closed: ${trouble}`);
    });

    api.registerProvider({
      id: PROVIDER,
      label: "Talkback",
      auth: [],
      wrapStreamFn({ streamFn }) {
        if (!streamFn) return undefined;
        return async (model, context, options) => {
          const sessionId = options?.sessionId;
          if (!sessionId) return streamFn(model, context, options); // a compaction has none
          const run = runs.get(sessionId);
          const isAsked = isAskedBy(run, context);
          const headers = { ...options.headers, "X-Session-Id": sessionId };
          const type = turnType(run, isAsked);
          if (type) headers["X-Turn-Type"] = type;
          const stream = await streamFn(model, context, { ...options, headers });
          if (isAsked && !run.isSide) {
            stream.result().then(
              (reply) => reply.responseId && remember(replies, sessionId, reply.responseId),
              () => {}, // the agent itself deals with a reply that failed
            );
          }
          return stream;
        };
      },
    });

    /** A command about the last reply of the conversation it is given in. `said` makes its text the feedback. */
    function command(name, description, said, done) {
      api.registerCommand({
        name,
        description,
        acceptsArgs: true,
        async handler({ sessionId, args, config }) {
          const completion = replies.get(sessionId);
          if (!completion) return { text: "There is no reply yet in this conversation that Talkback gave." };
          const text = (args ?? "").trim();
          const feedback = said(text);
          if (!feedback) return { text: `Say it behind the command: /${name} TEXT` };
          const trouble = await post("/feedback", { completion_id: completion, ...feedback }, config);
          return { text: trouble ? `Not taken. ${trouble}` : done };
        },
      });
    }

    command("good", "The last reply was good", () => ({ thumb: "up" }), "Noted: the last reply was good.");
    command(
      "bad",
      "The last reply was bad; what is said behind it is what to do next time",
      (text) => (text ? { thumb: "down", guidance: text } : { thumb: "down" }),
      "Noted: the last reply was bad.",
    );
    command(
      "correct",
      "What the last reply should have said",
      (text) => text && { correction: text },
      "Noted: that is what it should have said.",
    );
    command("guide", "What to do next time", (text) => text && { guidance: text }, "Noted for the next time.");
  },
};
