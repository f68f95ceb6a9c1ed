"""What hostile programs try, one function a case, each in a process of its own.

Run as the command of a call: `python3 hostile.py plan.json`. The working directory of a case is a
folder of its own in the workspace, `O` a folder of its own outside. What a case could do that leaves
no trace outside, it confesses. Whether it got out is judged by the host, never here.
"""

import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import resource
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
PLAN = {}
O = HERE = ""
# What a case may take; on a slow machine a few hundred milliseconds.
BOUND = 20
FDCWD = -100


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def libc(name, *arguments):
    function = getattr(LIBC, name)
    function.restype = ctypes.c_long
    return check(ctypes.c_int(function(*map(word, arguments))).value)


def syscall(x86, arm, *arguments):
    LIBC.syscall.restype = ctypes.c_long
    return check(LIBC.syscall(*map(word, (x86 if X86 else arm,) + arguments)))


def word(value):
    """Every number as wide as a register; Python would pass an `int`."""
    if isinstance(value, str):
        return value.encode()
    return ctypes.c_long(value) if isinstance(value, int) else value


def note(name, data):
    """Writes to a file of the case, wherever the case has gone to."""
    file = os.open(name, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600, dir_fd=PLAN["here"])
    os.write(file, data if isinstance(data, bytes) else data.encode())
    os.close(file)


def confess(what):
    note("escaped", what + "\n")


def loot(data):
    note("loot", data)


def write(path, text="x"):
    with open(path, "a") as file:
        file.write(text)


def read(path):
    with open(path, "rb") as file:
        return file.read(1 << 20)


def shrug(attempt):
    try:
        attempt()
    except OSError:
        pass


def every(*attempts):
    """Tries everything, and tells of the last failure."""
    failed = None
    for attempt in attempts:
        try:
            attempt()
        except OSError as error:
            failed = error
    if failed:
        raise failed
