"""Counts the words of a text."""
import json
import re
from collections import Counter

from wit_world import exports
from componentize_py_types import Err
from wit_world.exports.tools import Content_Text, Hints, ToolDef, ToolError_ExecutionFailed, ToolOutput

PARAMETERS = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "The text"}},
    "required": ["text"],
}
WORD = re.compile(r"\w+")
CALLS = 0


class Tools(exports.Tools):
    def list_tools(self):
        hints = Hints(read_only=True, destructive=False, idempotent=True, open_world=False)
        return [ToolDef("words", "Counts the words of a text.", json.dumps(PARAMETERS), None, hints, [])]

    def call_tool(self, call):
        global CALLS
        CALLS += 1
        arguments = json.loads(call.arguments)
        words = Counter(word.lower() for word in WORD.findall(arguments["text"]))
        text = f"call {CALLS}: {sum(words.values())} words, {len(words)} different"
        return ToolOutput([Content_Text(text)], None)
