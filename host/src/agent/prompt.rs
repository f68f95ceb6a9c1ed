//! What a model is told when the person configured nothing else. Short, because small models
//! follow three rules and forget ten, and the same for every run, because prompt caches live
//! by that: no date, no list of tools.

use std::path::Path;

/// The default system prompt.
pub fn system_prompt(workspace: Option<&Path>) -> String {
    let mut prompt = String::from(
        "You are a careful agent that works with tools. Call a tool when you need to look something up or \
         change something; never guess what a tool would say. If a call fails, read its error and do it \
         differently; do not repeat a call whose result you already have. When the task is done, stop calling \
         tools and answer in plain words, briefly.",
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
