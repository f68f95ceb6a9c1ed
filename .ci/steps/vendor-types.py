"""vendor-types.py FOLDER: judges the requests in FOLDER, one JSON file each, by the types of the vendors' own clients.

A request is {"vendor", "path", "headers", "body"}. No key is allowed that a type does not have; what a vendor takes and
its client's types lack is listed below, each with where it is published. `--judge-the-judge` shows on requests that are
wrong on purpose that they are refused.
"""

import base64
import collections
import collections.abc
import copy
import importlib
import json
import pathlib
import pkgutil
import re
import sys
import typing
import warnings

import anthropic.types
import jsonschema
import ollama._types
import openai.types
import pydantic
import typing_extensions
from google.genai import types as genai

STRICT = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=True)
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# Anthropic: "Property keys should match pattern", as its API answers.
PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


class Invalid(Exception):
    """What is wrong with a request."""


def ensure(holds, otherwise):
    if not holds:
        raise Invalid(otherwise)


def strict(package):
    """Lets no typed dictionary of `package` have other keys, and every list be read to its end."""
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        module = importlib.import_module(module.name)
        if not module.__name__.endswith(("_param", "_params")):
            continue
        for lazy in ("Iterable", "SequenceNotStr"):
            if hasattr(module, lazy):
                setattr(module, lazy, typing.List)
        for name, value in list(vars(module).items()):
            if typing_extensions.is_typeddict(value):
                value.__pydantic_config__ = STRICT
            elif typing.get_origin(value) or is_answer(value):
                setattr(module, name, eager(value))


class Object:
    """Stands for what a client library takes beside JSON: its own objects of the answers."""


def is_answer(value):
    return isinstance(value, type) and issubclass(value, pydantic.BaseModel)


def eager(alias):
    """The same type of JSON alone, with lists in the place of what would be read when it is asked for, which nobody
    does."""
    if is_answer(alias):
        return Object
    origin, inner = typing.get_origin(alias), typing.get_args(alias)
    if not inner:
        return alias
    if origin is collections.abc.Iterable:
        return typing.List[eager(inner[0])]
    if origin is typing.Union:
        return typing.Union[tuple(eager(one) for one in inner)]
    if origin in (list, dict):
        return alias.copy_with(tuple(eager(one) for one in inner))
    if origin is typing.Annotated:
        return typing.Annotated[(eager(inner[0]), *inner[1:])]
    return alias


def forbid(model):
    """The same for a model of pydantic and those in it."""
    for inner in list(vars(model).values()):
        if isinstance(inner, type) and issubclass(inner, pydantic.BaseModel):
            forbid(inner)
    model.model_config["extra"] = "forbid"
    model.model_rebuild(force=True)


strict(openai.types)
strict(anthropic.types)
from anthropic.types import message_create_params as messages  # noqa: E402
from openai.types.chat import completion_create_params as chat  # noqa: E402
from openai.types.responses import response_create_params as responses  # noqa: E402

TYPES = {
    "anthropic": pydantic.TypeAdapter(messages.MessageCreateParams),
    "chat": pydantic.TypeAdapter(chat.CompletionCreateParams),
    "responses": pydantic.TypeAdapter(responses.ResponseCreateParams),
}
for model in (ollama._types.Image, ollama._types.Message, ollama._types.Tool, ollama._types.Options,
              ollama._types.ChatRequest):
    forbid(model)


def by_type(type_, value):
    """Validates `value` by an adapter of pydantic, without changing what is no such value into one."""
    try:
        type_.validate_python(value, strict=True)
    except pydantic.ValidationError as error:
        raise Invalid(details(error)) from None


def details(error):
    # A union tells of every member; the deepest places are those that were nearly right.
    found = sorted(error.errors(include_url=False), key=lambda one: -len(one["loc"]))
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found[:4])


def json_schema(schema, names=None):
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise Invalid(f"no JSON Schema: {error.message}") from None
    ensure(schema.get("type") == "object", "not the schema of an object")
    for node in nodes(schema):
        for name in node.get("properties", {}) if names else ():
            ensure(names.fullmatch(name), f"property key `{name}`")


def nodes(schema):
    """Every schema in a schema."""
    work = [schema]
    while work:
        node = work.pop()
        if not isinstance(node, dict):
            continue
        yield node
        for key in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"):
            work += node.get(key, {}).values()
        for key in ("anyOf", "allOf", "oneOf", "prefixItems"):
            work += node.get(key, [])
        work += [node.get(key) for key in ("items", "additionalProperties", "not", "if", "then", "else", "contains")]


def openai_schema(schema):
    json_schema(schema)
    for node in nodes(schema):
        kinds = node.get("type")
        is_array = "array" in (kinds if isinstance(kinds, list) else [kinds])
        ensure(not is_array or isinstance(node.get("items"), dict), "array schema missing items")


def names(found):
    found = list(found)
    ensure(all(NAME.fullmatch(name) for name in found), f"a name in {found}")
    ensure(len(set(found)) == len(found), f"a name twice in {found}")


def judge_anthropic(body, path):
    ensure(path.endswith("/v1/messages"), path)
    # A test lays `temperature` over every request by `extra_body`: models before the current ones take it.
    body = {key: value for key, value in body.items() if key != "temperature"}
    by_type(TYPES["anthropic"], body)
    names(tool["name"] for tool in body.get("tools", []))
    for tool in body.get("tools", []):
        json_schema(tool["input_schema"], PROPERTY)
        root = ("anyOf", "oneOf", "allOf")
        ensure(not any(key in tool["input_schema"] for key in root), "input_schema combines schemas at its root")
    for source in sources(body):
        base64.b64decode(source["data"], validate=True)


def sources(value):
    if isinstance(value, dict):
        if value.get("type") == "base64" and "data" in value:
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from sources(inner)


def judge_chat(body, path):
    ensure(path.endswith("/chat/completions"), path)
    by_type(TYPES["chat"], body)
    names(tool["function"]["name"] for tool in body.get("tools", []))
    for tool in body.get("tools", []):
        openai_schema(tool["function"]["parameters"])


def judge_compatible(body, path):
    # What servers of reasoning models add to their messages and want back: DeepSeek's API reference,
    # "reasoning_content". haft sends it to the server alone that it came from.
    body = copy.deepcopy(body)
    for message in body["messages"]:
        if message["role"] == "assistant":
            ensure(isinstance(message.pop("reasoning_content", ""), str), "reasoning_content")
    judge_chat(body, path)


def judge_openrouter(body, path):
    # OpenRouter's own keys: its API reference, "Usage accounting", "Reasoning tokens", "Prompt caching",
    # "Provider routing".
    ensure(path.startswith("/api/v1/"), path)
    body = copy.deepcopy(body)
    ensure(body.pop("usage", None) == {"include": True}, "usage")
    reasoning = body.pop("reasoning", {})
    ensure(set(reasoning) <= {"effort", "max_tokens", "exclude", "enabled"}, f"reasoning {reasoning}")
    provider = body.pop("provider", {})
    ensure(set(provider) <= {"require_parameters"}, f"provider {provider}")
    for message in body["messages"]:
        if message["role"] == "assistant":
            ensure(isinstance(message.pop("reasoning", ""), str), "reasoning of a message")
            ensure(isinstance(message.pop("reasoning_details", []), list), "reasoning_details of a message")
        for part in message["content"] if isinstance(message.get("content"), list) else []:
            if part.get("type") == "text":
                mark = part.pop("cache_control", None)
                ensure(mark in (None, {"type": "ephemeral"}), f"cache_control {mark}")
    judge_chat(body, path)


def judge_responses(body, path):
    ensure(path.endswith("/responses"), path)
    by_type(TYPES["responses"], body)
    names(tool["name"] for tool in body.get("tools", []))
    for tool in body.get("tools", []):
        openai_schema(tool["parameters"])


warnings.simplefilter("error", UserWarning)
GEMINI = {
    "contents": pydantic.TypeAdapter(list[genai.Content]),
    "systemInstruction": pydantic.TypeAdapter(genai.Content),
    "tools": pydantic.TypeAdapter(list[genai.Tool]),
    "toolConfig": pydantic.TypeAdapter(genai.ToolConfig),
    "generationConfig": pydantic.TypeAdapter(genai.GenerationConfig),
    "safetySettings": pydantic.TypeAdapter(list[genai.SafetySetting]),
}


def judge_gemini(body, path):
    ensure(re.search(r"/v1beta/models/[^/:]+:(g|streamG)enerateContent", path), path)
    ensure("contents" in body, "no contents")
    for key, value in body.items():
        ensure(key in GEMINI, f"unknown key `{key}`")
        try:
            GEMINI[key].validate_json(json.dumps(value))
        except pydantic.ValidationError as error:
            raise Invalid(f"{key}: {details(error)}") from None
        except UserWarning as warning:
            # What its own client does not know: a type of a schema that there is not.
            raise Invalid(f"{key}: {warning}") from None
    declared = [one for tool in body.get("tools", []) for one in tool["functionDeclarations"]]
    names(one["name"] for one in declared)
    for one in declared:
        ensure(not ("parameters" in one and "parametersJsonSchema" in one), "two schemas")
        if "parametersJsonSchema" in one:
            json_schema(one["parametersJsonSchema"])


def judge_ollama(body, path):
    ensure(path == "/api/chat", path)
    body = copy.deepcopy(body)
    for message in body.get("messages", []):
        # Ollama's api/types.go: `ToolCall.ID`, `ToolCallFunction.Index`, `Message.ToolCallID`.
        message.pop("tool_call_id", None)
        for call in message.get("tool_calls", []):
            call.pop("id", None)
            call.get("function", {}).pop("index", None)
        for image in message.get("images", []):
            base64.b64decode(image, validate=True)
        message["images"] = [{"value": image} for image in message.get("images", [])]
    for tool in body.get("tools", []):
        # api/types.go: `ToolProperty` has `anyOf`, `properties` and `required`, for schemas within schemas.
        for node in list(nodes(tool["function"]["parameters"]))[1:]:
            for key in ("anyOf", "properties", "required"):
                node.pop(key, None)
    try:
        ollama._types.ChatRequest.model_validate(body)
        for message in body["messages"]:
            ollama._types.Message.model_validate(message)
        for tool in body.get("tools", []):
            ollama._types.Tool.model_validate(tool)
        ollama._types.Options.model_validate(body.get("options", {}))
    except pydantic.ValidationError as error:
        raise Invalid(details(error)) from None
    names(tool["function"]["name"] for tool in body.get("tools", []))


JUDGES = {
    "anthropic": judge_anthropic,
    "gemini": judge_gemini,
    "ollama": judge_ollama,
    "openai-chat": judge_compatible,
    "openai-responses": judge_responses,
    "openrouter": judge_openrouter,
}


def judge(vendor, path, body):
    """Why a request is wrong; None where it is not."""
    try:
        JUDGES[vendor](body, path.split("?")[0])
    except Invalid as error:
        return str(error)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def right(vendor):
    """A request that is in order, with its path."""
    function = {"name": "t", "description": "T", "parameters": SCHEMA}
    call = {"name": "t", "arguments": "{}"}
    picture = "data:image/png;base64,AP8="
    if vendor == "anthropic":
        source = {"type": "base64", "media_type": "image/png", "data": "AP8="}
        turns = [
            {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image", "source": source}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "t", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "x"}]}]},
        ]
        tools = [{"name": "t", "description": "T", "input_schema": function["parameters"]}]
        return "/v1/messages", {"model": "m", "max_tokens": 9, "messages": turns, "tools": tools}
    if vendor == "gemini":
        turns = [
            {"role": "user", "parts": [{"text": "hi"}, {"inlineData": {"mimeType": "image/png", "data": "AP8="}}]},
            {"role": "model", "parts": [{"functionCall": {"name": "t", "args": {}}, "thoughtSignature": "c2ln"}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "t", "response": {"output": "x"}}}]},
        ]
        return "/v1beta/models/m:generateContent", {"contents": turns, "tools": [{"functionDeclarations": [function]}]}
    if vendor == "ollama":
        turns = [
            {"role": "user", "content": "hi", "images": ["AP8="]},
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "t", "arguments": {}}}]},
            {"role": "tool", "tool_name": "t", "content": "x"},
        ]
        tools = [{"type": "function", "function": function}]
        return "/api/chat", {"model": "m", "messages": turns, "tools": tools, "stream": True}
    if vendor == "openai-responses":
        content = [{"type": "input_text", "text": "hi"}, {"type": "input_image", "image_url": picture, "detail": "auto"}]
        turns = [
            {"role": "user", "content": content},
            {"type": "function_call", "call_id": "a", **call},
            {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "x"}]},
        ]
        tools = [{"type": "function", "strict": False, **function}]
        return "/v1/responses", {"model": "m", "input": turns, "tools": tools, "store": False}
    content = [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": picture}}]
    turns = [
        {"role": "user", "content": content},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "a", "content": "x"},
    ]
    body = {"model": "m", "messages": turns, "tools": [{"type": "function", "function": function}]}
    if vendor == "openrouter":
        return "/api/v1/chat/completions", {**body, "usage": {"include": True}}
    return "/v1/chat/completions", body


def places(value):
    """Every object in a request, but those that are a tool's or a model's own: arguments, answers, schemas."""
    free = ("input", "args", "arguments", "response", "parameters", "input_schema")
    if isinstance(value, dict):
        yield value
        value = [inner for key, inner in value.items() if key not in free or isinstance(inner, list)]
    if isinstance(value, list):
        for inner in value:
            yield from places(inner)


def spoil(place, how):
    """Makes an object wrong: by a key that nobody knows, a value of another type, or without its first key."""
    first = next(iter(place))
    if how == "unknown key":
        place["made_up"] = 1
    elif how == "wrong type":
        place[first] = {"made": "up"}
    else:
        del place[first]


def judge_the_judge():
    wrong = 0
    for vendor in JUDGES:
        path, body = right(vendor)
        reason = judge(vendor, path, body)
        ensure(reason is None, f"{vendor}: a right request is refused: {reason}")
        # These types require nothing, or little.
        may_lack = vendor in ("gemini", "ollama", "openai-responses")
        for how in ("unknown key", "wrong type") if may_lack else ("unknown key", "wrong type", "missing key"):
            for index, _ in enumerate(places(body)):
                spoilt = copy.deepcopy(body)
                spoil(list(places(spoilt))[index], how)
                ensure(judge(vendor, path, spoilt), f"{vendor}: {how}: the judge takes {json.dumps(spoilt)}")
                wrong += 1
        takes_untyped = vendor in ("anthropic", "gemini", "ollama")
        for bad in [{"type": "nothing"}] + ([] if takes_untyped else [{"type": "object", "properties": {"a": {"type": "array"}}}]):
            text = json.dumps(body).replace(json.dumps(SCHEMA), json.dumps(bad))
            ensure(judge(vendor, path, json.loads(text)), f"{vendor}: the judge takes the schema {bad}")
            wrong += 1
        ensure(judge(vendor, "/elsewhere", body), f"{vendor}: another path")
    print(f"the judge refuses {wrong} requests that are wrong on purpose")


def main(folder):
    found, wrong = collections.Counter(), []
    for file in sorted(pathlib.Path(folder).glob("*.json")):
        request = json.loads(file.read_text())
        found[request["vendor"]] += 1
        reason = judge(request["vendor"], request["path"], request["body"])
        if reason:
            wrong.append(f"{request['vendor']} {request['path']}: {reason}\n  {json.dumps(request['body'])[:2000]}")
    for vendor in JUDGES:
        print(f"{vendor}: {found[vendor]} requests")
    missing = [vendor for vendor in JUDGES if not found[vendor]]
    if missing:
        sys.exit(f"no request was sent to {', '.join(missing)}")
    print(f"{sum(found.values())} requests, {len(wrong)} invalid")
    if wrong:
        sys.exit("\n".join(wrong[:20]))


if __name__ == "__main__":
    judge_the_judge() if sys.argv[1] == "--judge-the-judge" else main(sys.argv[1])
