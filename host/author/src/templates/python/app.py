"""The tools of my-plugin: each class is an interface of wit/world.wit, each method a tool.

Only what is imported here, at the top, is part of the component.
"""

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.text import WordCount

import words


class Text(exports.Text):
    def top_words(self, text: str, limit: int | None) -> list[WordCount]:
        if limit == 0:
            raise Err("`limit` must be at least 1")
        return [WordCount(word, times) for word, times in words.top(text, 10 if limit is None else limit)]
