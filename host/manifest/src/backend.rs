//! `[backend]`: where commands run. Only what is written; what it needs is looked for when it is used.

use std::path::PathBuf;

use haft_core::words;

use super::entry::Located;
use super::table::{choices, table};

words! {
    /// What runs containers.
    pub enum ContainerEngine {
        /// Docker.
        Docker = "docker",
        /// Podman.
        Podman = "podman",
    }
}

choices! { ContainerEngine }

table! {
    /// Where commands run: on this machine, in a container or on another host, in a pane of tmux or not.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BackendTable = "[backend]" {
        /// a running container, by name or identifier
        #[also("docker", "podman")]
        pub container: Option<String> = None,
        /// whose container it is, `docker` or `podman`; found out where it is left out
        pub engine: Option<ContainerEngine> = None,
        // Not to be used where there is a container too.
        /// a host as `ssh` is told it; keys that need no password
        #[also("host")]
        pub ssh: Option<Located<String>> = None,
        /// the configuration of ssh; default your own
        pub ssh_config: Option<Located<PathBuf>> = None,
        /// a pane that can be watched; default on other hosts that have tmux
        pub tmux: Option<bool> = None,
        /// the session of tmux; default `haft`
        #[read(Kind::Pattern("^[A-Za-z0-9][A-Za-z0-9_-]{0,47}$"), Entry::text)]
        pub session: Option<String> = None,
        /// the shell of the pane; default the usual one
        pub shell: Option<String> = None,
        /// where commands start on the target; default where its shells start
        #[also("dir", "cwd", "workdir", "workspace")]
        pub directory: Option<String> = None,
        /// the only directories of the target that `read_file` and `write_file` touch; default all but the
        /// system's own and those with keys
        #[also("files_allowed_paths", "allow", "read", "write")]
        pub files: Option<Vec<String>> = None,
        /// offer `run_shell`, `read_file` and `write_file` on this machine, in the place of `bash`, `read`,
        /// `write` and `edit`; default false
        pub target_tools: bool = false,
    }
}
