//! haft: runs the tools of agents with only the rights that a user granted.
//!
//! This file is the map. A module uses only modules that stand **above** it here (`tests/tidy.rs` checks this), so
//! that a reader from top to bottom meets every module after the modules that it depends on.
//!
//! # One call
//! - **Ask:** a model, `haft call` or an MCP client makes a [`call::ToolCall`].
//! - **Find, check, bound:** [`tool::Toolbox::dispatch`] finds the tool, checks the arguments against its JSON
//!   Schema, and sets the deadline. Every call passes through it.
//! - **Act:** a [`tool::Tool`] acts with the [`grant::Grant`] that it is passed: a component gets exactly that
//!   grant's preopened directories, a child process its confinement.
//! - **Report:** everything observable is one [`event::Event`]; the answer is always a [`call::ToolResult`].
//!
//! # Embedding
//! A [`Toolbox`] holds tools, of the embedder ([`tool::Tool`]) or of a program.toml ([`program::Program::load`]);
//! an [`Agent`] asks a [`provider::Provider`] and runs the calls of the model. `examples/embed.rs` is a complete
//! program, `examples/install.rs` installs packages; the shortest agent is this:
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
