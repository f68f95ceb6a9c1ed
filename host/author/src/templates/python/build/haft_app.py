"""`app.py`, as `haft plugin build` gives it to componentize-py. Every build writes this file again."""

import dataclasses
import enum
import functools
import inspect
import os
import typing

import _strptime
import copy
import decimal
import encodings.ascii
import encodings.cp1252
import encodings.idna
import encodings.latin_1
import encodings.utf_16
import encodings.utf_16_be
import encodings.utf_16_le
import encodings.utf_32
import encodings.utf_8_sig
import heapq
import linecache
import locale
import numbers
import traceback
import typing
import weakref

import app

try:
    from wit_world.imports import environment
except ImportError:  # the project brings a part of WASI that does not have it
    environment = None

MOST_VALUES = 1000  # that are looked at in one answer


@functools.cache
def enter_workspace():
    """Makes relative paths those of the workspace; the interpreter was started in another folder."""
    folder = environment.initial_cwd() if environment else None
    if folder:
        try:
            os.chdir(folder)
        except OSError:  # it is not granted
            pass


def in_workspace(function, returned=None):
    if inspect.iscoroutinefunction(function) or getattr(function, "__isabstractmethod__", False):
        return function
    wrong_type = raiser(function)

    @functools.wraps(function)
    def call(*arguments):
        enter_workspace()
        answer = function(*arguments)
        wrong = differs(answer, returned, function.__name__, [MOST_VALUES])
        if wrong:
            exec(wrong_type, {"error": TypeError(wrong)})
        return answer

    return call


def raiser(function):
    """Code that raises `error` where the function begins: a traceback then names the author's file and line."""
    known = function.__code__
    line = inspect.unwrap(function).__code__.co_firstlineno
    code = compile("\n" * (line - 1) + "raise error", known.co_filename, "exec")
    return code.replace(co_name=function.__name__, co_qualname=function.__qualname__)


def differs(value, kind, place, left):
    """How a value is not what the WIT says; `None` where it is."""
    left[0] -= 1
    if left[0] < 0 or kind is None:
        return None
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    expected = f"{place} is {type(value).__name__}, expected {getattr(kind, '__name__', kind)}"
    if kind in (str, int, bool):
        return None if isinstance(value, kind) else expected
    if kind is float:
        return None if isinstance(value, (int, float)) else expected
    if origin is list:
        if not isinstance(value, list):
            return f"{place} is {type(value).__name__}, expected list"
        return first(differs(item, parts[0], f"{place}[{index}]", left) for index, item in enumerate(value))
    if origin is tuple and Ellipsis not in parts:
        if not isinstance(value, tuple) or len(value) != len(parts):
            return f"{place} is {type(value).__name__}, expected a tuple of {len(parts)}"
        return first(differs(value[index], part, f"{place}[{index}]", left) for index, part in enumerate(parts))
    if not inspect.isclass(kind) or origin:
        return None
    if issubclass(kind, enum.Enum) or not dataclasses.is_dataclass(kind):
        return None
    if not isinstance(value, kind):
        return expected
    hints = hints_of(kind)
    return first(differs(getattr(value, name, None), hint, f"{place}.{name}", left) for name, hint in hints)


def first(found):
    return next((wrong for wrong in found if wrong), None)


@functools.cache
def hints_of(kind):
    """The fields of a record with their types; none where they cannot be found out."""
    try:
        return tuple(typing.get_type_hints(kind).items())
    except Exception:
        return ()


def returned_by(kind, name):
    """What the WIT says that a method returns."""
    for base in kind.__mro__[1:]:
        declared = vars(base).get(name)
        if inspect.isfunction(declared) and getattr(declared, "__isabstractmethod__", False):
            try:
                return typing.get_type_hints(declared).get("return")
            except Exception:
                return None
    return None


def __getattr__(name):
    try:
        found = getattr(app, name)
    except AttributeError:
        if name.startswith("_"):
            raise
        raise AttributeError(f"app.py defines no `{name}`, which the world of the WIT exports") from None
    if not inspect.isclass(found):
        return in_workspace(found) if inspect.isfunction(found) else found
    methods = [it for it in inspect.getmembers(found, inspect.isfunction) if not it[0].startswith("_")]
    return type(name, (found,), {name: in_workspace(it, returned_by(found, name)) for name, it in methods})
