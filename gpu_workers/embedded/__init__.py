"""The CPU engine serves a Hugging Face model in PyTorch over SGLang's native HTTP interface, as far as it is used.

    python -m gpu_workers.embedded --model DIR --port 30000 --api-key K --admin-api-key A --incremental-streaming-output

It answers as SGLang 0.5.23 does, error shapes and surprises included (output log-probs are those of the sampling
temperature, the served name follows the weights, two keys that do not overlap), so that one client serves both.
On purpose it differs in this, and each is a test:

- A seed repeats a reply, alone or in a batch. SGLang ignores `sampling_seed` unless launched deterministic.
- An adapter that was unloaded is refused. SGLang quietly loads it again from its old path.
- One adapter too many is refused. SGLang quietly drops the least recently used one.
- Adapters that would not mean what PEFT means by them (rsLoRA, DoRA, rank and alpha patterns, biases, fully
  trained modules) are refused. SGLang loads some of them and serves them wrongly.
- Token ids outside the vocabulary are refused. SGLang answers garbage on a GPU, and on a CPU its server dies.
- Keys and values computed under old weights never serve a new request. SGLang keeps them after an in-place pause.
- Priority is always heeded, larger first. SGLang needs --enable-priority-scheduling.
- /health costs no token and stays 200 while paused. (/ready is 503 while paused on both.)

Not served: grammars but json_schema and regex, stop_regex, sessions, embeddings, the OpenAI routes beyond /v1/models.
"""
