//! Where commands run, as the command line says it.

/// The target named on the command line, in place of `[backend]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// A running container.
    pub container: Option<String>,
    /// A host, as ssh is told it.
    pub ssh: Option<String>,
    /// Whether in a pane of tmux.
    pub tmux: Option<bool>,
    /// The session of tmux.
    pub session: Option<String>,
    /// Whether commands run on this machine whatever `[backend]` says.
    pub here: bool,
}
