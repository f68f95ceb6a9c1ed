//! `AGENTS.md`: the instructions of a project for agents, from the repository's root down to the workspace. Read as
//! text, within limits; nothing in it is executed here, and files that it names are not read.

use std::io;
use std::path::{Path, PathBuf};

use super::Project;
use crate::secret::Redactor;

/// The name of the file (<https://agents.md>).
pub const FILE: &str = "AGENTS.md";

/// The names of the file in a folder, by priority. The first one with content is read.
pub const FILES: [&str; 3] = ["AGENTS.override.md", FILE, "CLAUDE.md"];

/// The content of a file that only refers to `AGENTS.md`.
const REFERENCE: &str = "@AGENTS.md";

/// The maximum size of one file for a model in bytes: about 8,000 tokens, the largest limit of other agents.
pub const MAX_FILE: usize = 32 << 10;

/// The maximum size of all files in bytes: about 16,000 tokens.
pub const MAX_ALL: usize = 64 << 10;

/// The number of bytes read beyond the limit, so that a secret at the cut is complete for redaction.
const BEYOND: usize = 4 << 10;

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentsMd {
    /// The absolute path.
    pub path: PathBuf,
    /// The size of the file in bytes.
    pub size: u64,
    /// The text for a model, without secrets; empty if no room remains.
    pub text: String,
    /// Whether the text was shortened.
    pub is_cut: bool,
}

/// The files found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The files, the repository's root first: the nearest takes precedence.
    pub files: Vec<AgentsMd>,
    /// The files that could not be used, one line each, with the reason.
    pub problems: Vec<String>,
    /// Files with other content than the file that is used in their folder.
    pub passed_over: Vec<PathBuf>,
}

/// Reads one of [`FILES`] in each folder of `project`. If all have more than `most` bytes (at most [`MAX_ALL`]),
/// the nearest are used.
pub fn read(project: &Project, redactor: &Redactor, most: usize) -> Found {
    let (mut found, mut room) = (Found::default(), most.min(MAX_ALL));
    for folder in project.upwards() {
        let files: Vec<_> = FILES
            .iter()
            .filter_map(|name| read_there(project, &folder.join(name), redactor, &mut found.problems))
            .collect();
        let mut files = files.into_iter();
        let Some(first) = files.next() else { continue };
        let is_other = |file: &AgentsMd| file.text != first.text && file.text.trim() != REFERENCE;
        found.passed_over.extend(files.filter(is_other).map(|file| file.path));
        let used = within(first, room);
        room = room.saturating_sub(used.text.len());
        found.files.push(used);
    }
    found.files.reverse();
    found.passed_over.reverse();
    found
}

/// Reads a file, if it exists and has content.
fn read_there(
    project: &Project,
    inside: &Path,
    redactor: &Redactor,
    problems: &mut Vec<String>,
) -> Option<AgentsMd> {
    match read_one(project, inside, redactor) {
        Ok(file) => Some(file).filter(|file| !file.text.trim().is_empty() || file.is_cut),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            let path = project.path(inside);
            problems.push(format!("`{}` is not used: {error}", path.display()));
            None
        }
    }
}

/// Shortens the text of a file to `room` bytes.
fn within(file: AgentsMd, room: usize) -> AgentsMd {
    let end = file.text.floor_char_boundary(room);
    let is_cut = file.is_cut || end < file.text.len();
    let text = file.text.get(..end).unwrap_or_default().to_owned();
    AgentsMd { text, is_cut, ..file }
}

fn read_one(project: &Project, inside: &Path, redactor: &Redactor) -> io::Result<AgentsMd> {
    let content = project.folder()?.read(inside, (MAX_FILE + BEYOND) as u64)?;
    let text = String::from_utf8_lossy(&content.bytes);
    let text = redactor.redact(text.strip_prefix('\u{feff}').unwrap_or(&text)).into_owned();
    let is_all = content.bytes.len() as u64 >= content.size;
    let file = AgentsMd { path: project.path(inside), size: content.size, text, is_cut: !is_all };
    Ok(within(file, MAX_FILE))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use secrecy::SecretString;

    use super::*;
    use crate::grant::Root;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().canonicalize().unwrap();
        fs::create_dir_all(place.join("repo/.git")).unwrap();
        fs::create_dir_all(place.join("repo/a/b")).unwrap();
        (directory, place)
    }

    fn found(place: &Path) -> Found {
        let workspace = Root::resolve(place, Path::new("repo/a/b")).unwrap();
        let redactor = Redactor::default();
        redactor.add([&SecretString::from("sk-4711-0815-secret")]);
        read(&Project::around(&workspace).unwrap(), &redactor, MAX_ALL)
    }

    #[test]
    fn the_nearest_file_comes_last_and_holds_no_secret() {
        let (_directory, place) = place();
        fs::write(place.join(FILE), "beyond the repository").unwrap();
        fs::write(place.join("repo").join(FILE), "\u{feff}root").unwrap();
        fs::write(place.join("repo/a").join(FILE), " \n").unwrap();
        fs::write(place.join("repo/a/b").join(FILE), "near sk-4711-0815-secret\u{e4}").unwrap();
        let Found { files, problems, .. } = found(&place);
        let texts: Vec<_> = files.iter().map(|file| (file.text.as_str(), file.size, file.is_cut)).collect();
        assert_eq!(texts, [("root", 7, false), ("near ***\u{e4}", 26, false)]);
        assert_eq!(files[1].path, place.join("repo/a/b/AGENTS.md"));
        assert_eq!(problems, Vec::<String>::new());
    }

    /// U11: priorities as in other agents; ignored files are listed.
    #[test]
    fn one_file_of_a_folder_is_read_and_others_are_named() {
        let (_directory, place) = place();
        let write = |path: &str, text: &str| fs::write(place.join("repo").join(path), text).unwrap();
        write("AGENTS.override.md", "override");
        write("AGENTS.md", "base");
        write("CLAUDE.md", "@AGENTS.md\n");
        write("a/AGENTS.md", " \n");
        write("a/CLAUDE.md", "of Claude alone");
        write("a/b/AGENTS.md", "near");
        write("a/b/CLAUDE.md", "of Claude");
        let Found { files, problems, passed_over } = found(&place);
        let texts: Vec<_> = files.iter().map(|file| file.text.as_str()).collect();
        assert_eq!(texts, ["override", "of Claude alone", "near"]);
        let named: Vec<_> =
            passed_over.iter().map(|path| path.strip_prefix(place.join("repo")).unwrap()).collect();
        assert_eq!(named, [Path::new("AGENTS.md"), Path::new("a/b/CLAUDE.md")]);
        assert_eq!(problems, Vec::<String>::new());
    }

    #[test]
    fn what_is_long_is_cut_and_the_nearest_is_kept() {
        let (_directory, place) = place();
        let long = "\u{e4}".repeat(MAX_FILE);
        for folder in ["repo", "repo/a", "repo/a/b"] {
            fs::write(place.join(folder).join(FILE), &long).unwrap();
        }
        let files = found(&place).files;
        let sizes: Vec<_> = files.iter().map(|file| (file.text.len(), file.size, file.is_cut)).collect();
        let size = long.len() as u64;
        assert_eq!(sizes, [(0, size, true), (MAX_FILE, size, true), (MAX_FILE, size, true)]);
    }

    /// A secret across the cut leaves no part before it.
    #[test]
    fn a_secret_at_the_cut_is_left_out() {
        let (_directory, place) = place();
        let secret = "sk-4711-0815-secret";
        fs::write(place.join("repo").join(FILE), "x".repeat(MAX_FILE - 5) + secret + &"y".repeat(99))
            .unwrap();
        let text = found(&place).files.remove(0).text;
        assert!(text.ends_with("x***yy") && text.len() == MAX_FILE, "{}", text.len());
    }

    #[test]
    fn links_lead_nowhere_else_and_only_files_are_read() {
        let (_directory, place) = place();
        fs::write(place.join("secret"), "outside").unwrap();
        fs::write(place.join("repo/CLAUDE.md"), "inside").unwrap();
        symlink("CLAUDE.md", place.join("repo").join(FILE)).unwrap();
        symlink("../../secret", place.join("repo/a").join(FILE)).unwrap();
        fs::create_dir(place.join("repo/a/b").join(FILE)).unwrap();
        let Found { files, problems, passed_over } = found(&place);
        assert_eq!(passed_over, Vec::<PathBuf>::new(), "a link to it says the same");
        assert_eq!(files.iter().map(|file| file.text.as_str()).collect::<Vec<_>>(), ["inside"]);
        let named = |folder: &str, why: &str| {
            format!("`{}` is not used: {why}", place.join(folder).join(FILE).display())
        };
        let expected =
            [named("repo/a/b", "it is not a regular file"), named("repo/a", "it points outside the folder")];
        assert_eq!(problems, expected);
    }
}
