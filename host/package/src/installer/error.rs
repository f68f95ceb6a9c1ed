//! Errors of an installation, each with its hint.

use std::path::PathBuf;

use crate::{BundleError, FetchError, Kind, ProjectError, StoreError, TreeError};

/// Reasons why an installation failed. It then changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The program's files cannot be read or changed.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// The source cannot be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The fetched content is neither a package nor a component.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The content cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The content's files cannot be read.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The caller's [`Consent`](super::Consent) or [`ToolLister`](super::ToolLister) failed.
    #[error(transparent)]
    Caller(#[from] anyhow::Error),
    /// A plugin has the name of an existing plugin.
    #[error("it has a plugin `{plugin}`, and {owner} has another of that name")]
    Clash {
        /// The plugin.
        plugin: String,
        /// The owner of the existing plugin, in words.
        owner: String,
    },
    /// Required programs are missing.
    #[error("`{name}` requires what is not on PATH: {}", programs.join(", "))]
    MissingPrograms {
        /// The package.
        name: String,
        /// The programs, in backticks.
        programs: Vec<String>,
    },
    /// A component was found for a package's entry, or the reverse.
    #[error(
        "`{name}` is in `[[{}]]`, and what is there now belongs into `[[{}]]`", entry.table(), found.table()
    )]
    OtherKind {
        /// The entry.
        name: String,
        /// The table of the entry.
        entry: Kind,
        /// The kind of the fetched content.
        found: Kind,
    },
    /// The declared name differs from the entry's name.
    #[error("`{name}` calls itself `{found}` now; it is left as it is")]
    OtherName {
        /// The entry.
        name: String,
        /// The declared name.
        found: String,
    },
    /// program.toml names another signer than the agreed one.
    #[error("program.toml wants `{name}` signed {wanted}, and what is installed was signed {pinned}")]
    OtherSigner {
        /// The entry.
        name: String,
        /// The signer of program.toml, in words.
        wanted: String,
        /// The pinned signer, in words.
        pinned: String,
    },
    /// A component that is used in place is not the agreed content.
    #[error("`{name}` is not what was installed: {why}")]
    ChangedInPlace {
        /// The entry.
        name: String,
        /// The result of the check.
        why: String,
    },
    /// The fetched content differs from the pinned content.
    #[error("`{0}` is fetched with another content than program.lock pins")]
    OtherContent(String),
    /// The content is unchanged, but its tool definitions are not.
    #[error("the tools of `{0}` say something else than what was agreed to")]
    OtherTools(String),
    /// A component that is used in place cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the read.
        source: std::io::Error,
    },
}

impl InstallError {
    /// Returns a hint for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Project(error) => return error.hint().map(str::to_owned),
            Self::Fetch(error) => return error.hint(),
            Self::Bundle(error) => return error.hint().map(str::to_owned),
            Self::MissingPrograms { .. } => {
                "install it first; `--force` adds the package anyway, without its tools until then"
            }
            Self::OtherName { .. } => "`haft add` it by its new name, and `haft remove` the old one",
            Self::OtherSigner { .. } => {
                "if you know that the signer changed, `--key` with the new one takes the place of the old one"
            }
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
