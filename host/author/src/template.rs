//! Creates a new project from a language's template. It is written to a temporary folder and then renamed, so
//! that it is complete or absent; existing files are never changed.

use std::fs::Permissions;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::bindings::write_changed;
use super::language::{File, Language, Style};
use haft_core::report::{Problem, Report};
use haft_manifest::Name;

/// The functions of the example, in every language.
pub(crate) const WORLD: File = File { path: "wit/world.wit", text: include_str!("templates/wit/world.wit") };

/// The tests of the example, in every language.
const TESTS: File = File { path: "tests/words.toml", text: include_str!("templates/tests.toml") };
const TESTS_SDK: File = File { path: "tests/words.toml", text: include_str!("templates/tests-sdk.toml") };

const PROGRAM: &str = include_str!("templates/program.toml");
const PROGRAM_SDK: &str = include_str!("templates/program-sdk.toml");

/// Keywords of WIT or of one of the languages, which cannot be names of projects.
const RESERVED: &str = "abstract as async await bool borrow break case catch char class const constructor continue core \
    crate def default defer del do dyn elif else enum error-context except export extern f32 f64 false \
    final finally flags fn for from func future global go goto haft if impl import in include int \
    interface is lambda let list local loop main map match mod move mut none not null option or own \
    package pass pub raise range record ref resource result return s16 s32 s64 s8 select self static \
    stream string struct super switch test tools trait true try tuple type typeof u16 u32 u64 u8 unsafe \
    use var variant void wasi where while with world yield";

/// A project's name, in the forms that the languages need.
#[derive(Clone, Debug)]
pub struct ProjectName {
    kebab: String,
}

impl ProjectName {
    /// Checks that `text` is a valid name of a plugin, in WIT and in every language.
    pub fn new(text: &str) -> Result<Self, Report> {
        let invalid = |why: String| Report::from(Problem::new(format!("invalid name `{text}`: {why}")));
        text.parse::<Name>().map_err(|error| invalid(error.to_string()))?;
        if !text.starts_with(|c: char| c.is_ascii_lowercase()) {
            return Err(invalid("a new plugin's name begins with a letter".to_owned()));
        }
        if text.split('-').any(str::is_empty) {
            return Err(invalid("words are joined by one `-`, without a `-` at the end".to_owned()));
        }
        if RESERVED.split(' ').any(|word| word == text) {
            let why = "the word is reserved in WIT or in a language";
            let problem = Problem::new(format!("invalid name `{text}`: {why}"));
            return Err(problem.hint(format!("choose another, such as `my-{text}`")).into());
        }
        Ok(Self { kebab: text.to_owned() })
    }

    /// Returns `my-plugin`.
    pub fn kebab(&self) -> &str {
        &self.kebab
    }

    /// Returns `my_plugin`.
    pub(crate) fn snake(&self) -> String {
        self.kebab.replace('-', "_")
    }

    /// Returns `MyPlugin`.
    pub(crate) fn pascal(&self) -> String {
        let word = |word: &str| {
            let mut letters = word.chars();
            letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect::<String>()
        };
        self.kebab.split('-').map(word).collect()
    }

    pub(crate) fn fill(&self, text: &str) -> String {
        text.replace("my-plugin", &self.kebab)
            .replace("my_plugin", &self.snake())
            .replace("MyPlugin", &self.pascal())
    }
}

/// Returns the files of a new project with their paths; `None` for a style that the language does not support.
pub fn files(language: &dyn Language, style: Style, name: &ProjectName) -> Option<Vec<(PathBuf, String)>> {
    let template = language.facts().template(style)?.files;
    let program = match style {
        Style::Typed => PROGRAM,
        Style::Sdk => PROGRAM_SDK,
    };
    let program = program.replace("LANGUAGE", language.facts().name);
    let common: &[File] = match style {
        Style::Typed => &[WORLD, TESTS],
        Style::Sdk => &[TESTS_SDK],
    };
    let mut files = vec![("program.toml".into(), name.fill(&program))];
    // The sdk is a separate library; its files do not contain the project's name.
    let is_project_file = |file: &File| !file.path.starts_with("sdk/");
    let text = |file: &File| if is_project_file(file) { name.fill(file.text) } else { file.text.to_owned() };
    files.extend(common.iter().chain(template).map(|file| (name.fill(file.path).into(), text(file))));
    Some(files)
}

/// Creates a project in the new folder `folder`; returns the paths of its files.
pub fn create(
    language: &dyn Language,
    style: Style,
    name: &ProjectName,
    folder: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    let files = files(language, style, name).ok_or_else(|| no_sdk(language))?;
    if folder.symlink_metadata().is_ok() {
        return Err(exists(folder));
    }
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent)
        .with_context(|| format!("cannot create folder `{}`", parent.display()))?;
    // The permissions of any new directory: the umask applies.
    let staged = tempfile::Builder::new()
        .prefix(".haft-new-")
        .permissions(Permissions::from_mode(0o777))
        .tempdir_in(parent)
        .with_context(|| format!("cannot create a folder in `{}`", parent.display()))?;
    for (path, text) in &files {
        write_changed(&staged.path().join(path), text.as_bytes())?;
    }
    let mut paths: Vec<PathBuf> = files.into_iter().map(|(path, _)| path).collect();
    if style == Style::Typed {
        for (path, bytes) in language.generated(&staged.path().join("wit"))? {
            write_changed(&staged.path().join(&path), &bytes)?;
            paths.push(path);
        }
    }
    match put(staged.path(), folder) {
        // The temporary folder was renamed, so there is nothing to remove.
        Ok(()) => drop(staged.keep()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(exists(folder)),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot create folder `{}`", folder.display()));
        }
    }
    Ok(paths)
}

fn no_sdk(language: &dyn Language) -> Report {
    let problem = Problem::new(format!("haft has no SDK for {}", language.facts().title));
    problem.hint("remove `--sdk`: typed functions need no SDK").into()
}

/// Renames a folder to a path that does not exist.
fn put(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system does not support `NOREPLACE`; a rename can only replace an empty folder.
        Err(Errno::INVAL | Errno::NOSYS) => std::fs::rename(from, to),
        moved => Ok(moved?),
    }
}

fn exists(folder: &Path) -> anyhow::Error {
    let problem = Problem::new(format!("`{}` exists already", folder.display()));
    Report::from(problem.hint("choose another name, or remove that folder; nothing was written")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_forms_that_languages_need() {
        let name = ProjectName::new("my-2nd-tool").unwrap();
        assert_eq!(
            (name.kebab(), name.snake().as_str(), name.pascal().as_str()),
            ("my-2nd-tool", "my_2nd_tool", "My2ndTool")
        );
        assert_eq!(
            name.fill("my-plugin my_plugin MyPlugin plugin"),
            "my-2nd-tool my_2nd_tool My2ndTool plugin"
        );
    }

    /// The project's name is also the name of its WIT package, so every accepted name must be valid there.
    #[test]
    fn every_name_is_one_in_wit_too() {
        for text in ["a", "a1", "tool-2", "x-y-z", "abstract-art", "list-files"] {
            let name = ProjectName::new(text).unwrap();
            let wit = name.fill(WORLD.text);
            let mut resolve = wit_parser::Resolve::default();
            resolve.push_str("world.wit", &wit).unwrap_or_else(|error| panic!("{text}: {error:#}"));
        }
        for text in ["", "A", "1a", "-a", "a-", "a--b", "a_b", "list", "async", "haft", "ä"] {
            assert!(ProjectName::new(text).is_err(), "{text}");
        }
    }

    #[test]
    fn nothing_that_is_there_is_touched() {
        let folder = tempfile::tempdir().unwrap();
        let (name, c) = (ProjectName::new("x").unwrap(), crate::language::find("c").unwrap());
        let place = folder.path().join("x");
        std::os::unix::fs::symlink("nowhere", &place).unwrap();
        assert!(create(c, Style::Typed, &name, &place).is_err(), "not even a link to nothing");
        std::fs::remove_file(&place).unwrap();
        create(c, Style::Typed, &name, &folder.path().join("new/x")).unwrap();
        let names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["new"], "and nothing is left of it");
    }
}
