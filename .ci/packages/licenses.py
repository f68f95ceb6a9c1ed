"""Writes the licences of linked crates: licenses.py LINKED METADATA MUSL, called by .ci/packages/licenses.

LINKED has a crate and its version on each line, METADATA is what `cargo metadata` prints, MUSL the file with musl's.
"""

import json
import os
import re
import sys

# The first of these that a crate can be had under is taken.
PREFERRED = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "MIT",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "BSL-1.0",
    "Unicode-3.0",
    "MIT-0",
    "0BSD",
    "Unlicense",
    "CC0-1.0",
]
# What the name of a licence's file has, where a crate has several.
WORDS = {
    "Apache-2.0": ["apache"],
    "Apache-2.0 WITH LLVM-exception": ["apache", "llvm"],
    "BSL-1.0": ["boost", "bsl"],
    "Unlicense": ["unlicense"],
}
# Licences whose text names nobody.
NAMELESS = ["Apache-2.0 WITH LLVM-exception"]
# The text of a licence, for crates that bring none.
WRITTEN = {
    "MIT": """\
Copyright (c) {}

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated \
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the \
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit \
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the \
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE \
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR \
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR \
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE."""
}
NAME = re.compile(r"(?i)^(un)?licen[cs]e|^copying|^copyright|^notice")
# Code and pages whose names begin alike.
OTHER = (".rs", ".py", ".sh", ".js", ".html", ".toml", ".json", ".yml", ".yaml")
# Folders whose files are not linked.
UNLINKED = {"tests", "test", "testdata", "benches", "examples", "fuzz", "docs", "doc", ".github", "target"}


def chosen(expression):
    """The licences to keep to: of each part joined by AND, the preferred one."""
    parts = re.split(r"\s+AND\s+", expression.replace("/", " OR "))
    licences = []
    for part in parts:
        offered = [one.strip(" ()") for one in part.split(" OR ")]
        known = [one for one in PREFERRED if one in offered]
        if not known:
            sys.exit(f"licenses.py: none of `{expression}` is known")
        licences.append(known[0])
    return licences


def files(folder):
    """The files with licences below a folder, as paths from there, those at the top first."""
    found = []
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in UNLINKED)
        for name in sorted(names):
            if NAME.match(name) and not name.lower().endswith(OTHER):
                found.append(os.path.relpath(os.path.join(at, name), folder))
    return sorted(found, key=lambda path: (path.count(os.sep), path))


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.rstrip() for line in file.read().replace("\r\n", "\n").split("\n")]
    return "\n".join(lines).strip("\n")


def is_for(path, licence):
    words = WORDS.get(licence, [licence.lower().split("-")[0]])
    return any(word in os.path.basename(path).lower() for word in words)


def is_notice(path):
    return os.path.basename(path).lower().startswith("notice")


def tagged(path):
    """Whether a file's name says which licence it has."""
    return any(is_for(path, licence) for licence in PREFERRED)


def for_licence(package, licence):
    """The paths of a crate's files for one licence."""
    folder = os.path.dirname(package["manifest_path"])
    top = [path for path in files(folder) if os.sep not in path and not is_notice(path)]
    own = [path for path in top if is_for(path, licence)] or [path for path in top if not tagged(path)]
    return [os.path.join(folder, path) for path in own]


def is_alike(one, package, licence):
    """Whether the text of one crate for a licence is that of another: with nobody's name in it, or the same people's."""
    if licence in NAMELESS:
        return licence == one["license"]
    return one["repository"] and one["repository"] == package["repository"]


def texts(package, packages):
    """The texts that have to go along with a crate; those of its repository's other crates where it brings none."""
    name = f"{package['name']} {package['version']}"
    folder = os.path.dirname(package["manifest_path"])
    kept = [os.path.join(folder, path) for path in files(folder) if os.sep in path or is_notice(path)]
    for licence in chosen(package["license"]):
        if licence == "Apache-2.0":
            continue
        alike = [one for one in packages if is_alike(one, package, licence)]
        own = next(filter(None, (for_licence(one, licence) for one in [package, *alike])), [])
        kept += own
        if not own and licence in WRITTEN:
            yield WRITTEN[licence].format(", ".join(package["authors"]) or f"the authors of {package['repository']}")
        elif not own:
            sys.exit(f"licenses.py: no file for the licence {licence} of {name}")
    yield from (read(path) for path in dict.fromkeys(kept))


def main(linked, metadata, musl):
    with open(metadata, encoding="utf-8") as file:
        packages = {(p["name"], p["version"]): p for p in json.load(file)["packages"]}
    everything = [packages[key] for key in sorted(packages)]
    with open(linked, encoding="utf-8") as file:
        names = [tuple(line.split()) for line in file]
    crates = [packages[name, version.removeprefix("v")] for name, version in names]
    # haft's own crates come from the workspace, not from a registry.
    crates = [crate for crate in crates if crate["source"]]
    by_text = {}
    for crate in crates:
        for text in texts(crate, everything):
            key = re.sub(r"\s+", " ", text).strip()
            by_text.setdefault(key, (text, []))[1].append(f"{crate['name']} {crate['version']}")
    by_text.setdefault("musl", (read(musl), []))[1].append("musl")
    # No crate: a file of the page.
    for name in ("uPlot", "marked"):
        by_text.setdefault(name, (read(f"host/page/assets/{name.lower()}.LICENSE"), []))[1].append(name)
    out = sys.stdout
    out.reconfigure(encoding="utf-8")
    out.write("Licences of the software that is linked into haft\n\n")
    out.write("haft itself and what has Apache-2.0 behind it are under the Apache License 2.0, whose text is in LICENSE.\n\n")
    out.write("the standard library of Rust, wasi-libc: Apache-2.0\n")
    out.write("uPlot, marked: MIT\n")
    for crate in crates:
        out.write(f"{crate['name']} {crate['version']}: {' AND '.join(dict.fromkeys(chosen(crate['license'])))}\n")
    for text, users in sorted(by_text.values(), key=lambda value: (value[1], value[0])):
        out.write(f"\n{'-' * 80}\n{', '.join(dict.fromkeys(users))}\n\n{text}\n")


main(*sys.argv[1:])
