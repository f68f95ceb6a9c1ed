//! Writes a proposed grant, each line below its reason.

use toml_edit::{Array, Item, RawString, Value};

use super::{EditError, Editing, changed, changed_sandbox, parse};

/// A text in a list of a proposed grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposedLine {
    /// The list.
    pub key: &'static str,
    /// The text.
    pub value: String,
    /// The reason, without line breaks.
    pub reason: String,
    /// Whether it is a comment, which a person has to uncomment.
    pub is_comment: bool,
}

/// Adds `lines` to the grant of an entry, given by its list and its name, or to `[sandbox]`.
///
/// # Errors
/// There is no such entry, or the text has another form.
pub fn propose(
    text: &str,
    entry: Option<(&'static str, &str)>,
    lines: &[ProposedLine],
) -> Result<String, EditError> {
    let Some((list, name)) = entry else { return propose_to_sandbox(text, lines) };
    changed(text, list, name, |entry| entry.propose("grant", lines))
}

fn propose_to_sandbox(text: &str, lines: &[ProposedLine]) -> Result<String, EditError> {
    let mut document = parse(text)?;
    let mut editing = Editing { table: document.as_table_mut(), is_inline: false };
    editing.propose("sandbox", lines);
    if lines.iter().any(|line| line.key == "hosts" && !line.is_comment) {
        // `network = false` contradicts hosts.
        editing.inside("sandbox", |sandbox| drop(sandbox.table.remove("network")));
    }
    changed_sandbox(text, &document)
}

impl Editing<'_> {
    fn propose(&mut self, key: &str, lines: &[ProposedLine]) {
        self.inside(key, |grant| {
            lines.iter().filter(|line| !line.is_comment).for_each(|line| grant.push_with_reason(line));
        });
        let Some(table) = self.table.get_mut(key).and_then(Item::as_table_mut) else { return };
        // Comments below the head belong to the first key.
        let (mut head, present) = (raw(table.decor().suffix()), table.to_string());
        for ProposedLine { key, value, reason, .. } in lines.iter().filter(|line| line.is_comment) {
            let comment = format!("\n# {key} = [{}]", Value::from(value));
            if !present.contains(comment.trim_start()) {
                head.extend([comment.as_str(), "  # ", reason]);
            }
        }
        table.decor_mut().set_suffix(head);
    }

    fn push_with_reason(&mut self, line: &ProposedLine) {
        if !self.table.contains_key(line.key) {
            self.table.insert(line.key, toml_edit::value(Array::new()));
        }
        let Some(array) = self.table.get_mut(line.key).and_then(Item::as_array_mut) else { return };
        if array.iter().any(|value| value.as_str() == Some(&line.value)) {
            return;
        }
        if let Some(last) =
            array.iter_mut().last().filter(|last| raw(last.decor().suffix()).trim().is_empty())
        {
            last.decor_mut().set_suffix("");
        }
        // A comment behind the last value stays there.
        let behind = raw(Some(array.trailing()));
        let before = format!("{}\n    # {}\n    ", behind.trim_end(), line.reason);
        array.push_formatted(Value::from(&line.value).decorated(before, ""));
        array.set_trailing("\n");
        array.set_trailing_comma(true);
    }
}

fn raw(text: Option<&RawString>) -> String {
    text.and_then(RawString::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(key: &'static str, value: &str, is_comment: bool) -> ProposedLine {
        ProposedLine { key, value: value.into(), reason: format!("needs {value}"), is_comment }
    }

    /// Lines are below their reasons; lines that the user must decide about are comments; nothing else changes.
    #[test]
    fn a_proposal_is_added_with_its_reasons() {
        let lines =
            [line("hosts", "a.test", false), line("write", "./out", false), line("credentials", "ssh", true)];
        let text = "# mine\n[sandbox] # here\nhosts = [\"@npm\"] # those\nnetwork = true\n\n[agent]\nmax_turns = 3\n";
        let expected = "# mine\n[sandbox] # here\n# credentials = [\"ssh\"]  # needs ssh\nhosts = [\"@npm\",\n    # needs a.test\n    \
                        \"a.test\",\n] # those\nwrite = [\n    # needs ./out\n    \"./out\",\n]\n\n[agent]\nmax_turns = 3\n";
        let proposed = propose(text, None, &lines).unwrap();
        assert_eq!(proposed, expected);
        assert_eq!(propose(&proposed, None, &lines).unwrap(), expected, "once");
        let more = propose(&proposed, None, &[line("hosts", "b.test", false)]).unwrap();
        assert!(more.contains("    \"a.test\",\n    # needs b.test\n    \"b.test\",\n] # those"), "{more}");
        let closed = propose("[sandbox]\nnetwork = false\n", None, &lines[..1]).unwrap();
        assert!(!closed.contains("network") && closed.contains("\"a.test\""), "{closed}");
    }

    #[test]
    fn an_entry_gets_a_grant_of_what_it_needs() {
        let text = "[[mcp_servers]]\nname = \"files\"\ncommand = \"x\"\n";
        let proposed =
            propose(text, Some(("mcp_servers", "files")), &[line("read", "./docs", false)]).unwrap();
        let manifest =
            haft_manifest::Manifest::parse(&proposed, std::path::Path::new("program.toml")).unwrap();
        let rights = manifest.mcp_servers[0].grant.as_ref().unwrap().rights.rights();
        assert_eq!(rights, [haft_core::grant::Right::Read("./docs".into())], "{proposed}");
        let none = propose(text, Some(("mcp_servers", "files")), &[]).unwrap();
        assert!(none.contains("[mcp_servers.grant]"), "{none}");
        assert!(propose(text, Some(("tools", "files")), &[]).is_err());
    }
}
