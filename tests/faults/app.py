"""Ways to fail in Python."""

from wit_world import exports
from wit_world.exports.ways import WordCount

WORDS = {}


def find(index):
    raise LookupError(f"no word {index}")  # fault: uncaught


class Ways(exports.Ways):
    def null_dereference(self, index: int) -> str:
        return WORDS.get(index).lower()  # fault: null-dereference

    def wrong_type(self, index: int) -> list[WordCount]:  # fault: wrong-type
        return [WordCount(word=index, times=1)]

    def uncaught(self, index: int) -> str:
        return find(index)

    def out_of_memory(self, index: int) -> int:
        everything = []
        while True:
            everything.append(bytes([index]) * (1 << 20))  # fault: out-of-memory
