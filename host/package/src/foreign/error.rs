//! The reasons why no package can be made from an MCP server in another format, each with its hint.

use super::SecretField;
use crate::download::DownloadError;
use crate::listing::TreeError;
use crate::runner::ProgramError;
use crate::signature::SignatureError;

/// Reasons why an MCP server in another format cannot become a package.
#[derive(Debug, thiserror::Error)]
pub enum ForeignError {
    /// `npm`, `uv` or `python3` failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The signature is missing or invalid.
    #[error("it is refused: {0}")]
    Signature(#[from] SignatureError),
    /// The attestations of a package that must be signed cannot be fetched.
    #[error("its attestations cannot be fetched: {0}")]
    Attestations(#[from] DownloadError),
    /// A version has more wheels than are judged, and must be signed.
    #[error("it has {count} wheels; haft checks the attestations of at most {most}")]
    Wheels {
        /// The number of wheels.
        count: usize,
        /// The limit.
        most: usize,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The content of a file does not match its name.
    #[error("cannot parse `{file}`: {why}")]
    Unreadable {
        /// The file.
        file: String,
        /// The error of the parser.
        why: String,
    },
    /// The command that starts the server is ambiguous.
    #[error("`{name}` has {}", commands_text(commands))]
    Commands {
        /// The package.
        name: String,
        /// The package's commands.
        commands: Vec<String>,
    },
    /// A package has no wheel for this machine, and a build was not requested.
    #[error("`{0}` has no wheel for this machine: a build would run its code")]
    Sdist(String),
    /// A setting that the source does not know.
    #[error("it has no setting `{}`; its settings are {}", haft_core::report::plain(key), listed(known))]
    Setting {
        /// The setting.
        key: String,
        /// The known settings.
        known: Vec<String>,
    },
    /// The bundle requires settings that are missing.
    #[error("it needs {}", .0.join(", "))]
    Missing(Vec<String>),
    /// The bundle requires secrets, which the user has to enter.
    #[error("it needs secrets")]
    Secrets {
        /// The server's name.
        server: String,
        /// The secrets.
        fields: Vec<SecretField>,
    },
    /// A value is not usable. The value is not part of the text: it may be a secret.
    #[error("the value of `{key}` is not usable: {why}")]
    Value {
        /// The setting.
        key: String,
        /// The expected value.
        why: String,
    },
    /// The bundle has the older form.
    #[error("it has the older form `{0}`")]
    Old(String),
    /// The bundle requires a function that haft does not have.
    #[error("{0}")]
    Unsupported(String),
}

impl ForeignError {
    pub(crate) fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Program(error) => return error.hint().map(str::to_owned),
            Self::Signature(error) => error.hint(),
            Self::Commands { commands, .. } if commands.is_empty() => {
                "this is a library, not a server: see the server's documentation for its package"
            }
            Self::Commands { .. } => "choose the server's command with `--set bin=NAME`",
            Self::Setting { .. } | Self::Missing(_) => "set a value with `--set KEY=VALUE`",
            Self::Sdist(_) => {
                "`--run-scripts` builds it in the sandbox, without network; or choose a version that has a \
                 wheel"
            }
            Self::Old(_) => super::DXT,
            _ => return None,
        };
        Some(text.to_owned())
    }
}

fn commands_text(commands: &[String]) -> String {
    if commands.is_empty() {
        "no command to start".to_owned()
    } else {
        format!("several commands: {}", listed(commands))
    }
}

fn listed(names: &[String]) -> String {
    let quoted: Vec<String> =
        names.iter().map(|name| format!("`{}`", haft_core::report::plain(name))).collect();
    if quoted.is_empty() { "none".to_owned() } else { quoted.join(", ") }
}
