"""What `.ci/steps/picture` does besides fetching Rich.

    picture.py WORK HOME FILE    the session of LINES, by WORK/bin/haft with that home, drawn as FILE
    picture.py --same A B        whether two such files show the same, but for times and ids

The session is what a shell at a pseudoterminal printed, and nothing in it is changed but the path of the home: a folder
for temporary files is no place where anybody works.
"""

import difflib
import fcntl
import html
import io
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

COLUMNS = 92
SHOWN_HOME = "/home/ada"
# Of one line, in seconds: the first call of a component compiles it.
PATIENCE = 60
# What the shell prints before its prompt, and a terminal takes for the title of its window.
READY = b"\x1b]2;ready\x07"

BEFORE = """
echo 'Buy milk, mend the roof.' >plan.md
touch ~/.bashrc
haft init && haft add --yes ./wordcount.wasm
"""
LINES = [
    "haft call bash --arg command='wc -w plan.md'      # a tool",
    "haft call bash --arg command='rm ~/.bashrc'       # outside of the workspace",
    "haft call wordcount__count --arg path=plan.md     # a plugin: nothing was granted to it",
    "haft call wordcount__count --arg path=plan.md --allow wordcount:read=.",
    "haft log                                          # all of it is on record",
]

FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
# What Rich draws a line's piece with, and how wide a character is to it.
TEXT = re.compile(r'<text class="([^"]*)" x="([\d.]+)" y="([\d.]+)" textLength="[\d.]+" clip-path="([^"]*)">([^<]*)</text>')
WIDTH = 12.2
QUESTION = re.compile(rb"\[y/N[^\]]*\] $")
STYLE = re.compile(r"\x1b\[[0-9;]*m")
UNSTEADY = [
    (re.compile(r"(\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d [0-9a-f]{8}"), "TIME ID"),
    (re.compile(r"[\d.]+ m?s\b"), "TIME"),
]


def environment(work, home):
    own = {"HOME": home, "TMPDIR": work / "tmp", "PATH": f"{work / 'bin'}:/usr/bin:/bin"}
    shell = {"LANG": "C.UTF-8", "TERM": "xterm-256color", "INPUTRC": "/dev/null", "HISTFILE": "/dev/null"}
    prompt = {"PS1": r"\n\[\e]2;ready\a\e[1;32m\]$\[\e[0m\] "}
    return {name: str(value) for name, value in (own | shell | prompt).items()}


def read_to_prompt(terminal, end):
    """What is printed up to the shell's next prompt, with that. A question is answered with no."""
    said, answered = b"", 0
    while READY not in said or not said.endswith(b"$\x1b[0m "):
        ready, _, _ = select.select([terminal], [], [], max(0, end - time.monotonic()))
        if not ready:
            sys.exit(f"no prompt after {PATIENCE} s: {said!r}")
        said += os.read(terminal, 65536)
        if len(said) > answered and QUESTION.search(said):
            answered = len(said)
            os.write(terminal, b"n\n")
    return said


def record(work, home):
    """The bytes of the session, from the first prompt to before the last."""
    folder, variables = home / "notes", environment(work, home)
    subprocess.run(["sh", "-ec", BEFORE], cwd=folder, env=variables, check=True, capture_output=True, timeout=PATIENCE)
    terminal, other = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    shell = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        cwd=folder, env=variables, stdin=other, stdout=other, stderr=other, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(other)
    try:
        said = read_to_prompt(terminal, time.monotonic() + PATIENCE)
        for line in LINES:
            os.write(terminal, line.encode() + b"\n")
            said += read_to_prompt(terminal, time.monotonic() + PATIENCE)
    finally:
        shell.kill()
        shell.wait()
    return said


def lines_of(said, home):
    """The recorded lines with their styles; everything else that steers a terminal has to be known here."""
    if len(home) != len(SHOWN_HOME):
        sys.exit(f"{home} is not as long as {SHOWN_HOME}")
    text = said.decode().replace(READY.decode(), "").replace(home, SHOWN_HOME)
    text = re.sub(r"\x1b\[\?2004[hl]\r?", "", text)
    lines = [line.rstrip("\r") for line in text.strip("\r\n").split("\n")[:-1]]
    lines = lines[:-1] if not lines[-1] else lines
    plain = [STYLE.sub("", line) for line in lines]
    wrong = [line for line in plain if len(line) > COLUMNS or not line.isprintable()]
    if wrong:
        sys.exit(f"too long, or not only text: {wrong}")
    return lines


def by_words(piece):
    """A piece of text without the spaces around it and between columns: not everything that draws pictures keeps them
    as wide as they are. Rich draws the ends of lines too, which are nothing."""
    style, x, row, clip, text = piece.groups()
    text = html.unescape(text).replace("\xa0", " ")
    return "".join(
        f'<text class="{style}" x="{float(x) + word.start() * WIDTH:.1f}" y="{row}" '
        f'textLength="{len(word[0]) * WIDTH:.1f}" clip-path="{clip}">{html.escape(word[0], quote=False)}</text>'
        for word in re.finditer(r"\S+(?: \S+)*", text)
    )


def draw(lines, path):
    from rich import _export_format
    from rich.console import Console
    from rich.terminal_theme import MONOKAI
    from rich.text import Text

    # No font is fetched: each piece of text has its length, whatever font there is.
    form = re.sub(r"@font-face \{\{.*?\}\}", "", _export_format.CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    form = form.replace("Fira Code, monospace", FONTS).replace("font-family: arial", f"font-family: {FONTS}")
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in lines:
        console.print(Text.from_ansi(line), no_wrap=True, crop=False)
    drawn = console.export_svg(title="~/notes", theme=MONOKAI, code_format=form, unique_id="tour")
    drawn = TEXT.sub(by_words, drawn)
    # Without a size of its own it is as wide as whatever shows it likes.
    width, height = (round(float(side)) for side in re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawn).groups())
    drawn = drawn.replace("<svg ", f'<svg width="{width}" height="{height}" ', 1)
    path.write_text("\n".join(line.rstrip() for line in drawn.splitlines() if line.strip()) + "\n")


def shown(path):
    """The rows of a picture: its pieces of text in their order, by how far down they stand."""
    rows = {}
    for *_, row, _, piece in TEXT.findall(pathlib.Path(path).read_text()):
        rows.setdefault(float(row), []).append(html.unescape(piece))
    text = [" ".join(pieces) for _, pieces in sorted(rows.items())]
    for pattern, word in UNSTEADY:
        text = [pattern.sub(word, line) for line in text]
    return text


def main():
    match sys.argv[1:]:
        case ["--same", old, new]:
            difference = list(difflib.unified_diff(shown(old), shown(new), old, "what haft prints now", lineterm=""))
            if difference:
                sys.exit("\n".join([*difference, "`.ci/steps/picture CACHE draw` draws it anew"]))
            print(f"{old} shows what haft prints: {len(shown(old))} lines")
        case [work, home, path]:
            said = record(pathlib.Path(work), pathlib.Path(home))
            draw(lines_of(said, home), pathlib.Path(path))
        case _:
            sys.exit(__doc__)


main()
