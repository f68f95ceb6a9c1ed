"""The tools of `table`: what wit/world.wit describes, with `tables.py` for the work."""

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import table as wit

import tables

KINDS = {
    "number": wit.Kind.NUMBER,
    "date": wit.Kind.DATE,
    "text": wit.Kind.TEXT,
    "empty": wit.Kind.EMPTY,
}


def read(file: str) -> tables.Table:
    try:
        return tables.read(file)
    except tables.Malformed as error:
        raise Err(wit.Problem_Malformed(str(error)))
    except OSError as error:
        raise Err(wit.Problem_Unreadable(f"cannot read `{file}`: {error.strerror}"))


class Table(exports.Table):
    def describe(self, file: str, frequent: int | None) -> list[wit.Column]:
        table = read(file)
        return [column(table, name, 3 if frequent is None else frequent) for name in table.columns]

    def rows(self, file, conditions, columns, limit):
        table = read(file)
        names = table.columns if columns is None else columns
        for name in [*names, *(condition.column for condition in conditions)]:
            if name not in table.columns:
                raise Err(wit.Problem_UnknownColumn(table.columns))
        wanted = [(item.column, item.comparison.name.lower(), item.value) for item in conditions]
        found = tables.find(table, wanted, 20 if limit is None else limit)
        return [[(name, row[name]) for name in names] for row in found]


def column(table: tables.Table, name: str, frequent: int) -> wit.Column:
    cells = [row[name] for row in table.rows if row[name]]
    kind = tables.kind(cells)
    numbers = wit.Numbers(*tables.statistics_of(cells)) if kind == "number" else None
    return wit.Column(name, KINDS[kind], len(cells), len(set(cells)), numbers, tables.most_frequent(cells, frequent))
