"""`app.py`, as `haft build` gives it to componentize-py. Made anew by every build."""

import functools
import inspect
import os

import LATER

import app

try:
    from wit_world.imports import environment
except ImportError:  # the project brings a part of WASI that does not have it
    environment = None


@functools.cache
def enter_workspace():
    """Makes relative paths those of the workspace; the interpreter was started in another folder."""
    folder = environment.initial_cwd() if environment else None
    if folder:
        try:
            os.chdir(folder)
        except OSError:  # it is not granted
            pass


def in_workspace(function):
    if inspect.iscoroutinefunction(function) or getattr(function, "__isabstractmethod__", False):
        return function

    @functools.wraps(function)
    def call(*arguments):
        enter_workspace()
        return function(*arguments)

    return call


def __getattr__(name):
    try:
        found = getattr(app, name)
    except AttributeError:
        if name.startswith("_"):
            raise
        raise AttributeError(f"app.py defines no `{name}`, which the world of the WIT exports") from None
    if not inspect.isclass(found):
        return in_workspace(found) if inspect.isfunction(found) else found
    methods = inspect.getmembers(found, inspect.isfunction)
    return type(name, (found,), {name: in_workspace(it) for name, it in methods if not name.startswith("_")})
