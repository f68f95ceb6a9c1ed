"""Tables of text: read from CSV or JSON, described, searched. Plain Python."""

import csv
import io
import json
import math
import statistics
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

# Bytes of a file: as a table it takes some ten times as much memory.
MAX_FILE = 16 << 20


class Malformed(Exception):
    """A file is no table."""


@dataclass
class Table:
    columns: list[str]
    rows: list[dict[str, str]]


def read(path: str) -> Table:
    with open(path, "rb") as file:
        data = file.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise Malformed(f"`{path}` has more than {MAX_FILE >> 20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Malformed(f"`{path}` is not UTF-8: byte {error.start}") from None
    return from_json(text) if text.lstrip()[:1] == "[" else from_csv(text)


def from_json(text: str) -> Table:
    try:
        values = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise Malformed(f"no JSON: {error}") from None
    for place, value in enumerate(values):
        if not isinstance(value, dict):
            raise Malformed(f"item {place} is no object")
    columns = list(dict.fromkeys(name for value in values for name in value))
    return Table(columns, [{name: cell(value.get(name)) for name in columns} for value in values])


def cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def from_csv(text: str) -> Table:
    heading = text.split("\n", 1)[0]
    separator = max(",;\t", key=heading.count)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        columns = next(lines, [])
        if not any(columns):
            raise Malformed("there is no heading")
        if len(set(columns)) < len(columns):
            raise Malformed("two columns have the same heading")
        rows = [row(columns, cells, lines.line_num) for cells in lines if cells]
    except csv.Error as error:
        raise Malformed(f"line {lines.line_num}: {error}") from None
    return Table(columns, rows)


def row(columns: list[str], cells: list[str], line: int) -> dict[str, str]:
    if len(cells) != len(columns):
        raise Malformed(f"line {line}: {len(cells)} cells in the place of {len(columns)}")
    return {name: text.strip() for name, text in zip(columns, cells)}


def number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def kind(cells: list[str]) -> str:
    if not cells:
        return "empty"
    if all(number(text) is not None for text in cells):
        return "number"
    return "date" if all(map(is_date, cells)) else "text"


def statistics_of(cells: list[str]) -> tuple[float, float, float, float, float | None]:
    values = [float(text) for text in cells]
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return min(values), max(values), statistics.fmean(values), statistics.median(values), deviation


def most_frequent(cells: list[str], most: int) -> list[tuple[str, int]]:
    return Counter(cells).most_common(most)


def find(table: Table, conditions: list[tuple[str, str, str]], most: int) -> list[dict[str, str]]:
    def meets(row: dict[str, str]) -> bool:
        return all(holds(row[column], comparison, value) for column, comparison, value in conditions)

    return list(islice(filter(meets, table.rows), most))


def holds(text: str, comparison: str, value: str) -> bool:
    if comparison == "contains":
        return value.casefold() in text.casefold()
    left, right = number(text), number(value)
    if left is None or right is None:
        left, right = text, value
    return {
        "equal": left == right,
        "different": left != right,
        "less": left < right,
        "greater": left > right,
    }[comparison]
