//! Selects the files of a folder that belong to the package in it: those that program.toml names, those that these
//! files name in turn, and texts for people and models. `haft add FOLDER` and `haft plugin pack` share this
//! selection, which ignores all other files.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Component as Part, Path};

use haft_core::skill;
use haft_manifest::{Component, Manifest};

/// Files that belong to a package if they exist: texts for models and people.
const READ: &[&str] = &[skill::FILE, "README.md", "README", "README.txt", "CHANGELOG.md"];

/// Prefixes of files that belong to a package if they exist: `LICENSE-MIT`, `NOTICE.txt`.
const TERMS: &[&str] = &["LICENSE", "LICENCE", "COPYING", "NOTICE"];

/// The folder of the programs and data of command tools.
const PROGRAMS: &str = "bin";

/// Folders that are never distributed: version control data and generated files.
const LEFT_OUT: &[&str] = &[".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules", "target"];

/// haft's lock file beside a program.toml.
const LOCK: &str = "program.lock";

/// Limit on the bytes of a file that is searched for file names: a long script.
const MAX_SEARCHED: u64 = 256 << 10;

/// Limit on the depth of folders; the installer has the same limit.
const MAX_DEPTH: usize = 32;

/// Limit on the entries of one folder and the files of one package; the installer has the same limit.
const MAX_FILES: usize = 10_000;

/// Limit on the words that are looked up as file names: a hundred for each file of a large package.
const MAX_NAMES: usize = 100_000;

/// Returns the paths of the files of `folder` that belong to the package `manifest`, with `/` as separator.
/// Named files that do not exist are included: reading them reports the error.
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

/// Reports whether an entry `name` in the folder `inside` of a package is never part of it.
pub(super) fn is_left_out(name: &str, is_folder: bool, inside: &str) -> bool {
    // A git worktree has `.git` as a file.
    let is_history = is_folder || name == ".git";
    let is_ours = inside.is_empty() && name == LOCK;
    is_ours || is_history && LEFT_OUT.contains(&name)
}

struct Search<'a> {
    folder: &'a Path,
    found: BTreeSet<String>,
    /// Files that may name others and were not searched yet.
    unread: Vec<String>,
    /// Paths that a text named, existing or not.
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

    /// Reports whether all parents of `path` are folders and not links: a link points outside the package.
    fn has_no_link_above(&self, path: &str) -> bool {
        path.match_indices('/').all(|(at, _)| path.get(..at).is_some_and(|above| self.is_folder(above)))
    }

    /// Adds a named file; returns `None` if the path points outside the package.
    fn named(&mut self, written: &str) -> Option<String> {
        let path = super::listing::relative(Path::new(written))?;
        (path != LOCK && self.file(&path)).then_some(path)
    }

    /// Adds the files that command lines name. A program in a subfolder is added with the complete folder.
    fn commands(&mut self, manifest: &Manifest) {
        for word in manifest.commands().flatten().filter(|word| is_path(word)) {
            let Some(path) = self.named(word) else { continue };
            if let Some((folder, _)) = path.rsplit_once('/') {
                self.tree(folder, MAX_DEPTH);
            }
            self.unread.push(path);
        }
    }

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

    fn whole(&mut self, path: &str) {
        if self.is_folder(path) {
            self.tree(path, MAX_DEPTH);
        } else if !self.found.contains(path) && self.file(path) {
            self.unread.push(path.to_owned());
        }
    }

    /// Adds the files of a folder. Hidden files hold settings and secrets, and are not part of a package.
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

    /// Adds the files that the found files name, recursively: each word of a text that is a path, relative to
    /// the package or to the text.
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
                    // `references/` names a folder; a bare word does not, even if such a folder exists, and a
                    // link is never included.
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

/// Splits a text for a shell, an interpreter or a person into possible paths.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_between = |c: char| c.is_whitespace() || "\"'`()[]{}<>|;,=$#&*!?".contains(c);
    text.split(is_between).map(|word| word.trim_end_matches(['.', ':'])).filter(|word| !word.is_empty())
}

fn is_path(word: &str) -> bool {
    word.contains(['/', '.']) && !word.contains("://")
}

/// Resolves `written` relative to `folder` within the package; `None` for a path to the outside. The prefix that a
/// script adds (`$(dirname "$0")/../x`) is unknown, so that a leading `/` or `..` is ignored.
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

/// Returns the names in a folder, sorted; skips names that are not UTF-8, which no package may have.
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

    /// S10: the parts are the declared files and the files that these name, and no others.
    #[test]
    fn only_what_belongs_to_a_package_is_its_part() {
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
        // A link is not followed, regardless of its target.
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
