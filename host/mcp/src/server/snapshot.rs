//! The served tools of one moment, and the snapshot that replaces them when program.toml or a plugin changes. A
//! running call keeps its snapshot.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::listing::{self, ListedTool};
use super::names::Names;
use super::offers::ClientOffers;
use super::questions::Questions;
use super::replicas::Memory;
use super::tasks::Tasks;
use haft_core::replicas::Replicas;
use haft_core::tool::{Approver, Entry, Served, Session, Toolbox, Widening};

/// Maximum wait of a first answer for new plugins and MCP servers with unknown tools: within the ten seconds that
/// the least patient clients give a server to start. `notifications/tools/list_changed` announces later tools.
pub const PATIENCE: Duration = Duration::from_secs(8);

/// The served tools, and their descriptions.
#[derive(Debug)]
pub struct ToolSnapshot {
    pub(super) toolbox: Toolbox,
    pub(super) session: Session,
    /// The names for clients.
    pub(super) names: Names,
    pub(super) tools: Vec<ListedTool>,
    pub(super) offers: ClientOffers,
    /// The place of each in `tools`, by the name that clients see.
    places: HashMap<String, usize>,
    pub(super) info: ServerInfo,
    /// Whether no plugin or server is still being listed.
    pub(super) is_complete: bool,
    /// The views of the callers, by name, if callers are identified.
    views: HashMap<String, Arc<ToolSnapshot>>,
}

/// The tool that a client names.
pub(super) struct FoundTool {
    /// The tool, if it exists.
    pub(super) entry: Option<Arc<Entry>>,
    /// The tool's name in the toolbox, or the unknown name.
    pub(super) own: String,
    /// The tool's index in the list for clients, if listed.
    pub(super) listed: Option<usize>,
}

/// Maximum number of characters of the instructions to models. Some clients cut there.
const MAX_INSTRUCTIONS: usize = 2000;

/// The description of the server for clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// A name for people; that of the program.
    pub title: Option<String>,
    /// The instructions to models.
    pub instructions: String,
    /// The instructions of MCP servers to models: the prefix of the server's tool names, and the text. Clients get
    /// those of servers that they see something of.
    pub of_servers: Vec<(String, String)>,
    /// Whether the program has one MCP server, whose URIs are unchanged.
    pub has_one_server: bool,
    /// Whether an MCP server is starting, which may have instructions for models.
    pub awaits_servers: bool,
}

/// The current snapshot. Clones share it.
#[derive(Clone, Debug)]
pub struct ToolSnapshots {
    now: watch::Receiver<Arc<ToolSnapshot>>,
    pub(super) questions: Questions,
    pub(super) fallback: Option<Fallback>,
    /// Rights that the user at a client of this machine, or at the page, may give to refused calls.
    pub(super) widening: Widening,
    pub(super) tasks: Tasks,
    /// The name of this machine, if this is one of several replicas.
    pub(super) machine: Option<Arc<str>>,
    /// The caller of this view; `None`: all tools.
    caller: Option<Arc<str>>,
}

/// The approvers if a client asks no user.
#[derive(Clone)]
pub struct Fallback {
    /// For calls of a client with a session, in which an answer may hold for further calls.
    pub in_session: Arc<dyn Approver>,
    /// For calls of which nothing else of the client is known.
    pub once: Arc<dyn Approver>,
}

impl std::fmt::Debug for Fallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fallback").finish_non_exhaustive()
    }
}

/// Replaces the current snapshot.
#[derive(Debug)]
pub struct Publisher(watch::Sender<Arc<ToolSnapshot>>);

impl ToolSnapshot {
    /// Returns the tools of `toolbox`. Calls get the contents of `session`, with the events, the cancel token and
    /// the approvals of their own client. `is_complete`: no plugin or server is still being listed.
    pub fn new(toolbox: Toolbox, session: Session, info: ServerInfo, is_complete: bool) -> Self {
        let names = Names { own_uris: info.has_one_server, ..Names::default() };
        Self::with_names(toolbox, session, names, info, is_complete)
    }

    fn with_names(
        toolbox: Toolbox,
        session: Session,
        names: Names,
        info: ServerInfo,
        is_complete: bool,
    ) -> Self {
        let tools = listing::client_tools(&toolbox, &names);
        let (offers, views) = (ClientOffers::of(&toolbox, &names), HashMap::new());
        Self { places: places(&tools), toolbox, session, names, tools, offers, info, is_complete, views }
    }

    /// Returns the snapshot with `prefix` removed from the names of its tools for clients: tools of a single plugin
    /// can have their original names.
    #[must_use]
    pub fn without_prefix(self, prefix: String) -> Self {
        let names = Names { prefix, ..self.names.clone() };
        self.named(names)
    }

    /// Returns the snapshot with the original names and URIs of the MCP server `server`, the only one that clients
    /// see.
    #[must_use]
    pub fn of_server(self, server: String) -> Self {
        let prefix = format!("mcp__{server}__");
        self.named(Names { prefix, alone: Some(server), own_uris: true })
    }

    fn named(self, names: Names) -> Self {
        let Self { toolbox, session, info, is_complete, views, .. } = self;
        Self { views, ..Self::with_names(toolbox, session, names, info, is_complete) }
    }

    /// Returns the snapshot with a view for each caller of `toolboxes`. Other callers see nothing.
    #[must_use]
    pub fn with_callers(self, toolboxes: impl IntoIterator<Item = (String, Toolbox)>) -> Self {
        let views = toolboxes.into_iter().map(|(name, toolbox)| {
            let (session, names, info) = (self.session.clone(), self.names.clone(), self.info.clone());
            (name, Arc::new(Self::with_names(toolbox, session, names, info, self.is_complete)))
        });
        Self { views: views.collect(), ..self }
    }

    fn empty(&self) -> Self {
        Self::new(Toolbox::default(), self.session.clone(), self.info.clone(), self.is_complete)
    }

    /// Returns whether clients see other tools than of `other`.
    fn differs_from(&self, other: &Self) -> bool {
        let is_other =
            |(name, view): (&String, &Arc<Self>)| other.views.get(name).is_none_or(|own| !own.is_like(view));
        !self.is_like(other) || self.views.len() != other.views.len() || self.views.iter().any(is_other)
    }

    /// Returns whether clients of one caller see no difference.
    fn is_like(&self, other: &Self) -> bool {
        self.tools == other.tools && self.offers == other.offers
    }

    /// Returns the instructions to models, at most `MAX_INSTRUCTIONS` characters.
    pub(super) fn instructions(&self) -> String {
        let is_seen = |prefix: &str| self.toolbox.names().any(|name| name.starts_with(prefix));
        let of_servers = self.info.of_servers.iter().filter(|(prefix, _)| is_seen(prefix));
        let words = of_servers.map(|(_, words)| words.as_str());
        let all = std::iter::once(self.info.instructions.as_str()).chain(words).flat_map(str::chars);
        all.take(MAX_INSTRUCTIONS).collect()
    }

    /// Returns whether the MCP server of a tool requires that its client supports tasks.
    pub(super) fn requires_task(&self, exposed: &str) -> bool {
        let found = self.places.get(exposed).and_then(|place| self.tools.get(*place));
        found.is_some_and(|tool| tool.requires_task)
    }

    /// Finds the tool that a client calls `exposed`.
    fn find(&self, exposed: &str) -> FoundTool {
        let listed = self.places.get(exposed).copied();
        let known = listed.and_then(|place| self.tools.get(place)).map(|tool| tool.own.clone());
        let own = known.unwrap_or_else(|| format!("{}{exposed}", self.names.prefix));
        if let Some(entry) = self.toolbox.entry(&own) {
            return FoundTool { entry: Some(entry.clone()), own, listed };
        }
        if let Some(entry) = self.toolbox.entry(exposed).filter(|_| !self.names.prefix.is_empty()) {
            return FoundTool { entry: Some(entry.clone()), own: exposed.to_owned(), listed };
        }
        let own = self.of_interface(exposed).unwrap_or_else(|| exposed.to_owned());
        let listed = self.tools.iter().position(|tool| tool.own == own);
        FoundTool { entry: self.toolbox.entry(&own).cloned(), own, listed }
    }

    /// Returns the tool that its own server calls `name`, if exactly one server with user interfaces has such a tool for
    /// them: an interface has the names of its server.
    fn of_interface(&self, name: &str) -> Option<String> {
        let served = || self.toolbox.entries().filter_map(|entry| Some((entry.served()?, entry)));
        let servers: Vec<&str> = served()
            .filter(|(served, _)| served.interface().is_some())
            .map(|(served, _)| served.server)
            .collect();
        let is_named = |served: &Served<'_>| {
            servers.contains(&served.server)
                && served.definition["name"] == name
                && served.is_visible_to("app")
        };
        let mut named = served().filter(|(served, _)| is_named(served));
        let (_, entry) = named.next().filter(|_| named.next().is_none())?;
        Some(entry.def().name.clone())
    }
}

/// Returns the index of each tool by its name. Of two tools with one name the first counts.
fn places(tools: &[ListedTool]) -> HashMap<String, usize> {
    let mut places = HashMap::with_capacity(tools.len());
    for (place, tool) in tools.iter().enumerate() {
        places.entry(tool.name.clone()).or_insert(place);
    }
    places
}

impl Publisher {
    /// Begins with `snapshot`.
    pub fn new(snapshot: ToolSnapshot) -> (Self, ToolSnapshots) {
        let (sender, receiver) = watch::channel(Arc::new(snapshot));
        let replicas = Arc::new(Memory::default());
        let snapshots = ToolSnapshots {
            now: receiver,
            questions: Questions::new(replicas.clone(), Vec::new()),
            tasks: Tasks::new(replicas, &[]),
            fallback: None,
            widening: Widening::default(),
            machine: None,
            caller: None,
        };
        (Self(sender), snapshots)
    }

    /// Serves `snapshot` from now on. Whether clients see a difference.
    pub fn publish(&self, snapshot: ToolSnapshot) -> bool {
        let differs = snapshot.differs_from(&self.0.borrow());
        self.0.send_replace(Arc::new(snapshot));
        differs
    }

    /// Returns when the last client's service has ended.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}

impl ToolSnapshots {
    /// Returns the publisher for several `replicas`, each of which knows the questions and long calls of all.
    /// `program` identifies the served program. Without it, questions and long calls are those of this process.
    #[must_use]
    pub fn with_replicas(self, replicas: Arc<dyn Replicas>, program: Vec<u8>) -> Self {
        let tasks = Tasks::new(replicas.clone(), &program);
        Self { tasks, questions: Questions::new(replicas, program), ..self }
    }

    /// Returns the publisher of a replica on the machine of this name.
    #[must_use]
    pub fn at_machine(self, name: String) -> Self {
        Self { machine: Some(name.into()), ..self }
    }

    /// Returns the publisher with the approvers for clients that ask no user.
    #[must_use]
    pub fn with_fallback(self, fallback: Fallback) -> Self {
        Self { fallback: Some(fallback), ..self }
    }

    /// Returns the publisher with the rights that a user behind a client on standard streams may give to refused
    /// calls.
    #[must_use]
    pub fn with_widening(self, widening: Widening) -> Self {
        Self { widening, ..self }
    }

    /// Returns its questions to clients.
    pub fn questions(&self) -> &Questions {
        &self.questions
    }

    pub(super) fn of_caller(&self, name: &str) -> Self {
        Self { caller: Some(name.into()), ..self.clone() }
    }

    pub(super) fn now(&self) -> Arc<ToolSnapshot> {
        self.seen_of(&self.now.borrow())
    }

    /// Returns the visible part of a snapshot.
    fn seen_of(&self, whole: &Arc<ToolSnapshot>) -> Arc<ToolSnapshot> {
        let Some(caller) = &self.caller else { return whole.clone() };
        whole.views.get(&**caller).cloned().unwrap_or_else(|| Arc::new(whole.empty()))
    }

    /// Returns the snapshot once every plugin and server is listed, or after [`PATIENCE`].
    pub(super) async fn complete(&self) -> Arc<ToolSnapshot> {
        self.complete_within(PATIENCE).await
    }

    /// Returns the complete snapshot, or the current one after `most`.
    pub(super) async fn complete_within(&self, most: Duration) -> Arc<ToolSnapshot> {
        let mut receiver = self.now.clone();
        let complete = receiver.wait_for(|snapshot| snapshot.is_complete);
        match tokio::time::timeout(most, complete).await {
            Ok(Ok(snapshot)) => self.seen_of(&snapshot),
            // No later snapshot will be published in time.
            Ok(Err(_)) | Err(_) => self.now(),
        }
    }

    /// Returns a snapshot with the tool `name`, if one is published in time, and the tool in it.
    pub(super) async fn with_tool(&self, name: &str) -> (Arc<ToolSnapshot>, FoundTool) {
        let now = self.now();
        let found = now.find(name);
        if now.is_complete || found.entry.is_some() {
            return (now, found);
        }
        let complete = self.complete().await;
        let found = complete.find(name);
        (complete, found)
    }

    /// Waits until clients would see other tools than `seen`. Returns `None` if no other tools will follow.
    pub(super) async fn other_than(&self, seen: &Arc<ToolSnapshot>) -> Option<Arc<ToolSnapshot>> {
        let mut receiver = self.now.clone();
        let is_other = |snapshot: &Arc<ToolSnapshot>| !self.seen_of(snapshot).is_like(seen);
        receiver.wait_for(is_other).await.ok().map(|snapshot| self.seen_of(&snapshot))
    }
}

#[cfg(test)]
pub(super) mod tests;
