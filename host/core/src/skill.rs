//! Skills: instructions of a package, a project or a person for certain tasks, in a folder with a `SKILL.md`
//! (<https://agentskills.io>), and the shelf of skills that a model can read by name. A model gets names and
//! descriptions, and reads the rest when needed. haft reads skills as text and executes nothing in them.

mod find;
mod head;
mod offer;
mod read_skill;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use crate::grant::{Folder, Kind, Root};
use crate::report::plain;

pub use self::find::{of_folder, of_person, of_project};
pub use self::head::{check_name, frontmatter, head_field, head_fields, is_server_key, server_keys};
pub use self::offer::{MAX_BYTES, MAX_FILES, SkillOffer};
pub use self::read_skill::ReadSkill;

/// The name of the file at the top of a skill's folder.
pub const FILE: &str = "SKILL.md";

/// The maximum size in bytes of a file of a skill.
pub const MAX_FILE: u64 = 256 << 10;

/// The maximum number of characters of a name: the limit of the format.
const MAX_NAME: usize = 64;

/// The maximum number of characters of a description: the limit of the format.
pub const MAX_DESCRIPTION: usize = 1024;

/// The maximum number of characters of a line of the text that replaces a missing description.
const MAX_LINE: usize = 200;

/// The name and description of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// The name; if missing, the name of the folder or package.
    pub name: String,
    /// The description on one line, from the head or the first line of the text; may be empty.
    pub description: String,
}

/// The files of a skill, which are read on request of a model.
pub trait SkillFiles: fmt::Debug + Send + Sync {
    /// Reads the file `path`, in the form of [`Self::list`].
    ///
    /// # Errors
    /// The file cannot be read, or has more than `most` bytes.
    fn read(&self, path: &str, most: u64) -> io::Result<Vec<u8>>;

    /// Returns the paths of the files, sorted, at most `most`.
    fn list(&self, most: usize) -> io::Result<Vec<String>>;

    /// Returns the folder; `None` for a skill that is on no disk of this machine.
    fn folder(&self) -> Option<&Path>;
}

impl Skill {
    /// Reads the text of a SKILL.md. `name` and `description` are in the head between two lines of `---`, if there
    /// is one.
    pub fn parse(text: &str, fallback: &str) -> Self {
        let (head, body) = head::split(text);
        let field = |key: &str, most| head::field(head, key).map(|value| line(&value, most));
        let first = || body.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
        let own_name = field("name", MAX_NAME).filter(|name| !name.is_empty());
        let own_description =
            field("description", MAX_DESCRIPTION).filter(|description| !description.is_empty());
        Self {
            name: own_name.unwrap_or_else(|| line(fallback, MAX_NAME)),
            description: own_description.unwrap_or_else(|| line(first().unwrap_or_default(), MAX_LINE)),
        }
    }

    /// Returns a skill with the name and the description that another program states.
    pub fn described(name: &str, description: &str) -> Self {
        Self { name: plain(name), description: line(description, MAX_DESCRIPTION) }
    }
}

/// Returns `text` on one line of at most `most` characters, without hidden characters.
fn line(text: &str, most: usize) -> String {
    let words = plain(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    match words.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", words.get(..end).unwrap_or_default().trim_end()),
        None => words,
    }
}

/// Returns the error for a file of which more than `most` bytes would be read.
pub fn too_large(size: u64, most: u64) -> io::Error {
    let text = format!("it has {size} bytes; the limit is {most}");
    io::Error::new(io::ErrorKind::FileTooLarge, text)
}

/// The maximum number of skills. With more, models choose badly.
pub const MAX_SKILLS: usize = 100;

/// A skill with its files.
#[derive(Clone, Debug)]
pub struct Shelved {
    /// The name and description.
    pub skill: Skill,
    /// The origin, for people.
    pub origin: String,
    /// The files.
    pub files: Arc<dyn SkillFiles>,
    /// The tool that runs the skill's scripts, if they have rights of their own: no other tool reaches them.
    pub scripts: Option<String>,
    /// Name prefixes of the skill's tools: of MCP servers that its head names, and of components.
    pub tools: Vec<String>,
}

/// The skills, in the order in which a model sees them.
#[derive(Clone, Debug, Default)]
pub struct Shelf {
    skills: Vec<Shelved>,
    problems: Vec<String>,
}

impl Shelf {
    /// Returns the skills for which `is_chosen` holds.
    #[must_use]
    pub fn only(&self, is_chosen: impl FnMut(&Shelved) -> bool) -> Self {
        let mut chosen = self.clone();
        chosen.skills.retain(is_chosen);
        chosen
    }

    /// Appends a skill. Earlier skills with its name stay, and so do the first [`MAX_SKILLS`].
    pub fn put(&mut self, new: Shelved) {
        let name = &new.skill.name;
        // Found twice.
        let folder = new.files.folder();
        if folder.is_some() && self.skills.iter().any(|known| known.files.folder() == folder) {
            return;
        }
        if let Some(known) = self.find(name) {
            self.problem(format!(
                "the skill `{name}` of {} is left out: {} has a skill of this name and takes precedence",
                new.origin, known.origin
            ));
        } else if self.skills.len() == MAX_SKILLS {
            self.problem(format!(
                "the skill `{name}` of {} is left out: the limit of {MAX_SKILLS} skills is reached",
                new.origin
            ));
        } else {
            self.skills.push(new);
        }
    }

    /// Sets the name prefixes of the tools of each skill.
    pub fn set_tools(&mut self, of: impl Fn(&Shelved) -> Vec<String>) {
        for skill in &mut self.skills {
            skill.tools = of(skill);
        }
    }

    /// Records a problem with a skill, on one line.
    pub fn problem(&mut self, text: String) {
        self.problems.push(text);
    }

    /// Returns the skill of this name, ignoring case.
    pub fn find(&self, name: &str) -> Option<&Shelved> {
        self.skills.iter().find(|known| known.skill.name.eq_ignore_ascii_case(name.trim()))
    }

    /// Returns the skills.
    pub fn skills(&self) -> &[Shelved] {
        &self.skills
    }

    /// Returns the problems with skills that are omitted or not read completely.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Returns whether there are no skills.
    pub fn is_empty(&self) -> bool {
        self.skills.is_empty()
    }
}

// A skill in a folder of a project or a person. Reads only files below that folder.

/// The maximum number of entries read in a folder of a skill.
const MAX_ENTRIES: usize = 1000;

/// The maximum depth of listed folders.
const MAX_DEPTH: usize = 4;

/// The folder of a skill.
#[derive(Clone, Debug)]
pub struct SkillFolder {
    /// The root that symbolic links must not leave.
    root: Root,
    /// The path of the folder, relative to the root.
    inside: PathBuf,
    path: PathBuf,
}

impl SkillFolder {
    /// Creates the skill folder `inside` below `root`.
    pub fn new(root: Root, inside: &Path) -> Self {
        // Joining an empty path would add a trailing slash.
        let path = root.real().join(inside).components().collect();
        Self { root, inside: inside.to_owned(), path }
    }

    fn open(&self) -> io::Result<Folder> {
        let root = self.root.folder()?;
        let folder = root.enter(&self.inside)?;
        // A symbolic link to an enclosing folder would make everything in it a part of the skill.
        for around in self.inside.ancestors().skip(1) {
            if folder.is_same(&root.enter(around)?)? {
                return Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    "it points to one of its parent folders",
                ));
            }
        }
        Ok(folder)
    }

    /// Reads the text of the SKILL.md.
    fn text(&self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.read(FILE, MAX_FILE)?).into_owned())
    }
}

impl SkillFiles for SkillFolder {
    fn read(&self, path: &str, most: u64) -> io::Result<Vec<u8>> {
        let content = self.open()?.read(Path::new(path), most)?;
        if content.size > most { Err(too_large(content.size, most)) } else { Ok(content.bytes) }
    }

    fn list(&self, most: usize) -> io::Result<Vec<String>> {
        let mut all = Vec::new();
        list(&self.open()?, "", MAX_DEPTH, most, &mut all)?;
        Ok(all)
    }

    fn folder(&self) -> Option<&Path> {
        Some(&self.path)
    }
}

/// Adds the files of a folder to `all`, without hidden files, symbolic links and names that are not UTF-8.
fn list(folder: &Folder, before: &str, depth: usize, most: usize, all: &mut Vec<String>) -> io::Result<()> {
    for entry in folder.list(MAX_ENTRIES)? {
        let Some(name) = entry.name.to_str().filter(|name| !name.starts_with('.')) else { continue };
        let path = format!("{before}{name}");
        match entry.kind {
            Kind::File if all.len() < most => all.push(path),
            Kind::Folder if depth > 0 && all.len() < most => {
                list(&folder.enter(Path::new(name))?, &format!("{path}/"), depth - 1, most, all)?;
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn skill(name: &str, description: &str) -> Skill {
        Skill { name: name.into(), description: description.into() }
    }

    /// PR12: with and without a head.
    #[test]
    fn a_skill_is_told_by_its_head() {
        let text = "---\nname: pr\ndescription: \"Open PRs\"\n---\n\n# How\nDo.\n";
        assert_eq!(Skill::parse(text, "github"), skill("pr", "Open PRs"));
        assert_eq!(
            Skill::parse("# Title\n\n Do it.\n---\nname: x\n---\n", "github"),
            skill("github", "Do it.")
        );
        assert_eq!(Skill::parse("---\nname: x", "github"), skill("github", "---"));
        assert_eq!(Skill::parse("", "github"), skill("github", ""));
    }

    #[test]
    fn what_is_told_is_one_line_within_bounds() {
        let long = "wörd ".repeat(MAX_DESCRIPTION);
        let text = format!("---\nname: a\u{202e}b\ndescription: >\n  {long}\n  more\n---\n");
        let Skill { name, description } = Skill::parse(&text, "p");
        assert_eq!(name, "a\u{fffd}b");
        assert!(description.chars().count() <= MAX_DESCRIPTION + 1 && description.ends_with('…'));
    }

    #[test]
    fn files_are_listed_and_read_below_the_folder_alone() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().canonicalize().unwrap();
        fs::create_dir_all(place.join("pdf/references")).unwrap();
        for (file, text) in [("SKILL.md", "Do."), ("references/how.md", "So."), (".hidden", "x")] {
            fs::write(place.join("pdf").join(file), text).unwrap();
        }
        fs::write(place.join("large"), vec![b'x'; 300 << 10]).unwrap();
        fs::copy(place.join("large"), place.join("pdf/large")).unwrap();
        std::os::unix::fs::symlink("../large", place.join("pdf/link")).unwrap();
        let folder = SkillFolder::new(Root::resolve(&place, Path::new(".")).unwrap(), Path::new("pdf"));
        assert_eq!(folder.list(9).unwrap(), ["SKILL.md", "large", "references/how.md"]);
        assert_eq!(folder.list(1).unwrap(), ["SKILL.md"]);
        assert_eq!(folder.text().unwrap(), "Do.");
        assert_eq!(folder.read("references/how.md", MAX_FILE).unwrap(), b"So.");
        assert_eq!(folder.folder(), Some(&*place.join("pdf")));
        let failed = |path: &str| folder.read(path, MAX_FILE).unwrap_err().to_string();
        assert_eq!(failed("large"), "it has 307200 bytes; the limit is 262144");
        for path in ["link", "../large", "/etc/passwd"] {
            assert_eq!(failed(path), "it points outside the folder", "{path}");
        }
    }

    #[test]
    fn a_link_makes_no_skill_of_what_lies_around_it() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().canonicalize().unwrap();
        fs::create_dir_all(place.join("sub/skills")).unwrap();
        fs::create_dir_all(place.join("other")).unwrap();
        fs::write(place.join("SKILL.md"), "All.").unwrap();
        fs::write(place.join("sub/SKILL.md"), "All.").unwrap();
        fs::write(place.join("other/SKILL.md"), "Other.").unwrap();
        let linked = |to: &str| {
            let link = place.join("sub/skills/x");
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(to, &link).unwrap();
            let root = Root::resolve(&place, Path::new(".")).unwrap();
            SkillFolder::new(root, Path::new("sub/skills/x")).text().map_err(|error| error.to_string())
        };
        assert_eq!(linked("../../other"), Ok("Other.".to_owned()));
        for around in ["../..", "..", "."] {
            assert_eq!(linked(around), Err("it points to one of its parent folders".to_owned()), "{around}");
        }
    }
}
