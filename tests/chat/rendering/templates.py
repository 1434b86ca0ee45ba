# ruff: noqa: E501
"""Chat templates that behave as those of well-known models do, cut down to what matters here."""

# Tools in the system message, calls as JSON, results in a user's message; thoughts only behind the last question.
QWEN3 = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- '# Tools\\n\\n<tools>' }}
    {%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}
    {{- '\\n</tools>\\n\\n<tool_call>\\n{"name": <function-name>, "arguments": <args-json-object>}\\n</tool_call><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if message.reasoning_content is string %}
            {{- '<think>\\n' + message.reasoning_content.strip('\\n') + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- message.content.lstrip('\\n') }}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and message.content) or (not loop.first) %}{{- '\\n' }}{%- endif %}
                {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
                {{- '<tool_call>\\n{"name": "' + tool_call.name + '", "arguments": ' }}
                {%- if tool_call.arguments is string %}{{- tool_call.arguments }}
                {%- else %}{{- tool_call.arguments | tojson }}{%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""

# Calls with a tag a parameter, the system only at the beginning, and a reply that begins with thinking.
QWEN35 = """{%- if tools %}
    {{- '<|im_start|>system\\n# Tools\\n\\n<tools>' }}
    {%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}
    {{- '\\n</tools>\\n\\n<tool_call>\\n<function=example>\\n<parameter=one>\\nvalue\\n</parameter>\\n</function>\\n</tool_call>' }}
    {%- if messages[0].role == 'system' %}{{- '\\n\\n' + messages[0].content | trim }}{%- endif %}
    {{- '<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content | trim + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'system' %}
        {%- if not loop.first %}{{- raise_exception('System message must be at the beginning.') }}{%- endif %}
    {%- elif message.role == 'user' %}
        {{- '<|im_start|>user\\n' + message.content | trim + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n<think>\\n' + (message.reasoning_content or '') | trim + '\\n</think>\\n\\n' + message.content | trim }}
        {%- for tool_call in message.tool_calls or [] %}
            {%- set tool_call = tool_call.function %}
            {{- '\\n\\n<tool_call>\\n<function=' + tool_call.name + '>\\n' }}
            {%- for name, value in tool_call.arguments | items %}
                {{- '<parameter=' + name + '>\\n' }}
                {{- value if value is string else value | tojson }}
                {{- '\\n</parameter>\\n' }}
            {%- endfor %}
            {{- '</function>\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
    {%- else %}
        {{- raise_exception('Unexpected message role.') }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{%- endif %}"""

# One call a message, and no key for calls where there is none.
LLAMA3 = """{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- for message in messages %}
    {%- if loop.first and tools is not none %}
        {{- '<|im_start|>user\\nRespond in the format {"name": function name, "parameters": dictionary}.\\n' }}
        {%- for tool in tools %}{{- tool | tojson(indent=4) }}{%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
    {%- if not (message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] | trim + '<|im_end|>\\n' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}
            {{- raise_exception('This model only supports single tool-calls at once!') }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|im_start|>assistant\\n{"name": "' + tool_call.name + '", "parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- '}<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>ipython\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""

# User and assistant in turn, and ids of nine letters and digits.
MISTRAL = """{%- if tools %}{{- '[AVAILABLE_TOOLS]' + tools | tojson + '[/AVAILABLE_TOOLS]' }}{%- endif %}
{%- set last = namespace(role='assistant') %}
{%- for message in messages %}
    {%- if message.role in ('user', 'assistant') and 'tool_calls' not in message %}
        {%- if message.role == last.role %}
            {{- raise_exception('After the optional system message, conversation roles must alternate.') }}
        {%- endif %}
        {%- set last.role = message.role %}
    {%- endif %}
    {%- if 'tool_calls' in message %}
        {{- '[TOOL_CALLS][' }}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.id | length != 9 %}{{- raise_exception('Tool call IDs should be of length 9!') }}{%- endif %}
            {{- '{"name": "' + tool_call.function.name + '", "arguments": ' }}
            {{- tool_call.function.arguments | tojson }}
            {{- ', "id": "' + tool_call.id + '"}' }}
        {%- endfor %}
        {{- ']' }}
    {%- elif message.role == 'tool' %}
        {%- set last.role = 'user' %}
        {{- '[TOOL_RESULTS]' + message.content + '[/TOOL_RESULTS]' }}
    {%- elif message.role == 'assistant' %}{{- message.content + '<|im_end|>' }}
    {%- else %}{{- '[INST]' + message.content + '[/INST]' }}
    {%- endif %}
{%- endfor %}"""


# No system at all, and turns in strict order.
GEMMA = """{%- if messages[0].role == 'system' %}{{- raise_exception('System role not supported') }}{%- endif %}
{%- for message in messages %}
    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content | trim + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>model\\n' }}{%- endif %}"""

# One system message, the last, and arguments as text; calls in a way that is not read here.
DEEPSEEK = """{%- set last = namespace(system='') %}
{%- for message in messages %}{%- if message.role == 'system' %}{%- set last.system = message.content %}{%- endif %}{%- endfor %}
{{- last.system }}
{%- for message in messages %}
    {%- if message.role == 'user' %}{{- '<|im_start|>user\\n' + message.content + '<|im_end|>' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' + message.content }}
        {%- for call in message.tool_calls or [] %}
            {{- '<calls>' + call.function.name + '```json' + call.function.arguments + '```' }}
        {%- endfor %}
        {{- '<|im_end|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{%- endif %}"""
