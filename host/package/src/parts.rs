//! Which files of a folder belong to the package in it: what program.toml names, what those files name
//! in turn, and what people and models read. One selection for `haft add FOLDER` and `haft pack`; what
//! merely lies there is no part of it.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Component as Part, Path};

use haft_core::skill;
use haft_manifest::{Component, Manifest, Transport};

/// Files that belong to a package where they are there: what a model and a person read.
const READ: &[&str] = &[skill::FILE, "README.md", "README", "README.txt", "CHANGELOG.md"];

/// The same of whatever ending: `LICENSE-MIT`, `NOTICE.txt`.
const TERMS: &[&str] = &["LICENSE", "LICENCE", "COPYING", "NOTICE"];

/// The folder of programs and data that command tools bring along.
const PROGRAMS: &str = "bin";

/// Folders that are no part of what is handed out: histories, and what tools can make again.
const LEFT_OUT: &[&str] = &[".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules", "target"];

/// The file that haft keeps beside a program.toml of its own.
const LOCK: &str = "program.lock";

/// Bytes of a file that is searched for names of others: a long script.
const MAX_SEARCHED: u64 = 256 << 10;

/// Folders above one another; what installs a package takes no more.
const MAX_DEPTH: usize = 32;

/// Entries of one folder, and files of one package; what installs it takes no more.
const MAX_FILES: usize = 10_000;

/// Words that are looked up as names of files: a hundred for each file of a large package. More are filler.
const MAX_NAMES: usize = 100_000;

/// The paths of the files of `folder` that belong to the package `manifest`, their parts joined by `/`. Named files
/// that do not exist are included: reading them reports the error.
pub fn parts(folder: &Path, manifest: &Manifest) -> BTreeSet<String> {
    let mut search =
        Search { folder, found: BTreeSet::new(), unread: Vec::new(), looked_up: BTreeSet::new() };
    search.file(super::inventory::MANIFEST);
    for plugin in &manifest.plugins {
        if let Component::File(path) = &plugin.component.value {
            search.named(&path.to_string_lossy());
        }
    }
    search.commands(manifest);
    search.texts();
    search.tree(PROGRAMS, MAX_DEPTH);
    for path in manifest.program.iter().flat_map(|program| &program.include) {
        search.whole(path);
    }
    search.references();
    search.found
}

/// Whether something of this name, in the folder `inside` of a package, is never a part of it.
pub(super) fn is_left_out(name: &str, is_folder: bool, inside: &str) -> bool {
    // A worktree of git has a file of that name.
    let is_history = is_folder || name == ".git";
    let is_ours = inside.is_empty() && name == LOCK;
    is_ours || is_history && LEFT_OUT.contains(&name)
}

struct Search<'a> {
    folder: &'a Path,
    found: BTreeSet<String>,
    /// Files that may name others, and were not searched yet.
    unread: Vec<String>,
    /// Paths that a text named, there or not.
    looked_up: BTreeSet<String>,
}

impl Search<'_> {
    /// Adds a file; the code that opens it decides whether it may be read.
    fn file(&mut self, path: &str) -> bool {
        let found = self.folder.join(path).symlink_metadata();
        let is_there = found.is_ok_and(|found| !found.is_dir()) && self.has_no_link_above(path);
        if is_there && self.found.len() < MAX_FILES {
            self.found.insert(path.to_owned());
        }
        is_there
    }

    fn is_folder(&self, path: &str) -> bool {
        self.folder.join(path).symlink_metadata().is_ok_and(|found| found.is_dir())
    }

    /// Whether the folders above `path` are folders: what lies behind a link lies elsewhere.
    fn has_no_link_above(&self, path: &str) -> bool {
        path.match_indices('/').all(|(at, _)| path.get(..at).is_some_and(|above| self.is_folder(above)))
    }

    /// Takes in a file that is named; nothing where the name leads elsewhere.
    fn named(&mut self, written: &str) -> Option<String> {
        let parts = Path::new(written).components().filter(|part| *part != Part::CurDir);
        let names = parts.map(|part| match part {
            Part::Normal(name) => name.to_str(),
            _ => None,
        });
        let path = names.collect::<Option<Vec<&str>>>()?.join("/");
        (path != LOCK && self.file(&path)).then_some(path)
    }

    /// The files that command lines name. A program that lies in a folder of its own comes with that folder.
    fn commands(&mut self, manifest: &Manifest) {
        let tools = manifest.tools.iter().map(|tool| &tool.command.value);
        let servers = manifest.mcp_servers.iter().filter_map(|server| match &server.transport {
            Transport::Stdio { command, .. } => Some(&command.value),
            Transport::Http { .. } => None,
        });
        for word in tools.chain(servers).flatten().filter(|word| is_path(word)) {
            let Some(path) = self.named(word) else { continue };
            if let Some((folder, _)) = path.rsplit_once('/') {
                self.tree(folder, MAX_DEPTH);
            }
            self.unread.push(path);
        }
    }

    /// What people and models read.
    fn texts(&mut self) {
        for name in READ.iter().filter(|name| **name != skill::FILE) {
            self.file(name);
        }
        if self.file(skill::FILE) {
            self.unread.push(skill::FILE.to_owned());
        }
        let is_terms = |name: &&String| TERMS.iter().any(|term| name.starts_with(term));
        for name in names(&self.folder.join("")).iter().filter(is_terms) {
            self.file(name);
        }
    }

    /// A file, or a folder with all that is in it.
    fn whole(&mut self, path: &str) {
        if self.is_folder(path) {
            self.tree(path, MAX_DEPTH);
        } else if !self.found.contains(path) && self.file(path) {
            self.unread.push(path.to_owned());
        }
    }

    /// The files of a folder. Hidden files hold settings and secrets, and are no part of a package.
    fn tree(&mut self, path: &str, depth: usize) {
        if depth == 0 || !self.is_folder(path) || !self.has_no_link_above(path) {
            return;
        }
        for name in names(&self.folder.join(path)) {
            let inner = format!("{path}/{name}");
            let is_folder = self.is_folder(&inner);
            if name.starts_with('.') || is_left_out(&name, is_folder, path) {
                continue;
            }
            if is_folder {
                self.tree(&inner, depth - 1);
            } else {
                self.whole(&inner);
            }
        }
    }

    /// The files that those found so far name, and so on: a path that stands in a text as a word, as seen
    /// from the top of the package or from beside the text.
    fn references(&mut self) {
        while let Some(path) = self.unread.pop() {
            let Some(text) = self.read(&path) else { continue };
            let beside = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            for word in words(&text).filter(|word| is_path(word)) {
                for folder in [beside, ""] {
                    let Some(named) = inside(folder, word) else { continue };
                    let is_folder = word.ends_with('/');
                    let key = if is_folder { format!("{named}/") } else { named.clone() };
                    if self.looked_up.len() >= MAX_NAMES || !self.looked_up.insert(key) {
                        continue;
                    }
                    // `references/` names a folder; a bare word that happens to be one does not, and a link is never
                    // included.
                    let found = self.folder.join(&named).symlink_metadata();
                    if found.is_ok_and(|found| found.is_file() || found.is_dir() && is_folder) {
                        self.whole(&named);
                    }
                }
            }
        }
    }

    fn read(&self, path: &str) -> Option<String> {
        let file = super::listing::open(&self.folder.join(path)).ok()?;
        let mut bytes = Vec::new();
        file.take(MAX_SEARCHED + 1).read_to_end(&mut bytes).ok()?;
        if bytes.len() as u64 > MAX_SEARCHED { None } else { String::from_utf8(bytes).ok() }
    }
}

/// What may be a path in a text for a shell, an interpreter or a person.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_between = |c: char| c.is_whitespace() || "\"'`()[]{}<>|;,=$#&*!?".contains(c);
    text.split(is_between).map(|word| word.trim_end_matches(['.', ':'])).filter(|word| !word.is_empty())
}

fn is_path(word: &str) -> bool {
    word.contains(['/', '.']) && !word.contains("://")
}

/// `written`, as seen from `folder`, as a path within the package; nothing where it leads out of it. What a
/// script puts before it (`$(dirname "$0")/../x`) is not known, so that `/` and `..` in front say nothing.
fn inside(folder: &str, written: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in Path::new(written).components() {
        match part {
            Part::Normal(name) => parts.push(name.to_str()?),
            Part::ParentDir => drop(parts.pop()),
            Part::CurDir | Part::RootDir => {}
            Part::Prefix(_) => return None,
        }
    }
    let path = parts.join("/");
    let is_hidden = parts.iter().any(|part| part.starts_with('.') || LEFT_OUT.contains(part));
    (!path.is_empty() && !is_hidden && path != LOCK).then_some(path)
}

/// The names in a folder, in order; those that are not UTF-8 no package can have.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().take(MAX_FILES).flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PROGRAM: &str = "[program]\nname = \"a\"\nversion = \"1.0.0\"\ninclude = [\"templates\", \"one.txt\"]\n\
        [[plugins]]\nname = \"w\"\ncomponent = \"w.wasm\"\n\
        [[tools]]\nname = \"t\"\ndescription = \"d\"\ncommand = \"./run\"\n\
        [[mcp_servers]]\nname = \"s\"\ncommand = \"node\"\nargs = [\"./server/index.js\"]\n";

    /// S10: what is declared and what that names; nothing that merely lies there.
    #[test]
    fn s10_only_what_belongs_to_a_package_is_its_part() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("program.toml", PROGRAM);
        write("run", "#!/bin/sh\n. \"$(dirname \"$0\")/../library.sh\"\n");
        write("library.sh", "cat data/more.txt\n");
        write("SKILL.md", "See [how](references/how.md), `scripts/`, and not secret.\n");
        for name in [
            "w.wasm",
            "data/more.txt",
            "data/other.txt",
            "server/index.js",
            "server/lib.js",
            "server/.env",
            "server/node_modules/x.js",
            "references/how.md",
            "references/other.md",
            "scripts/a.py",
            "scripts/deep/b.py",
            "templates/t",
            "one.txt",
            "bin/tool",
            "LICENSE-MIT",
            "README.md",
            "secret",
            ".env",
            "notes.txt",
            "program.lock",
            "src/main.rs",
        ] {
            write(name, "");
        }
        // Nothing is reached through a link, wherever it leads.
        std::os::unix::fs::symlink("src", directory.path().join("linked")).unwrap();
        write("data/more.txt", "linked/main.rs linked/ ../../etc/passwd /etc/passwd");
        let manifest = Manifest::load(&directory.path().join("program.toml")).unwrap();
        let expected = [
            "LICENSE-MIT",
            "README.md",
            "SKILL.md",
            "bin/tool",
            "data/more.txt",
            "library.sh",
            "one.txt",
            "program.toml",
            "references/how.md",
            "run",
            "scripts/a.py",
            "scripts/deep/b.py",
            "server/index.js",
            "server/lib.js",
            "templates/t",
            "w.wasm",
        ];
        assert_eq!(parts(directory.path(), &manifest).into_iter().collect::<Vec<_>>(), expected);
    }
}
