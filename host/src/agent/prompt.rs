//! What a model is told when the person configured nothing else. Short, because small models
//! follow three rules and forget ten (of those tried, these words are the ones with which a model of
//! 1.5 billion parameters ends its tasks instead of calling on for ever), and the same for every
//! run, because prompt caches live by that: no date, no list of tools.

use std::path::Path;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_is_short_and_names_the_workspace() {
        assert!(system_prompt(None).len() < 500);
        assert!(system_prompt(Some(Path::new("/w"))).ends_with("workspace: /w"));
    }
}
