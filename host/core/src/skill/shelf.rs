//! The skills that a model can read, by name. Of two skills with the same name the first is kept, and the other is
//! reported.

use std::sync::Arc;

use super::{Skill, SkillFiles};

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
}

/// The skills, in the order in which a model sees them.
#[derive(Clone, Debug, Default)]
pub struct Shelf {
    skills: Vec<Shelved>,
    problems: Vec<String>,
}

impl Shelf {
    /// Appends a skill. Earlier skills of the same name stay, and so do the first [`MAX_SKILLS`].
    pub fn put(&mut self, new: Shelved) {
        let name = &new.skill.name;
        // The same folder, found twice.
        if self.skills.iter().any(|known| known.files.folder() == new.files.folder()) {
            return;
        }
        if let Some(known) = self.find(name) {
            self.problem(format!(
                "the skill `{name}` of {} is left out: {} has one of that name, which is nearer",
                new.origin, known.origin
            ));
        } else if self.skills.len() == MAX_SKILLS {
            self.problem(format!(
                "the skill `{name}` of {} is left out: there are {MAX_SKILLS} already",
                new.origin
            ));
        } else {
            self.skills.push(new);
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

    /// Returns the problems with skills that are left out or not read completely.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Whether there are no skills.
    pub fn is_empty(&self) -> bool {
        self.skills.is_empty()
    }
}
