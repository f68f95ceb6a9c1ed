//! haft: the handle that an agent's tools are held by.
//!
//! This file is the map. A module may use only modules that stand **above** it here
//! (`tests/tidy.rs` holds that border), so reading from top to bottom never meets a word
//! that has not been explained yet.
//!
//! # One call
//! - **Ask:** a model, `haft call` or an MCP client makes a [`call::ToolCall`].
//! - **Find, check, bound:** [`tool::Toolbox::dispatch`] finds the tool, checks the arguments
//!   against its JSON Schema, and sets the deadline. It is the only door.
//! - **Do:** a [`tool::Tool`] acts with the [`grant::Grant`] it is handed: a component gets
//!   exactly that grant's preopened directories, a child process its confinement.
//! - **Tell:** everything observable is one [`event::Event`]; the answer is a
//!   [`call::ToolResult`], whatever happened.
//!
//! # In a program of your own
//! A [`Toolbox`] holds tools, of your own ([`tool::Tool`]) or of a program.toml
//! ([`program::Program::load`]); an [`Agent`] asks a [`provider::Provider`] and runs what it calls.
//! `examples/embed.rs` is a whole program, `examples/install.rs` one that installs packages; the shortest agent is this:
//!
//! ```no_run
//! use haft::agent::{AgentSettings, History};
//! use haft::provider::ProviderSettings;
//! use haft::tool::Session;
//! use haft::{Agent, Toolbox};
//!
//! # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
//! let provider = haft::provider::build(ProviderSettings::new("openai", "gpt-5"))?;
//! let agent = Agent::new(provider, Toolbox::default(), AgentSettings::default());
//! let outcome = agent.run(&mut History::default(), "Say hello.", &Session::default()).await?;
//! println!("{}", outcome.text);
//! # Ok(())
//! # }
//! ```

pub use haft_acp as acp;
pub use haft_agent as agent;
pub use haft_agent::provider;
pub use haft_author as author;
pub use haft_callers as callers;
pub use haft_core::{call, event, grant, limit, lookup, replicas, report, secret, skill, tool, trace, usage};
pub use haft_journal as journal;
pub use haft_manifest as manifest;
pub use haft_mcp as mcp;
pub use haft_package as package;
pub use haft_plugin_host as plugin;
pub use haft_sandbox as backend;
pub use haft_sandbox::native;
pub use haft_state as state;
pub use haft_telemetry as telemetry;

pub mod program;

pub use self::agent::Agent;
pub use self::tool::Toolbox;
