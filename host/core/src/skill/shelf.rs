//! The skills that a model is told of, by name. Of two with one name the first is kept, and that is said.

use std::sync::Arc;

use super::{Skill, SkillFiles};

/// Skills in all. A model that is told of more chooses none well.
pub const MAX_SKILLS: usize = 100;

/// A skill with where it is.
#[derive(Clone, Debug)]
pub struct Shelved {
    /// What a model is told of it.
    pub skill: Skill,
    /// Where it comes from, for people.
    pub origin: String,
    /// Its files.
    pub files: Arc<dyn SkillFiles>,
}

/// Skills, in the order in which a model is told of them.
#[derive(Clone, Debug, Default)]
pub struct Shelf {
    skills: Vec<Shelved>,
    problems: Vec<String>,
}

impl Shelf {
    /// Puts a skill behind those that are there. One of the same name stays, and so do the first [`MAX_SKILLS`].
    pub fn put(&mut self, new: Shelved) {
        let name = &new.skill.name;
        // The same folder, found in two ways.
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

    /// Notes what is wrong with a skill, on one line.
    pub fn problem(&mut self, text: String) {
        self.problems.push(text);
    }

    /// The skill of this name, which capitals do not change.
    pub fn find(&self, name: &str) -> Option<&Shelved> {
        self.skills.iter().find(|known| known.skill.name.eq_ignore_ascii_case(name.trim()))
    }

    /// The skills.
    pub fn skills(&self) -> &[Shelved] {
        &self.skills
    }

    /// What is wrong with skills that are left out or not read in full.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.skills.is_empty()
    }
}
