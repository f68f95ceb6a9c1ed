//! `[sandbox]`: how far tools reach on this machine. Only what is written; `grant` turns it into
//! rights, the kernel keeps them. It holds for `bash`, command tools, MCP servers and the built-in plugins; a
//! declared plugin has its own grant.

use std::path::PathBuf;

use haft_core::grant::{CredentialStore, SandboxMode};

use super::entry::Located;
use super::table::table;

table! {
    /// How far tools reach on this machine.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Sandbox = "[sandbox]" {
        /// `sandbox` (default) and `rx` write only below the workspace and the temporary directory,
        /// `rwx` anywhere
        pub mode: SandboxMode = SandboxMode::Sandbox,
        /// where tools work; default this folder, without a program.toml the current one
        #[also("dir", "directory", "cwd")]
        pub workspace: Option<Located<PathBuf>> = None,
        /// the only directories that may be read, besides the workspace; default all
        pub read: Option<Vec<Located<PathBuf>>> = None,
        /// more directories that may be written, and files in the workspace that programs run by themselves, such as
        /// `.git/config`
        pub write: Vec<Located<PathBuf>> = Vec::new(),
        /// files and directories that are closed, wherever they lie
        #[also("hide", "hidden", "exclude")]
        pub deny: Vec<Located<PathBuf>> = Vec::new(),
        /// credential stores that are opened, such as `ssh` or `gh`; default none
        #[also("secrets", "stores")]
        pub credentials: Vec<CredentialStore> = Vec::new(),
        /// whether child processes reach the network; default true
        #[also("net")]
        pub network: bool = true,
        /// whether child processes reach unix sockets; default false
        pub unix_sockets: bool = false,
    }
}
