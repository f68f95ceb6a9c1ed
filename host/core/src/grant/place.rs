//! The table of program.toml that holds the rights of a tool or process, as hints name it.

use super::{Grant, HostPattern, Right};

/// The table of program.toml that holds the rights of a tool or process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RightsTable {
    /// `[sandbox]`.
    Sandbox,
    /// A table that has this name in messages.
    Named(String),
    /// The grant of an entry of a list, such as `mcp_servers`: of an MCP server or a command.
    Entry {
        /// The list.
        list: &'static str,
        /// The entry's name.
        name: String,
        /// The rights without a grant; `None` if a grant is written.
        usual: Option<UsualRights>,
    },
    /// No table: nothing in program.toml gives it more.
    None,
}

/// The rights of a process without a grant, as they would be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsualRights {
    /// The readable directories.
    pub read: Vec<String>,
    /// The writable directories.
    pub write: Vec<String>,
    /// Whether the process has the network.
    pub network: bool,
    /// The only destinations of a process without all of the network.
    pub hosts: Vec<HostPattern>,
}

impl RightsTable {
    /// Returns the instruction to add `value` to the list `key`, so that it follows "to allow it,".
    pub fn line(&self, key: &str, value: &str) -> String {
        match self {
            Self::Entry { list, name, usual: Some(usual) } => {
                let grant = usual.with(key, value);
                format!("add `grant = {{ {grant} }}` to `{name}` in `[[{list}]]`")
            }
            Self::None => "no key of program.toml grants a process of a package more than the package \
                 requests"
                .to_owned(),
            table => format!("add `{key} = [{}]` to {}", quoted(value), table.name()),
        }
    }

    /// Returns the instruction to open the network.
    pub fn network(&self) -> String {
        match self {
            Self::Sandbox | Self::Named(_) => format!("set `network = true` in {}", self.name()),
            Self::Entry { .. } | Self::None => self.line("hosts", "*"),
        }
    }

    /// Returns the name of the place in messages.
    pub fn name(&self) -> String {
        match self {
            Self::Sandbox => "`[sandbox]`".to_owned(),
            Self::Named(name) => name.clone(),
            Self::Entry { list, name, .. } => format!("`[{list}.grant]` of `{name}`"),
            Self::None => "program.toml".to_owned(),
        }
    }
}

/// The lists of the grant of a process, in the order in which they are written.
const LISTS: [&str; 5] = ["read", "write", "hosts", "credentials", "services"];

impl UsualRights {
    /// Returns the rights as a list.
    pub fn rights(&self) -> Vec<Right> {
        let read = self.read.iter().cloned().map(Right::Read);
        let write = self.write.iter().cloned().map(Right::Write);
        let hosts =
            self.network.then(HostPattern::any).into_iter().chain(self.hosts.clone()).map(Right::Host);
        read.chain(write).chain(hosts).collect()
    }

    /// Returns the keys of a grant of these rights and one more value.
    fn with(&self, key: &str, value: &str) -> String {
        let mut entries: Vec<_> = self.rights().iter().filter_map(Right::list_entry).collect();
        let new = LISTS.iter().find(|list| **list == key).map(|list| (*list, value.to_owned()));
        entries.extend(new.filter(|new| !entries.contains(new)));
        let written = LISTS.iter().filter_map(|list| {
            let own = entries.iter().filter(|(own, _)| own == list).map(|(_, value)| quoted(value));
            let values = own.collect::<Vec<_>>().join(", ");
            (!values.is_empty()).then(|| format!("{list} = [{values}]"))
        });
        written.collect::<Vec<_>>().join(", ")
    }
}

/// Returns a TOML string, which has the syntax of a JSON string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

// The number of bytes that a component may store between its calls. The plugin host chooses the location.

impl Grant {
    /// Allows `bytes` of state for keys and values, and as many for files. The larger of two limits counts.
    #[must_use]
    pub fn with_state(mut self, bytes: u64) -> Self {
        self.state = self.state.max(Some(bytes));
        self
    }

    /// Allows `bytes` of cache files, which may be removed at any time. The larger of two limits counts.
    #[must_use]
    pub fn with_cache(mut self, bytes: u64) -> Self {
        self.cache = self.cache.max(Some(bytes));
        self
    }

    /// Returns the limit for keys and values in bytes, which is also the limit for files; `None`: nothing.
    pub fn state(&self) -> Option<u64> {
        self.state
    }

    /// Returns the limit for cache files in bytes; `None`: nothing.
    pub fn cache(&self) -> Option<u64> {
        self.cache
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_process_without_a_grant_keeps_what_it_has() {
        let usual =
            UsualRights { read: vec!["/".into()], write: vec![".".into()], network: true, hosts: Vec::new() };
        let entry = |usual| RightsTable::Entry { list: "mcp_servers", name: "files".into(), usual };
        assert_eq!(
            entry(Some(usual)).line("write", "/a \"b\""),
            r#"add `grant = { read = ["/"], write = [".", "/a \"b\""], hosts = ["*"] }` to `files` in `[[mcp_servers]]`"#
        );
        assert_eq!(entry(None).network(), r#"add `hosts = ["*"]` to `[mcp_servers.grant]` of `files`"#);
        assert_eq!(RightsTable::Sandbox.network(), "set `network = true` in `[sandbox]`");
    }
}
