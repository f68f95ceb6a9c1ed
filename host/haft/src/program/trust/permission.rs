//! One thing that a program.toml asks for, in a line, and the part of the file that it is about.

use std::fmt;

use haft_core::report::plain;

/// The part of a program.toml that a permission is about: what is left out without consent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// `[provider]`.
    Provider,
    /// The address of `web_search`.
    Search,
    /// Addresses of `fetch_url` that are not public.
    Fetch,
    /// One of `[[mcp_servers]]`.
    Server(String),
    /// One of `[[tools]]`.
    Command(String),
    /// What servers, commands and packages start.
    Children,
    /// One of `[[plugins]]`.
    Plugin(String),
    /// One of `[[packages]]`.
    Package(String),
    /// All of `[[agents]]` that are programs.
    Agents,
    /// `[nats]`.
    Nats,
    /// `[telemetry]`.
    Telemetry,
    /// `[backend]`.
    Backend,
    /// One of `[[serve.callers]]`.
    Caller(String),
    /// `[sandbox] workspace`.
    Workspace,
    /// The rest of `[sandbox]`.
    Sandbox,
}

/// One thing that a program.toml asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Permission {
    pub(super) part: Part,
    /// All of it, in one line, after what it is about: another right is another text.
    text: String,
}

impl Permission {
    pub(super) fn new(part: Part, text: &str) -> Self {
        Self { text: format!("{:<10} {text}", part.title()), part }
    }

    /// What is noted down, and compared.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is about what `haft add` writes: packages, plugins, and what packages start.
    pub(super) fn is_installed(&self) -> bool {
        matches!(self.part, Part::Package(_) | Part::Plugin(_) | Part::Children)
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plain(&self.text))
    }
}

impl Part {
    /// The word before a permission.
    fn title(&self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Search => "web_search",
            Self::Fetch => "fetch_url",
            Self::Server(_) => "server",
            Self::Command(_) => "command",
            Self::Children => "processes",
            Self::Plugin(_) => "plugin",
            Self::Package(_) => "package",
            Self::Agents => "agent",
            Self::Nats => "nats",
            Self::Telemetry => "telemetry",
            Self::Backend => "backend",
            Self::Caller(_) => "caller",
            Self::Workspace | Self::Sandbox => "sandbox",
        }
    }
}
