#!/usr/bin/env python3
""".ci/same-code.py A B: whether two components differ in nothing but the state that an interpreter was kept in: data and
globals of their core modules. Prints how much of it differs; ends with 1 where anything else does."""

import sys

CORE_MODULE, COMPONENT = 1, 4  # sections of a component
STATE = {6: "globals", 11: "data"}  # sections of a core module, of which only the content may differ


def number(data, at):
    """An unsigned LEB128 and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def sections(data, start, end, place, is_component):
    """Every section that has no others in it: where it is, its number, and its bytes."""
    at, count = start + 8, 0
    while at < end:
        kind = data[at]
        size, begin = number(data, at + 1)
        at = begin + size
        if is_component and kind in (CORE_MODULE, COMPONENT):
            yield from sections(data, begin, at, f"{place}{count}/", kind == COMPONENT)
        else:
            yield place, kind, data[begin:at], is_component
        count += 1


def differing(one, other):
    """Bytes that are not the same, and those that only one of both has."""
    return sum(a != b for a, b in zip(one, other)) + abs(len(one) - len(other))


def main():
    one, other = ([*sections(data, 0, len(data), "/", True)] for data in (open(path, "rb").read() for path in sys.argv[1:3]))
    if [found[:2] for found in one] != [found[:2] for found in other]:
        sys.exit("they have other sections")
    state = 0
    for (place, kind, first, of_component), (_, _, second, _) in zip(one, other):
        if first == second:
            continue
        if of_component or kind not in STATE:
            sys.exit(f"{place} section {kind} differs in {differing(first, second)} of {len(first)} bytes")
        state += differing(first, second)
    print(f"the same code; {state} bytes of the kept state differ" if state else "the same bytes")


if __name__ == "__main__":
    main()
