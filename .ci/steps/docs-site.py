"""The documentation as a site: what `.ci/steps/docs` does besides running mdBook.

    docs-site.py lay-out REPOSITORY FOLDER    the source of the book, with the folders that the repository has
    docs-site.py links SITE                   every link of every page of SITE, offline

Pages link to each other and to files of the repository by relative paths, which are right where the pages are
read beside the code; so the book has the same folders, and from the files what pages link to.
"""

import html.parser
import pathlib
import re
import shutil
import sys
import urllib.parse

LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
README = re.compile(r"(\]\((?:[^)\s]*/)?)README\.md")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def linked(page, text):
    """The files that a page links to."""
    for target in LINK.findall(FENCED.sub("", text)):
        if "://" not in target:
            yield (page.parent / target).resolve()


def chapters(repository):
    """The table of contents as mdBook has it, and the pages that it names."""
    summary = repository / "docs/SUMMARY.md"
    text = summary.read_text()
    pages = list(linked(summary, text))
    moved = LINK.sub(lambda link: f"]({(summary.parent / link[1]).resolve().relative_to(repository)})", text)
    return moved, pages


def lay_out(repository, folder):
    repository = repository.resolve()
    source = folder / "src"
    source.mkdir()
    shutil.copy(repository / "docs/book.toml", folder)
    contents, pages = chapters(repository)
    (source / "SUMMARY.md").write_text(contents)
    absent = set((repository / "docs").glob("*.md")) - set(pages) - {repository / "docs/SUMMARY.md"}
    if absent:
        sys.exit(f"docs/SUMMARY.md does not name {sorted(page.name for page in absent)}")
    files = {file for page in pages for file in linked(page, page.read_text())}
    for file in files | set(pages):
        place = source / file.relative_to(repository)
        place.parent.mkdir(parents=True, exist_ok=True)
        if file in pages:
            # mdBook calls the page of a folder's README `index`, and leaves links to it as they are.
            place.write_text(README.sub(r"\1index.md", file.read_text()))
        elif file.is_file():
            shutil.copy(file, place)


class Page(html.parser.HTMLParser):
    """What a page links to and what it can be linked to by."""

    def __init__(self, path):
        super().__init__()
        self.links, self.names = [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" or (name == "name" and tag == "a"):
                self.names.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def lost(site, pages, page, link):
    """Why a link of a page leads nowhere, if it does."""
    parts = urllib.parse.urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    path = urllib.parse.unquote(parts.path)
    target = (site / path.lstrip("/") if path.startswith("/") else page.parent / path).resolve() if path else page
    if target.is_dir():
        target = target / "index.html"
    if not target.is_file() or not target.is_relative_to(site):
        return "no such file"
    if parts.fragment and target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].names:
        return "no such part of the page"
    return None


def links(site):
    site = site.resolve()
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    found = [(page, link) for page, parsed in pages.items() for link in parsed.links]
    wrong = [(page, link, why) for page, link in found if (why := lost(site, pages, page, link))]
    for page, link, why in wrong:
        print(f"{page.relative_to(site)}: {link}: {why}", file=sys.stderr)
    if wrong or not found:
        sys.exit(f"{len(wrong)} of {len(found)} links lead nowhere")
    print(f"{len(found)} links on {len(pages)} pages lead somewhere")


def main():
    match sys.argv[1:]:
        case ["lay-out", repository, folder]:
            lay_out(pathlib.Path(repository), pathlib.Path(folder))
        case ["links", site]:
            links(pathlib.Path(site))
        case _:
            sys.exit(__doc__)


main()
