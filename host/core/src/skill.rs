//! Skills: what a package, a project or a person tells a model about doing certain things, in a folder with a `SKILL.md`
//! (<https://agentskills.io>). A model is told what each is called and for, and reads the rest when it needs it. Read as
//! text; nothing in it is obeyed here.

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

/// The file, at the top of a skill's folder.
pub const FILE: &str = "SKILL.md";

/// Bytes of a file of a skill that is read at all.
pub const MAX_FILE: u64 = 256 << 10;

/// Characters of a name, as the format has it.
const MAX_NAME: usize = 64;

/// Characters of a description, as the format has it.
const MAX_DESCRIPTION: usize = 1024;

/// Characters of a line of its text that stands for a description.
const MAX_LINE: usize = 200;

/// What a model is told of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// What it is called; what its folder or package is called where it does not say.
    pub name: String,
    /// What it is for, on one line: what its head says, else the first line of its text; may be empty.
    pub description: String,
}

/// The files of a skill, which are read when a model asks for them.
pub trait SkillFiles: fmt::Debug + Send + Sync {
    /// The bytes of the file `path`, written as [`Self::list`] has it; fails where it has more than [`MAX_FILE`].
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;

    /// The paths of its files, in order; not more than `most`.
    fn list(&self, most: usize) -> io::Result<Vec<String>>;

    /// Where they are.
    fn folder(&self) -> &Path;
}

impl Skill {
    /// Reads the text of a SKILL.md. `name` and `description` stand at its top between two lines of
    /// `---`, where they stand anywhere.
    pub fn parse(text: &str, fallback: &str) -> Self {
        let (head, body) = head::split(text);
        let field = |key: &str, most| head::field(head, key).map(|value| line(&value, most));
        let first = || body.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
        let own_name = field("name", MAX_NAME).filter(|name| !name.is_empty());
        let own_description = field("description", MAX_DESCRIPTION).filter(|own| !own.is_empty());
        Self {
            name: own_name.unwrap_or_else(|| line(fallback, MAX_NAME)),
            description: own_description.unwrap_or_else(|| line(first().unwrap_or_default(), MAX_LINE)),
        }
    }
}

/// `text` on one line of at most `most` characters, with nothing hidden in it.
fn line(text: &str, most: usize) -> String {
    let words = plain(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    match words.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", words.get(..end).unwrap_or_default().trim_end()),
        None => words,
    }
}

/// What is said of a file that is too large to be read.
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
