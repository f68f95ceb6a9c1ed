//! Secrets that a server needs: prompts for them at the terminal, and stores them in the user's keyring under names
//! of haft. Files contain only these names.

use secrecy::{ExposeSecret, SecretString};

use crate::cli::install_session::{InstallSession, with_hint};
use crate::cli::terminal::Terminal;
use haft_core::report::plain;
use haft_manifest::{KeyringEntry, Name, SecretError, SecretSource, Secrets};
use haft_package::SecretField;

/// The prefix of the names of keyring entries.
const OURS: &str = "haft";

/// The entered secrets.
#[derive(Default)]
pub(super) struct Asked {
    /// The settings that refer to the secrets.
    pub(super) settings: Vec<(String, String)>,
    /// The entered values, for the keyring.
    values: Vec<(KeyringEntry, SecretString)>,
}

impl Asked {
    /// Asks for `fields` of `server`. Without a keyring it asks for nothing: the secrets are environment variables.
    pub(super) async fn at(
        terminal: Terminal,
        session: &InstallSession,
        server: &str,
        fields: &[SecretField],
    ) -> anyhow::Result<Self> {
        let mut asked = Self::default();
        let Ok(name) = Name::of_text(server) else { return Ok(asked) };
        let (redactor, home) = (terminal.redactor(), session.context.dirs.home.as_path());
        let secrets = Secrets::new(&session.project.manifest, home, &redactor);
        for field in fields {
            let key = plain(&field.key);
            let Ok(entry) = format!("{OURS}/{name}/{}", field.key).parse::<KeyringEntry>() else { continue };
            match secrets.read(&SecretSource::Keyring(entry.clone())).await {
                // The stored secret may belong to a server of the same name from another author.
                Ok(_) => {
                    let hint = format!("`--set {key}=keyring:{entry}` uses the stored value for this server");
                    return Err(with_hint(
                        Some(&hint),
                        format!("the keyring already has an entry `{entry}`"),
                    ));
                }
                Err(SecretError::NotInKeyring(_)) => {}
                Err(error) => {
                    terminal.hint(&format!("cannot read the variable `{key}`: {error}"));
                    return Ok(Self::default());
                }
            }
            let title = field.title.as_ref().map(|title| format!(" ({})", plain(title))).unwrap_or_default();
            let entered =
                terminal.secret(&format!("`{key}`{title}, stored in the keyring as `{entry}`:")).await?;
            let entered = entered.expose_secret();
            anyhow::ensure!(!entered.is_empty(), "no value entered for `{key}`; nothing was changed");
            let (before, after) = &field.around;
            asked.values.push((entry.clone(), format!("{before}{entered}{after}").into()));
            asked.settings.push((field.key.clone(), format!("keyring:{entry}")));
        }
        Ok(asked)
    }

    /// Stores the entered values, after the user has agreed to the server.
    pub(super) async fn store(&self, terminal: Terminal, session: &InstallSession) -> anyhow::Result<()> {
        let (redactor, home) = (terminal.redactor(), session.context.dirs.home.as_path());
        let secrets = Secrets::new(&session.project.manifest, home, &redactor);
        for (entry, value) in &self.values {
            secrets.store(entry, value).await?;
            terminal.message(format_args!("stored `{entry}` in the keyring"));
        }
        Ok(())
    }
}
