//! Why an install failed, each with its way out.

use std::path::PathBuf;

use crate::{BundleError, FetchError, Kind, ProjectError, StoreError, TreeError};

/// Why something was not installed. Nothing was changed then.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Its program cannot be read or changed.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// It cannot be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// What was fetched is no package and no component.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// It cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its files cannot be read.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The caller's [`Consent`](super::Consent) or [`ToolLister`](super::ToolLister) failed.
    #[error(transparent)]
    Caller(#[from] anyhow::Error),
    /// A plugin of it has the name of another.
    #[error("it has a plugin `{plugin}`, and {owner} has another of that name")]
    Clash {
        /// The plugin.
        plugin: String,
        /// What has the other, in words.
        owner: String,
    },
    /// Programs that it requires are not there.
    #[error("`{name}` requires what is not on PATH: {}", programs.join(", "))]
    MissingPrograms {
        /// The package.
        name: String,
        /// The programs, in backticks.
        programs: Vec<String>,
    },
    /// A component where a package was, or the other way round.
    #[error(
        "`{name}` is in `[[{}]]`, and what is there now belongs into `[[{}]]`", entry.table(), found.table()
    )]
    OtherKind {
        /// The entry.
        name: String,
        /// The table that it is in.
        entry: Kind,
        /// What was fetched.
        found: Kind,
    },
    /// It calls itself otherwise than its entry.
    #[error("`{name}` calls itself `{found}` now; it is left as it is")]
    OtherName {
        /// The entry.
        name: String,
        /// What it says.
        found: String,
    },
    /// A component that is used where its author has it is not what was agreed to.
    #[error("`{name}` is not what was installed: {why}")]
    ChangedInPlace {
        /// The entry.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// What is served is not what is pinned.
    #[error("`{0}` is fetched with another content than program.lock pins")]
    OtherContent(String),
    /// The same content tells of other tools than before.
    #[error("the tools of `{0}` say something else than what was agreed to")]
    OtherTools(String),
    /// A component that stays where it is cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

impl InstallError {
    /// The way out, where there is one.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Project(error) => return error.hint().map(str::to_owned),
            Self::Fetch(error) => return error.hint(),
            Self::Bundle(error) => return error.hint().map(str::to_owned),
            Self::MissingPrograms { .. } => {
                "install it first; `--force` adds the package anyway, without its tools until then"
            }
            Self::OtherName { .. } => "`haft add` it by its new name, and `haft remove` the old one",
            Self::Clash { .. } => {
                "`--as NAME` installs it under another name, with which the names of its plugins begin then"
            }
            Self::ChangedInPlace { name, .. } => {
                return Some(format!("`haft update {name}` shows what it is now and asks again"));
            }
            Self::OtherTools(name) => {
                return Some(format!("`haft update {name}` shows what they say now and asks again"));
            }
            Self::Store(_)
            | Self::Tree(_)
            | Self::Caller(_)
            | Self::OtherKind { .. }
            | Self::OtherContent(_)
            | Self::Read { .. } => return None,
        };
        Some(text.to_owned())
    }
}
