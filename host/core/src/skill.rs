//! SKILL.md: what a package tells the model about using it. Read as text; nothing in it is obeyed here.

/// The file, at the top of a package.
pub const FILE: &str = "SKILL.md";

/// Bytes of a skill that is read at all.
pub const MAX_FILE: u64 = 256 << 10;

/// Characters of a skill that a model is shown: some thousand words.
pub const MAX_TEXT: usize = 16_000;

/// Characters of its description.
const MAX_DESCRIPTION: usize = 1000;

/// A skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// What it is called; the package's name where it does not say.
    pub name: String,
    /// What it is for, on one line; may be empty.
    pub description: String,
    /// What it says, of at most 16 000 characters.
    pub text: String,
}

impl Skill {
    /// Reads the text of a SKILL.md. `name` and `description` stand at its top between two lines of
    /// `---`, where they stand anywhere.
    pub fn parse(text: &str, package: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (head, body) = split(text).unwrap_or(("", text));
        let field = |name: &str| {
            let value = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let value = value.map(|value| value.trim().trim_matches(['"', '\'']).trim());
            value
                .filter(|value| !value.is_empty())
                .map(|value| clip(&crate::report::plain(value), MAX_DESCRIPTION))
        };
        Self {
            name: field("name").unwrap_or_else(|| package.to_owned()),
            description: field("description").unwrap_or_default(),
            text: clip(body.trim(), MAX_TEXT),
        }
    }
}

/// Keys of a SKILL.md's head that name MCP servers, as other hosts have them: `mcp_servers`, `mcpServers`.
/// haft reads none of them.
pub fn server_keys(text: &str) -> Vec<String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (head, _) = split(text).unwrap_or(("", text));
    let keys = head.lines().filter_map(|line| {
        let key = line.trim_start_matches([' ', '\t', '-', '"', '\'']).split(':').next()?;
        Some(key.trim_end_matches(['"', '\'', ' ']))
    });
    let names_servers = |key: &&str| {
        let bare: String = key.chars().filter(char::is_ascii_alphanumeric).collect();
        matches!(bare.to_ascii_lowercase().as_str(), "mcp" | "mcpserver" | "mcpservers")
    };
    keys.filter(names_servers).map(str::to_owned).collect()
}

/// What stands between the first two lines of `---`, and what follows.
fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n"))?;
    let end = rest.match_indices("\n---").map(|(at, _)| at).find(|at| {
        let after = rest.get(at + 4..).unwrap_or_default();
        after.is_empty() || after.starts_with(['\n', '\r'])
    })?;
    Some((rest.get(..end)?, rest.get(end + 4..)?))
}

fn clip(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => {
            let total = text.chars().count();
            format!("{}\n[the first {most} of {total} characters]", text.get(..end).unwrap_or_default())
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PR12: with and without a head.
    #[test]
    fn pr12_a_skill_is_its_head_and_its_text() {
        let skill = Skill::parse("---\nname: pr\ndescription: \"Open PRs\"\n---\n\n# How\nDo.\n", "github");
        let expected = Skill { name: "pr".into(), description: "Open PRs".into(), text: "# How\nDo.".into() };
        assert_eq!(skill, expected);
        let bare = Skill::parse("Do.\n---\nname: x\n---\n", "github");
        assert_eq!((bare.name.as_str(), bare.description.as_str()), ("github", ""));
        assert!(bare.text.starts_with("Do."));
        assert_eq!(Skill::parse("---\nname: x", "github").text, "---\nname: x");
    }

    /// C15: servers that a head names are known to be named, however it spells that.
    #[test]
    fn c15_servers_that_a_head_names_are_noticed() {
        for (head, expected) in [
            ("mcp_servers:\n  a:\n    command: npx", vec!["mcp_servers"]),
            ("name: x\nmcpServers: [a]", vec!["mcpServers"]),
            ("metadata:\n  mcp-servers:\n  - a", vec!["mcp-servers"]),
            ("\"mcp\": {}", vec!["mcp"]),
            ("name: mcp\ndescription: mcp_servers are good", vec![]),
        ] {
            assert_eq!(server_keys(&format!("---\n{head}\n---\nmcp_servers:\n")), expected, "{head}");
        }
        assert!(server_keys("mcp_servers:\n").is_empty());
    }

    #[test]
    fn pr12_a_long_skill_is_clipped_and_says_so() {
        let skill = Skill::parse(&"ä".repeat(MAX_TEXT + 5), "p");
        assert!(skill.text.ends_with("[the first 16000 of 16005 characters]"), "{}", skill.text.len());
    }
}
