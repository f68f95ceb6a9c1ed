//! The additions of `--allow` to a grant for one run, as parsed text. Grants nothing itself.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use haft_core::grant::{Right, RightError};

/// A right for one run: `[PLUGIN:]read=DIR`, `write=DIR`, `host=HOST`, `env=NAME`, `credentials=STORE`,
/// `service=SERVICE`, `state=SIZE` or `cache=SIZE`. Without `PLUGIN` the right is for the built-in tools, `bash` and commands.
#[derive(Clone, Debug, PartialEq)]
pub struct Allow {
    /// The plugin that gets the right.
    pub(super) plugin: Option<String>,
    /// The added right.
    pub(super) right: Right,
}

/// The reason why a text is not an [`Allow`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllowError {
    /// The text does not have the form of a right.
    #[error(
        "expected `[PLUGIN:]read=DIR`, `write=DIR`, `host=HOST`, `env=NAME`, `credentials=STORE`, `service=SERVICE`, `state=SIZE` or `cache=SIZE`"
    )]
    Form,
    /// The value of the right is invalid.
    #[error("{0}")]
    Right(RightError),
}

impl FromStr for Allow {
    type Err = AllowError;

    fn from_str(text: &str) -> Result<Self, AllowError> {
        let (what, _) = text.split_once('=').ok_or(AllowError::Form)?;
        let (plugin, right) = match what.split_once(':') {
            Some((plugin, _)) => (Some(plugin.to_owned()), text.get(plugin.len() + 1..).unwrap_or_default()),
            None => (None, text),
        };
        match right.parse() {
            Ok(right) => Ok(Self { plugin, right }),
            Err(RightError::Form) => Err(AllowError::Form),
            Err(error) => Err(AllowError::Right(error)),
        }
    }
}

impl Allow {
    /// Returns the addition of `right` to the grant of `plugin`, which may be a server or command too; without one to that
    /// of the built-in tools, `bash` and commands.
    pub fn new(plugin: Option<String>, right: Right) -> Self {
        Self { plugin, right }
    }

    /// Returns the addition with an absolute directory, resolved from the current directory.
    #[must_use]
    pub fn absolute(&self) -> Self {
        let whole = |path: &String| match std::path::absolute(path) {
            Ok(whole) if !Path::new(path).starts_with("~") => whole.to_string_lossy().into_owned(),
            _ => path.clone(),
        };
        let right = match &self.right {
            Right::Read(path) => Right::Read(whole(path)),
            Right::Write(path) => Right::Write(whole(path)),
            Right::Service(service) => {
                Right::Service(service.clone().resolved(|path| whole(&path.to_string_lossy().into()).into()))
            }
            right => right.clone(),
        };
        Self { right, ..self.clone() }
    }
}

impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plugin.iter().try_for_each(|plugin| write!(f, "{plugin}:"))?;
        self.right.fmt(f)
    }
}
