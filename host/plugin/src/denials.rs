//! What a guest was refused: recorded as it happens, then shown as hints that name the line of program.toml to change,
//! and written to the journal.

pub(crate) mod denied_access;
pub(crate) mod hints;
pub(crate) mod journal_notes;
pub(crate) mod network_decisions;

/// Where in program.toml a person would grant more; part of every refusal's hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantPlace {
    /// The tool comes with haft and follows `[sandbox]`.
    Sandbox,
    /// The tool is a plugin's and follows its `[plugins.grant]`.
    Plugin,
    /// The tool is a plugin's of the package of this name, and follows its `[packages.grant]`.
    Package(String),
    /// The tool comes with haft and reaches the hosts of `[builtins] fetch_allow` besides public ones.
    FetchAllow,
    /// The tool comes with haft and reaches the host of `[builtins] search_url`.
    SearchUrl,
}
