"""Words of a text; plain Python, which knows nothing of components."""

import re
from collections import Counter

WORD = re.compile(r"[^\W_]+")


def top(text: str, limit: int) -> list[tuple[str, int]]:
    """The most frequent words first, equally frequent ones in alphabetical order."""
    times = Counter(WORD.findall(text.lower()))
    return sorted(times.items(), key=lambda item: (-item[1], item[0]))[:limit]
