//! Skills: instructions of a package, a project or a person for certain tasks, in a folder with a `SKILL.md`
//! (<https://agentskills.io>). A model gets names and descriptions, and reads the rest when needed. Read as text;
//! nothing in it is executed here.

mod find;
mod folder;
mod head;
mod read_skill;
mod shelf;

use std::fmt;
use std::io;
use std::path::Path;

pub use self::find::{of_person, of_project};
pub use self::folder::SkillFolder;
pub use self::head::server_keys;
pub use self::read_skill::ReadSkill;
pub use self::shelf::{MAX_SKILLS, Shelf, Shelved};
use crate::report::plain;

/// The name of the file at the top of a skill's folder.
pub const FILE: &str = "SKILL.md";

/// The maximum size in bytes of a file of a skill.
pub const MAX_FILE: u64 = 256 << 10;

/// The maximum number of characters of a name: the limit of the format.
const MAX_NAME: usize = 64;

/// The maximum number of characters of a description: the limit of the format.
const MAX_DESCRIPTION: usize = 1024;

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

/// The files of a skill, which are read when a model asks for them.
pub trait SkillFiles: fmt::Debug + Send + Sync {
    /// Reads the file `path`, in the form of [`Self::list`].
    ///
    /// # Errors
    /// The file cannot be read, or has more than [`MAX_FILE`] bytes.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;

    /// Returns the paths of the files, sorted, at most `most`.
    fn list(&self, most: usize) -> io::Result<Vec<String>>;

    /// Returns the folder.
    fn folder(&self) -> &Path;
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
}

/// Returns `text` on one line of at most `most` characters, without hidden characters.
fn line(text: &str, most: usize) -> String {
    let words = plain(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    match words.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", words.get(..end).unwrap_or_default().trim_end()),
        None => words,
    }
}

/// Returns the error for a file that is too large.
pub fn too_large(size: u64) -> io::Error {
    let text = format!("it has {size} bytes, and at most {MAX_FILE} are read");
    io::Error::new(io::ErrorKind::FileTooLarge, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(name: &str, description: &str) -> Skill {
        Skill { name: name.into(), description: description.into() }
    }

    /// PR12: with and without a head.
    #[test]
    fn pr12_a_skill_is_told_by_its_head() {
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
}
