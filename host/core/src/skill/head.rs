//! The head of a SKILL.md: reads the few YAML keys that haft uses. Never fails: many heads are invalid YAML
//! (`description: Use when: …`) with an obvious meaning. Other programs get the complete head, if it is valid YAML.

use serde_json::{Map, Value};

use super::MAX_NAME;

/// Returns the text between the first two lines of `---`, and the rest; no head unless both lines exist.
pub(super) fn split(text: &str) -> (&str, &str) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    parts(text).unwrap_or(("", text))
}

fn parts(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n"))?;
    let end = rest.match_indices("\n---").map(|(at, _)| at).find(|at| {
        let after = rest.get(at + 4..).unwrap_or_default();
        after.is_empty() || after.starts_with(['\n', '\r'])
    })?;
    Some((rest.get(..end)?, rest.get(end + 4..)?))
}

/// Returns the complete head of a SKILL.md as JSON, as the Agent Skills specification requires.
///
/// # Errors
/// The head is missing, is not valid YAML, or lacks a valid `name` or a `description`.
pub fn frontmatter(text: &str) -> Result<Map<String, Value>, String> {
    let fields = head_fields(text)?;
    let field = |key: &str| fields.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    check_name(field("name").ok_or("its head has no `name`")?)?;
    field("description").ok_or("its head has no `description`")?;
    Ok(fields)
}

/// Returns the unchecked fields in the head of a SKILL.md.
///
/// # Errors
/// The head is missing, or is not valid YAML.
pub fn head_fields(text: &str) -> Result<Map<String, Value>, String> {
    // YAML 1.2, as other programs read it: `yes` is a text. What aliases grow to is bounded by the parser.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(split(text).0, options).map_err(|error| {
        let why = error.to_string();
        format!("its head is not valid YAML: {}", why.lines().next().unwrap_or_default())
    })
}

/// Refuses a name that the Agent Skills specification does not allow.
///
/// # Errors
/// The name is invalid.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = (1..=MAX_NAME).contains(&name.len())
        && name.chars().all(is_part)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--");
    let why = || {
        format!("`{name}` is not a valid skill name: expected 1 to {MAX_NAME} of `a-z`, `0-9` and single `-`")
    };
    if is_name { Ok(()) } else { Err(why()) }
}

/// Returns the value of the top-level key `key` in the head of a SKILL.md; `None` without the key.
pub fn head_field(text: &str, key: &str) -> Option<String> {
    field(split(text).0, key)
}

/// Returns the value of the top-level key `key`: plain, quoted, or a block (`|`, `>`). Several lines are joined by
/// spaces, because the value is shown on one line.
pub(super) fn field(head: &str, key: &str) -> Option<String> {
    let mut lines = head.lines();
    let first = lines.find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(':'))?.trim();
    let more =
        lines.take_while(|line| line.trim().is_empty() || line.starts_with([' ', '\t'])).map(str::trim);
    Some(match first.chars().next() {
        Some('|' | '>') => joined(more),
        Some('"') => quoted(&joined(std::iter::once(first).chain(more)), '"'),
        Some('\'') => quoted(&joined(std::iter::once(first).chain(more)), '\''),
        _ => joined(std::iter::once(first).chain(more).map(without_comment)),
    })
}

fn joined<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Removes the comment at the end of a line.
fn without_comment(line: &str) -> &str {
    if line.starts_with('#') { "" } else { line.split(" #").next().unwrap_or(line).trim_end() }
}

/// Returns the text between the first two of `quote`; everything after the first one without a second one.
fn quoted(text: &str, quote: char) -> String {
    let mut unquoted = String::new();
    let mut rest = text.chars().skip(1).peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' if quote == '"' => unquoted.extend(escaped(&mut rest)),
            c if c == quote && quote == '\'' && rest.peek() == Some(&'\'') => unquoted.extend(rest.next()),
            c if c == quote => break,
            c => unquoted.push(c),
        }
    }
    unquoted
}

/// Returns the character for the escape after a `\`.
fn escaped(rest: &mut impl Iterator<Item = char>) -> Option<char> {
    let digits = match rest.next()? {
        'n' | 't' | 'r' => return Some(' '),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        other => return Some(other),
    };
    let code: String = rest.take(digits).collect();
    u32::from_str_radix(&code, 16).ok().and_then(char::from_u32)
}

/// Returns the keys in the head of a SKILL.md that declare MCP servers: `mcp_servers`, `mcpServers`. Reads heads that
/// are invalid YAML, too.
pub fn server_keys(text: &str) -> Vec<String> {
    let (head, _) = split(text);
    let keys = head.lines().filter_map(|line| {
        let key = line.trim_start_matches([' ', '\t', '-', '"', '\'']).split(':').next()?;
        Some(key.trim_end_matches(['"', '\'', ' ']))
    });
    keys.filter(|key| is_server_key(key)).map(str::to_owned).collect()
}

/// Returns whether a key of a head declares MCP servers, in any spelling.
pub fn is_server_key(key: &str) -> bool {
    let bare: String = key.chars().filter(char::is_ascii_alphanumeric).collect();
    matches!(bare.to_ascii_lowercase().as_str(), "mcp" | "mcpserver" | "mcpservers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_however_it_is_written() {
        for (head, expected) in [
            ("description: plain words", "plain words"),
            ("description: Use when: it rains # or snows", "Use when: it rains"),
            ("description: C#", "C#"),
            ("description:\n  on the\n\n  next lines\nname: x", "on the next lines"),
            ("description: >-\n  folded\n  text\n\n  more\nname: x", "folded text more"),
            ("description: |2 # kept\n  a\n   b\n", "a b"),
            ("description: \"a \\\"b\\\" \\u00e4\\x21 c\" # d", "a \"b\" ä! c"),
            ("description: 'it''s\n  two lines'\nname: x", "it's two lines"),
            ("description: \"no end", "no end"),
            ("description :  spaced ", "spaced"),
            ("description: ''", ""),
            ("description:", ""),
            ("name: x\r\ndescription: y\r", "y"),
        ] {
            assert_eq!(field(head, "description").as_deref(), Some(expected), "{head}");
        }
        for head in ["", "descriptions: x", "metadata:\n  description: x", "# description: x"] {
            assert_eq!(field(head, "description"), None, "{head}");
        }
    }

    #[test]
    fn a_head_has_an_end() {
        assert_eq!(split("---\na: 1\n---\nText"), ("a: 1", "\nText"));
        assert_eq!(split("\u{feff}---\r\na: 1\r\n---\r\nText"), ("a: 1\r", "\r\nText"));
        assert_eq!(split("---\na: 1\n---b\n---"), ("a: 1\n---b", ""));
        for text in ["---\na: 1", "Text\n---\na: 1\n---\n", " ---\n---\n", ""] {
            assert_eq!(split(text), ("", text));
        }
    }

    #[test]
    fn a_head_is_whole_for_other_programs() {
        let text =
            "---\nname: pdf-2\ndescription: \"Fills: forms\"\nmetadata: { on: yes, list: [1, a] }\n---\n";
        let expected = serde_json::json!({
            "name": "pdf-2", "description": "Fills: forms", "metadata": { "on": "yes", "list": [1, "a"] },
        });
        assert_eq!(Value::Object(frontmatter(text).unwrap()), expected);
        let level = |own: char, inner: &str| format!("{own}: &{own} [{}]\n", [inner; 9].join(", "));
        let levels = "abcdefg".chars().zip("bcdefgh".chars());
        let bomb: String = levels.map(|(inner, own)| level(own, &format!("*{inner}"))).collect();
        for (head, why) in [
            ("description: D".to_owned(), "no `name`"),
            ("name: pdf".to_owned(), "no `description`"),
            ("name: pdf\ndescription: Use when: it rains".to_owned(), "not valid YAML"),
            ("name: pdf\nname: other\ndescription: D".to_owned(), "not valid YAML"),
            (format!("a: &a [x]\n{bomb}"), "not valid YAML"),
        ] {
            let refused = frontmatter(&format!("---\n{head}\n---\n")).unwrap_err();
            assert!(refused.contains(why) && !refused.contains('\n'), "{head}: {refused}");
        }
        for name in ["", "Pdf", "\u{e9}", "-a", "a-", "a--b", "a_b", &"a".repeat(65)] {
            assert!(check_name(name).is_err(), "{name}");
        }
        assert_eq!(check_name(&"a".repeat(64)), Ok(()));
    }

    /// C15: keys that declare servers are found in every spelling.
    #[test]
    fn servers_that_a_head_names_are_noticed() {
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
}
