//! What a model is told when the person configured nothing else. Short, because small models
//! follow three rules and forget ten (of those tried, these words are the ones with which a model of
//! 1.5 billion parameters ends its tasks instead of calling on for ever), and the same for every
//! run, because prompt caches live by that: no date, no list of tools.

use std::fmt::Write;
use std::path::Path;

use haft_core::skill::Skill;

/// The default system prompt.
pub fn system_prompt(workspace: Option<&Path>) -> String {
    let mut prompt = String::from(
        "You are a helpful agent. Do the user's task with the tools. If a call fails, read the error and change the \
         call. Do not make the same call twice. When you have the tools' output, answer the user in plain sentences.",
    );
    if let Some(workspace) = workspace {
        let line = format!("\nRelative paths start at the workspace: {}", workspace.display());
        prompt.push_str(&line);
    }
    prompt
}

/// Characters of all skills in a prompt: a tenth of what a small model reads at once.
const MAX_SKILLS: usize = 40_000;

/// The prompt with what installed packages tell the model: each skill by its name and what it is for, and
/// its text as long as there is room.
pub fn with_skills(mut prompt: String, skills: &[Skill]) -> String {
    let mut room = MAX_SKILLS;
    for (index, Skill { name, description, text }) in skills.iter().enumerate() {
        if index == 0 {
            prompt.push_str("\n\nHow to use what is installed:");
        }
        let colon = if description.is_empty() { "" } else { ": " };
        // Writing to a `String` cannot fail.
        let _ = write!(prompt, "\n\n## {name}{colon}{description}");
        if let Some(left) = room.checked_sub(text.chars().count()) {
            room = left;
            let _ = write!(prompt, "\n{text}");
        }
    }
    prompt
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PR12: every skill is named; texts are there as long as there is room.
    #[test]
    fn pr12_skills_follow_the_prompt_within_bounds() {
        assert_eq!(with_skills("Be good.".into(), &[]), "Be good.");
        let skill = |name: &str, description: &str, text: String| Skill {
            name: name.into(),
            description: description.into(),
            text,
        };
        let skills = [
            skill("pr", "Opens PRs", "Do.".into()),
            skill("long", "", "ä".repeat(MAX_SKILLS)),
            skill("last", "", "Done.".into()),
        ];
        let prompt = with_skills("Be good.".into(), &skills);
        let expected =
            "Be good.\n\nHow to use what is installed:\n\n## pr: Opens PRs\nDo.\n\n## long\n\n## last\nDone.";
        assert_eq!(prompt, expected);
    }

    #[test]
    fn the_prompt_is_short_and_names_the_workspace() {
        assert!(system_prompt(None).len() < 500);
        assert!(system_prompt(Some(Path::new("/w"))).ends_with("workspace: /w"));
    }
}
