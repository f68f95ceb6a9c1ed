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
    #[error("its plugin `{plugin}` has the same name as one of {owner}")]
    Clash {
        /// The plugin.
        plugin: String,
        /// The owner of the existing plugin, in words.
        owner: String,
    },
    /// Required programs are missing.
    #[error("`{name}` requires programs that are not on PATH: {}", programs.join(", "))]
    MissingPrograms {
        /// The package.
        name: String,
        /// The programs, in backticks.
        programs: Vec<String>,
    },
    /// A component was found for a package's entry, or the reverse.
    #[error(
        "`{name}` is in `[[{}]]`, but its new content belongs in `[[{}]]`", entry.table(), found.table()
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
    #[error("the package `{name}` is now named `{found}`; nothing was changed")]
    OtherName {
        /// The entry.
        name: String,
        /// The declared name.
        found: String,
    },
    /// program.toml names another signer than program.lock.
    #[error("program.toml requires `{name}` signed {wanted}; the installed content is signed {pinned}")]
    OtherSigner {
        /// The entry.
        name: String,
        /// The signer of program.toml, in words.
        wanted: String,
        /// The pinned signer in words; `by nobody` without one.
        pinned: String,
    },
    /// A component that is used in place is not the agreed content.
    #[error("`{name}` has changed since its installation: {why}")]
    ChangedInPlace {
        /// The entry.
        name: String,
        /// The result of the check.
        why: String,
    },
    /// The fetched content differs from the pinned content.
    #[error("the fetched content of `{0}` differs from program.lock")]
    OtherContent(String),
    /// The content is unchanged, but its tool definitions are not.
    #[error("the tool definitions of `{0}` differ from those that you agreed to")]
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
            Self::OtherName { .. } => "`haft add` the new name, and `haft remove` the old one",
            Self::OtherSigner { name, .. } => {
                return Some(format!(
                    "`haft update {name} --key SIGNER` installs content of the signer that you name, and pins it"
                ));
            }
            Self::Clash { .. } => {
                "`--as NAME` installs it under another name; the names of its plugins then start with that \
                 name"
            }
            Self::ChangedInPlace { name, .. } | Self::OtherContent(name) => {
                return Some(format!("`haft update {name}` shows the new content and asks"));
            }
            Self::OtherTools(name) => {
                return Some(format!("`haft update {name}` shows the new definitions and asks"));
            }
            _ => return None,
        };
        Some(text.to_owned())
    }
}
