"""For each rule of the API a request that breaks it, the text that says so, and a request that keeps it."""

import math
from collections.abc import Callable
from typing import Any

Body = dict[str, Any]
Block = dict[str, Any]
Edit = Callable[[Body], object]

TOOL = {"name": "clock", "input_schema": {"type": "object"}}
EMPTY = "all messages must have non-empty content except for the optional final assistant message"
UNANSWERED = (
    "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each"
    " `tool_use` block must have a corresponding `tool_result` block in the next message."
)


def call(call_id: str, **fields: Any) -> Block:
    return {"type": "tool_use", "id": call_id, "name": "clock", "input": {}, **fields}


def result(call_id: str, content: Any = "noon", **fields: Any) -> Block:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


def words(text: str, **fields: Any) -> Block:
    return {"type": "text", "text": text, **fields}


def user(*blocks: Any) -> Body:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> Body:
    return {"role": "assistant", "content": list(blocks)}


def request(*messages: Any, **fields: Any) -> Body:
    return {
        "model": "claude-sonnet-5",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "What time is it?"}, *messages],
        "tools": [TOOL],
        **fields,
    }


SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
FROM_CODE = call("a", caller={"type": "code_execution_20260120", "tool_id": "srvtoolu_9"})
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
CACHED = {"cache_control": {"type": "ephemeral"}}
ONE_CALL = (assistant(call("a")), user(result("a")))
LONG_ID = "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"

# (what it is about, a request that breaks the rule, its only problem, a request that keeps it)
MESSAGE_RULES: list[tuple[str, Body, str, Body]] = [
    ("a message", request(messages=[]), "messages: at least one message is required", request()),
    (
        "the first role",
        request(messages=[assistant(words("hi")), user(words("hi"))]),
        'messages: first message must use the "user" role',
        request(assistant(words("hi")), user(words("hi"))),
    ),
    (
        "a system message first",
        request(messages=[{"role": "system", "content": "x"}]),
        "messages.0.role: Input should be 'user' or 'assistant'",
        request({"role": "system", "content": "x"}),
    ),
    (
        "a system message after a reply",
        request(assistant(words("x")), {"role": "system", "content": "x"}),
        "messages.2: a system message must follow a user turn or a server tool result",
        request(*ONE_CALL, {"role": "system", "content": "x"}),
    ),
    (
        "a system message before a user's",
        request({"role": "system", "content": "x"}, user(words("hi"))),
        "messages.1: a system message must be last or be followed by an assistant turn",
        request({"role": "system", "content": "x"}, assistant(words("hi")), user(words("hi"))),
    ),
    (
        "roles",
        request({"role": "tool", "content": "x"}),
        "messages.1.role: Input should be 'user' or 'assistant'",
        request(user(words("again"))),
    ),
    (
        "fields of a message",
        request({"role": "user", "content": "x", "id": "msg_1"}),
        "messages.1.id: Extra inputs are not permitted",
        request({"role": "user", "content": "x"}),
    ),
    ("content is there", request({"role": "user"}), "messages.1.content: Field required", request()),
    (
        "content is a list",
        request({"role": "user", "content": None}),
        "messages.1.content: Input should be a valid list",
        request(),
    ),
    ("empty content", request(user()), f"messages.1: {EMPTY}", request(user(words("x")))),
    ("empty text", request({"role": "user", "content": ""}), f"messages.1: {EMPTY}", request()),
    (
        "empty text block",
        request(user(words(""))),
        "messages: text content blocks must be non-empty",
        request(user(words("."))),
    ),
    (
        "blank text block",
        request(assistant(words(" \n")), user(words("x"))),
        "messages: text content blocks must contain non-whitespace text",
        request(assistant(words(" \n.")), user(words("x"))),
    ),
    (
        "a result for every call",
        request(assistant(call("a"), call("b")), user(result("b"))),
        UNANSWERED.format("a"),
        request(assistant(call("a"), call("b")), user(result("a"), result("b"))),
    ),
    (
        "results at once",
        request(assistant(call("a")), user(words("wait")), assistant(words("ok")), user(words("?"))),
        UNANSWERED.format("a"),
        request(*ONE_CALL, assistant(words("ok")), user(words("?"))),
    ),
    (
        "results first",
        request(assistant(call("a"), call("b")), user(result("a"), words("x"), result("b"))),
        UNANSWERED.format("b"),
        request(assistant(call("a"), call("b")), user(result("a"), result("b"), words("x"))),
    ),
    (
        "messages of one role are one turn",
        request(assistant(call("a")), user(words("x")), user(result("a"))),
        UNANSWERED.format("a"),
        request(assistant(call("a")), assistant(call("b")), user(result("a")), user(result("b"), words("x"))),
    ),
    (
        "one result per call",
        request(assistant(call("a")), user(result("a"), result("a"))),
        "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks"
        " with id: a",
        request(*ONE_CALL),
    ),
    (
        "no result without a call",
        request(*ONE_CALL, assistant(words("x")), user(result("a"))),
        "messages.4.content.0: unexpected `tool_use_id` found in `tool_result` blocks: a. Each `tool_result`"
        " block must have a corresponding `tool_use` block in the previous message.",
        request(*ONE_CALL, assistant(call("b")), user(result("b"))),
    ),
    (
        "ids are unique",
        request(*ONE_CALL, assistant(call("a")), user(words("x"))),
        "messages.3.content.0: `tool_use` ids must be unique",
        request(*ONE_CALL, assistant(call("A")), user(result("A"))),
    ),
    ("ids", request(assistant(call("a.b")), user(result("a.b"))), LONG_ID, request(*ONE_CALL)),
    (
        "ids end where they end",
        request(assistant(call("a\n")), user(result("a\n"))),
        LONG_ID,
        request(assistant(call("functions-clock_0")), user(result("functions-clock_0"))),
    ),
    (
        "results in the order of the calls",
        request(assistant(call("a"), call("b")), user(result("b"), result("a"))),
        "order: messages.2: results came as b, a, calls were a, b",
        request(assistant(call("a"), call("b")), user(result("a"), result("b"))),
    ),
    (
        "an error is text",
        request(assistant(call("a")), user(result("a", [IMAGE], is_error=True))),
        "messages.2.content.0: all content must be type `text` if `is_error` is true",
        request(assistant(call("a")), user(result("a", [IMAGE]))),
    ),
    (
        "blocks of a result",
        request(assistant(call("a")), user(result("a", [call("b")]))),
        "messages.2.content.0.tool_result.content.0: Input tag 'tool_use' found using 'type' does not match"
        " any of the expected tags",
        request(assistant(call("a")), user(result("a", [words("x"), IMAGE]))),
    ),
    (
        "texts of a result",
        request(assistant(call("a")), user(result("a", [words("")]))),
        "messages: text content blocks must be non-empty",
        request(assistant(call("a")), user(result("a", ""))),
    ),
    (
        "a result's content",
        request(assistant(call("a")), user(result("a", {"x": 1}))),
        "messages.2.content.0.tool_result.content: Input should be a valid list",
        request(assistant(call("a")), user(result("a", []))),
    ),
    (
        "a result's flag",
        request(assistant(call("a")), user(result("a", is_error=None))),
        "messages.2.content.0.tool_result.is_error: Input should be a valid boolean",
        request(assistant(call("a")), user(result("a", is_error=True))),
    ),
    (
        "a result's fields",
        request(assistant(call("a")), user(result("a", seconds=1))),
        "messages.2.content.0.tool_result.seconds: Extra inputs are not permitted",
        request(assistant(call("a")), user(result("a", **CACHED))),
    ),
    (
        "a toolset's result",
        request(assistant(call("a", toolset_name="browser")), user(result("a"))),
        "messages.2.content.0.tool_result.toolset_name: must be that of the `tool_use` block",
        request(assistant(call("a", toolset_name="browser")), user(result("a", toolset_name="browser"))),
    ),
    (
        "a call's input",
        request(assistant(call("a", input="{}")), user(result("a"))),
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
        request(assistant(call("a", input={"x": [1]})), user(result("a"))),
    ),
    (
        "a call is the model's",
        request(user(call("a"))),
        "messages.1.content.0: `tool_use` blocks can only be in `assistant` messages",
        request(*ONE_CALL),
    ),
    (
        "a result is the user's",
        request(assistant(result("a")), user(words("x"))),
        "messages.1.content.0: `tool_result` blocks can only be in `user` messages",
        request(*ONE_CALL),
    ),
    (
        "unknown blocks are the model's alone",
        request(user({"type": "new_block"})),
        "messages.1.content.0: Input tag 'new_block' found using 'type' does not match any of the expected"
        " tags",
        request(assistant({"type": "new_block"}), user(words("x"))),
    ),
    (
        "thinking keeps its signature",
        request(assistant({"type": "thinking", "thinking": ""}), user(words("x"))),
        "messages.1.content.0.thinking.signature: Field required",
        request(assistant({"type": "thinking", "thinking": "", "signature": "s"}), user(words("x"))),
    ),
    (
        "documents",
        request(assistant({"type": "document", "source": {}}), user(words("x"))),
        "messages.1.content.0: `document` blocks cannot be in `assistant` messages",
        request(user({"type": "document", "source": {}})),
    ),
    (
        "citations",
        request(user(words("x", citations=[{"type": "char_location"}]))),
        "messages.1.content.0.text.citations: citations are not permitted in user messages",
        request(assistant(words("x", citations=[{"type": "char_location"}])), user(words("x"))),
    ),
    (
        "only results while a server tool waits",
        request(assistant(SEARCH, call("a")), user(result("a"), words("x"))),
        "messages.2: `web_search` tool use with id `srvtoolu_1` was found without a corresponding"
        " `web_search_tool_result` block",
        request(
            assistant(SEARCH, call("a")), user(result("a")), assistant(FOUND, words("x")), user(words("x"))
        ),
    ),
    (
        "a paused server tool is not answered with a text",
        request(assistant(SEARCH), user(words("x"))),
        "messages.2: `web_search` tool use with id `srvtoolu_1` was found without a corresponding"
        " `web_search_tool_result` block",
        request(assistant(SEARCH, FOUND), user(words("x"))),
    ),
    (
        "only results for code",
        request(assistant(FROM_CODE), user(result("a"), words("x")), container="c"),
        "messages.2: only `tool_result` blocks may answer a `tool_use` block whose caller is code_execution",
        request(assistant(FROM_CODE), user(result("a")), container="c"),
    ),
    (
        "texts for code",
        request(assistant(FROM_CODE), user(result("a", [IMAGE])), container="c"),
        "messages.2.content.0: a result for code_execution must be a string or text blocks",
        request(assistant(FROM_CODE), user(result("a", [words("x")])), container="c"),
    ),
    (
        "the container of the code",
        request(assistant(FROM_CODE), user(result("a"))),
        "container: Field required, since a `tool_use` block came from code_execution",
        request(assistant(FROM_CODE), user(result("a")), container="c"),
    ),
    (
        "prefill",
        request(assistant(words("It is"))),
        "This model does not support assistant message prefill. The conversation must end with a user"
        " message.",
        request(assistant(words("It is")), model="claude-haiku-4-5"),
    ),
    (
        "prefill without a space at its end",
        request(assistant(words("It is ")), model="claude-haiku-4-5"),
        "messages: final assistant content cannot end with trailing whitespace",
        request(assistant(words("It is")), model="claude-haiku-4-5"),
    ),
    (
        "tools are defined",
        request(*ONE_CALL, tools=[]),
        "Requests which include `tool_use` or `tool_result` blocks must define tools.",
        request(tools=[]),
    ),
    (
        "cache breakpoints",
        request(user(*[words("x", **CACHED)] * 3), cache_control={}, system=[words("x", **CACHED)]),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        request(user(*[words("x", **CACHED)] * 3), system=[words("x", **CACHED)]),
    ),
    (
        "cache breakpoints inside of results",
        request(assistant(call("a")), user(result("a", [words("x", **CACHED)] * 5))),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        request(assistant(call("a")), user(result("a", [words("x", **CACHED)] * 4))),
    ),
    (
        "lone surrogates",
        request(user(words("\ud83d"))),
        "The request body is not valid JSON: no low surrogate in string: at messages.1.content.0.text",
        request(user(words("\U0001f600"))),
    ),
    (
        "numbers are finite",
        request(assistant(call("a", input={"x": math.inf})), user(result("a"))),
        "The request body is not valid JSON: inf is not a JSON number: at messages.1.content.0.input.x",
        request(assistant(call("a", input={"x": 1e300})), user(result("a"))),
    ),
]


def with_tools(*tools: Any) -> Body:
    return request(tools=list(tools))


def tool(name: Any = "clock", **fields: Any) -> Body:
    return {"name": name, "input_schema": {"type": "object"}, **fields}


def thinking(**fields: Any) -> Body:
    return request(max_tokens=2048, thinking={"type": "enabled", **fields})


FIELD_RULES: list[tuple[str, Body, str, Body]] = [
    ("unknown fields", request(foo=1), "foo: Extra inputs are not permitted", request(metadata={})),
    ("temperature", request(temperature=1.0), "temperature: Extra inputs are not permitted", request()),
    ("top_p", request(top_p=1), "top_p: Extra inputs are not permitted", request()),
    ("top_k", request(top_k=1), "top_k: Extra inputs are not permitted", request()),
    ("threads", request(thread={}), "thread: Extra inputs are not permitted", request()),
    (
        "a true max_tokens",
        request(max_tokens=True),
        "max_tokens: Input should be a valid integer",
        request(max_tokens=1),
    ),
    (
        "a small max_tokens",
        request(max_tokens=0),
        "max_tokens: Input should be greater than or equal to 1",
        request(max_tokens=1),
    ),
    (
        "a large max_tokens",
        request(max_tokens=64_001, model="claude-haiku-4-5"),
        "max_tokens: 64001 > 64000, which is the maximum allowed number of output tokens for"
        " claude-haiku-4-5",
        request(max_tokens=64_001),
    ),
    ("the model", request(model=3), "model: Input should be a valid string", request(model="m")),
    ("stream", request(stream="yes"), "stream: Input should be a valid boolean", request(stream=True)),
    (
        "a blank system",
        request(system=[words(" ")]),
        "system: text content blocks must contain non-whitespace text",
        request(system="Be brief."),
    ),
    ("system blocks", request(system=[IMAGE]), "system.0: Input should be a text block", request()),
    ("tools", request(tools={}), "tools: Input should be a valid list", request()),
    (
        "characters of a tool's name",
        with_tools(tool("a b")),
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
        with_tools(tool("a-b_9")),
    ),
    (
        "tool names",
        with_tools(tool(), tool()),
        "tools: Tool names must be unique.",
        with_tools(tool("a"), tool()),
    ),
    (
        "a tool's schema",
        with_tools({"name": "clock"}),
        "tools.0.custom.input_schema: Field required",
        with_tools({"type": "web_search_20250305", "name": "web_search"}),
    ),
    (
        "a schema's type",
        with_tools(tool(input_schema={"type": "string"})),
        "tools.0.custom.input_schema.type: Input should be 'object'",
        with_tools(tool(input_schema={"type": "object", "properties": {}})),
    ),
    (
        "a schema without a type",
        with_tools(tool(input_schema={})),
        "tools.0.custom.input_schema.type: Field required",
        with_tools(tool()),
    ),
    (
        "fields of a tool",
        with_tools(tool(impact="high")),
        "tools.0.custom.impact: Extra inputs are not permitted",
        with_tools(tool(description="x", strict=True)),
    ),
    (
        "deferred tools",
        with_tools(tool(defer_loading=True)),
        "All tools have defer_loading: true",
        with_tools(tool("a", defer_loading=True), tool()),
    ),
    (
        "a choice without tools",
        request(tools=[], tool_choice={"type": "auto"}),
        "tool_choice may only be specified while providing tools.",
        request(tool_choice={"type": "auto", "disable_parallel_tool_use": True}),
    ),
    (
        "a forced choice",
        request(tool_choice={"type": "any"}, model="claude-opus-5-5"),
        'tool_choice: type "tool" and "any" are not supported for this model.',
        request(tool_choice={"type": "any"}),
    ),
    (
        "the chosen tool",
        request(tool_choice={"type": "tool", "name": "x"}),
        "Tool 'x' not found in provided tools",
        request(tool_choice={"type": "tool", "name": "clock"}),
    ),
    (
        "fields of no choice",
        request(tool_choice={"type": "none", "disable_parallel_tool_use": True}),
        "tool_choice.none.disable_parallel_tool_use: Extra inputs are not permitted",
        request(tool_choice={"type": "none"}),
    ),
    (
        "a small thinking budget",
        thinking(budget_tokens=1),
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        thinking(budget_tokens=1024),
    ),
    (
        "a large thinking budget",
        thinking(budget_tokens=2048),
        "`max_tokens` must be greater than `thinking.budget_tokens`.",
        thinking(budget_tokens=2047),
    ),
    (
        "stop sequences",
        request(stop_sequences=["\n"]),
        "stop_sequences: each stop sequence must contain non-whitespace",
        request(stop_sequences=["END"]),
    ),
]
RULES = MESSAGE_RULES + FIELD_RULES
