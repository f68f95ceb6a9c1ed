//! A served program: publishes its known tools at once, the other tools after their discovery, and all tools
//! again when its files change. If program.toml becomes invalid, the last snapshot stays in use. MCP servers
//! with an unchanged declaration keep running with their state.

mod audience;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::task::JoinSet;

use self::audience::{Audience, about};
use super::dirs::create_private;
use super::{Ask, Known, Options, Placement, Program, Running, Trust, Untrusted, replicas, servers};
use haft_agent::Begun;
use haft_author::watch::{FileWatch, Moment};
use haft_callers::Callers;
use haft_core::event::Events;
use haft_core::report::{Problem, Report};
use haft_core::tool::Toolbox;
use haft_manifest::{Serve, ToolPattern};
use haft_mcp::client::{Server, ServerError};
use haft_mcp::server::{Publisher, ToolSnapshot, ToolSnapshots};
use haft_sandbox::confine::{Confiner, Layers};

/// News about a served program for the user.
#[derive(Debug)]
pub enum News<'a> {
    /// A part of the program has problems; the rest is served.
    Problems(&'a Report),
    /// The program can no longer be loaded; the last snapshot stays in use.
    Broken(&'a anyhow::Error),
    /// The program has changed, but workers do not have the change yet; the last snapshot stays in use.
    Ahead,
    /// The files have changed, possibly by a tool, and are read at the next start only.
    Held,
    /// The program was loaded again. The value: whether the tools for clients have changed.
    Reloaded(bool),
    /// A completed action of the load.
    Notice(&'a str),
    /// Changes of the files cannot be observed.
    Unwatched(&'a anyhow::Error),
}

/// A program that is served.
pub struct Live {
    options: Options,
    choice: ToolChoice,
    audience: Audience,
    files: Vec<PathBuf>,
    /// The time at which the last reading of the files began.
    read: Moment,
    /// The state of the files at the start.
    started: Moment,
    /// The directory of agreements, which no tool writes.
    agreements: PathBuf,
    is_complete: bool,
    /// The running resources.
    pub running: Running,
    /// `[serve]` as of the start: the number of clients, and the URL.
    pub serve: Serve,
    /// The callers, if `[[serve.callers]]` existed at the start. The set of callers changes with the program.
    pub callers: Option<Callers>,
    /// Whether commands ran without a pane at the start and neither program.toml nor the command line decided that.
    pub is_without_pane: bool,
    /// The program's name and place as of the start.
    pub begun: Begun,
    placement: Placement,
    /// Whether workers may have tools of MCP servers that only the workers know.
    has_worker_servers: bool,
    on_news: Box<NewsHandler>,
}

/// The selection of the served tools.
#[derive(Clone, Debug, Default)]
pub struct ToolChoice {
    /// The patterns of the served tools; all tools if empty.
    pub patterns: Vec<ToolPattern>,
    /// Only the tools of this plugin, under their original names.
    pub plugin: Option<String>,
    /// Only the tools of this MCP server, under their original names.
    pub server: Option<String>,
    /// Whether callers are identified, as with HTTP.
    pub for_callers: bool,
}

type NewsHandler = dyn Fn(News<'_>) + Send + Sync;

impl Live {
    /// Loads the known parts of a program: compiles, runs and starts nothing.
    pub async fn start(
        mut options: Options,
        choice: ToolChoice,
        on_news: impl Fn(News<'_>) + Send + Sync + 'static,
    ) -> anyhow::Result<(Self, ToolSnapshots)> {
        // One confiner for all loads: one process starts all children.
        options.confiner.get_or_insert_default();
        let known = Options { known_only: true, ask: Ask::Never, ..options.clone() };
        let read = Moment::now();
        let program = Program::load(&known).await?;
        choice.check(&program)?;
        if let Some(report) = choice.misnamed(&program).or_else(|| program.report_of_rules()) {
            return Err(report.into());
        }
        let is_complete = program.is_complete && program.servers.unknown().is_empty();
        program.notices.iter().for_each(|notice| on_news(News::Notice(notice)));
        if is_complete && let Some(report) = program.report() {
            on_news(News::Problems(&report));
        }
        if choice.for_callers && program.left_out.has_callers() {
            return Err(Untrusted(Box::new(program.agreement.clone())).into());
        }
        read_skills(&program).await;
        let (first, problems) = snapshot(&program, &choice)?;
        if is_complete && !problems.is_empty() {
            on_news(News::Problems(&program.manifest.report(problems)));
        }
        let rules = if choice.for_callers { audience::rules(&program).await? } else { Vec::new() };
        let callers = Some(Callers::default()).filter(|_| !rules.is_empty());
        if let Some(callers) = &callers {
            callers.replace(rules).await?;
        }
        let (publisher, offers) = Publisher::new(first);
        let served = Self::new(options, Audience::Clients(publisher), &program, read, Box::new(on_news));
        let offers = replicas::shared(offers, &program, &served.running, choice.for_callers);
        let has_worker_servers = has_worker_servers(&program);
        Ok((Self { choice, is_complete, callers, has_worker_servers, ..served }, offers))
    }

    /// Creates the served `program`, whose files were read at `read`. All of its tools are loaded, and have no callers.
    fn new(
        mut options: Options,
        audience: Audience,
        program: &Program,
        read: Moment,
        on_news: Box<NewsHandler>,
    ) -> Self {
        options.trust = program.trusted_from_now_on(&options.trust);
        let running = Running::default();
        running.put(program);
        Self {
            options,
            choice: ToolChoice::default(),
            audience,
            files: program.files.clone(),
            read,
            started: read,
            agreements: program.dirs.trust(),
            is_complete: true,
            running,
            serve: program.manifest.serve.clone(),
            callers: None,
            is_without_pane: program.is_without_pane,
            begun: program.begun(),
            placement: program.placement.clone(),
            has_worker_servers: false,
            on_news,
        }
    }

    /// Loads pending parts and changes, until serving ends.
    pub async fn keep(mut self) {
        let mut watch = self.watch();
        ask(self.running.servers().outdated()).detach_all();
        let has_changed = self.read.is_before_a_change_of(&self.files);
        let mut was_told = false;
        let (mut is_due, mut is_again) = (!self.is_complete || has_changed, self.is_complete || has_changed);
        loop {
            if !is_due && self.waits(watch.as_mut()).await {
                return;
            }
            if self.is_held() {
                if !was_told {
                    (self.on_news)(News::Held);
                }
                (was_told, is_due) = (true, false);
                continue;
            }
            if !self.has_ended_outdated().await {
                is_due = false;
                continue;
            }
            let files = self.files.clone();
            self.read = Moment::now();
            let loaded = self.load().await;
            // The first complete program may equal the initial one.
            if let Some(is_other) = loaded.filter(|_| is_again) {
                (self.on_news)(News::Reloaded(is_other));
            }
            is_again = true;
            is_due = files != self.files && {
                watch = self.watch();
                self.read.is_before_a_change_of(&self.files)
            };
        }
    }

    /// Ends the processes with seals on replaced files, before the change takes effect. Returns whether all have
    /// ended; otherwise the change does not take effect.
    async fn has_ended_outdated(&self) -> bool {
        let Some(confiner) = &self.options.confiner else { return true };
        self.or_told(confiner.end_outdated().await).is_some()
    }

    /// Returns the value; reports an error, with which the last snapshot stays in use.
    fn or_told<T, E: Into<anyhow::Error>>(&self, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| (self.on_news)(News::Broken(&error.into()))).ok()
    }

    /// Returns whether the files have changed and the kernel does not protect them from tools.
    fn is_held(&self) -> bool {
        let layers = self.options.confiner.as_ref().map_or(Layers::NONE, Confiner::layers);
        let own = self.files.iter().filter(|file| !file.starts_with(&self.agreements));
        layers != Layers::NONE
            && !layers.fix_files()
            && self.started.is_before_a_change_of(&own.cloned().collect::<Vec<_>>())
    }

    /// Waits for a change. Returns whether serving has ended.
    async fn waits(&self, watch: Option<&mut FileWatch>) -> bool {
        let changed = async {
            match watch {
                Some(watch) => watch.changed().await,
                None => std::future::pending().await,
            }
        };
        let servers = self.running.servers();
        let placement = self.placement.clone();
        tokio::select! {
            () = self.audience.closed() => true,
            () = changed => false,
            () = servers.changed() => false,
            () = placement.changed(), if self.has_worker_servers => false,
        }
    }

    fn watch(&self) -> Option<FileWatch> {
        let watch = FileWatch::start(&self.files);
        watch.inspect_err(|error| (self.on_news)(News::Unwatched(error))).ok()
    }

    /// Loads the whole program, and again when MCP servers with unknown tools answer: each delays only itself.
    /// Returns whether the tools for clients have changed; `None` if the program cannot be loaded.
    async fn load(&mut self) -> Option<bool> {
        ask(self.running.servers().unknown()).detach_all();
        let mut is_other = Box::pin(self.load_asking(Ask::Never, false)).await?;
        let (mut asking, mut failed) = (ask(self.running.servers().unknown()), Vec::new());
        while let Some(answer) = asking.join_next().await {
            // One load is enough for the answers that are there.
            let others = std::iter::from_fn(|| asking.try_join_next());
            failed.extend(std::iter::once(answer).chain(others).filter_map(Result::ok).flatten());
            let (ask, is_last) = (Ask::Failed(failed.clone()), asking.is_empty());
            is_other |= Box::pin(self.load_asking(ask, is_last)).await?;
        }
        Some(is_other)
    }

    /// Loads the program. `is_last`: no answer of an MCP server is awaited.
    async fn load_asking(&mut self, ask: Ask, is_last: bool) -> Option<bool> {
        let servers = self.running.servers();
        let mark = self.placement.gate().map_or(0, |gate| gate.mark());
        let loaded = Program::load(&Options { ask, servers, ..self.options.clone() }).await;
        let program = self.audience.own(self.or_told(loaded)?);
        program.notices.iter().for_each(|notice| (self.on_news)(News::Notice(notice)));
        let is_last = is_last || program.servers.unknown().is_empty();
        // A rule without a tool may be meant to refuse a call.
        self.or_told(program.report_of_rules().map_or(Ok(()), Err))?;
        let (snapshot, problems) = self.admitting(&program).await?;
        let wrong = [program.problems.clone(), problems].concat();
        if !wrong.is_empty() && is_last {
            (self.on_news)(News::Problems(&program.manifest.report(wrong)));
        }
        if let Some(report) = self.choice.misnamed(&program).filter(|_| is_last) {
            (self.on_news)(News::Problems(&report));
        }
        if !self.workers_follow(&program, mark).await {
            return None;
        }
        let is_other = self.or_told(self.audience.publish(snapshot, &program))?;
        self.files.clone_from(&program.files);
        self.placement = program.placement.clone();
        self.has_worker_servers = has_worker_servers(&program);
        self.running.put(&program);
        Some(is_other)
    }

    /// Returns the snapshot of `program`, and replaces the admitted callers by its callers. `None` after an
    /// error, which is reported.
    async fn admitting(&self, program: &Program) -> Option<(ToolSnapshot, Vec<Problem>)> {
        let admit = async {
            read_skills(program).await;
            let served = snapshot(program, &self.choice)?;
            if let Some(callers) = &self.callers {
                callers.replace(audience::rules(program).await?).await?;
            }
            anyhow::Ok(served)
        };
        self.or_told(admit.await)
    }
}

impl Program {
    /// Returns the trust in changes of the program: existing permissions, and those that the user agrees to
    /// later. A change of files alone widens no right.
    fn trusted_from_now_on(&self, trust: &Trust) -> Trust {
        // Only an existing folder can be watched. If haft cannot create it, no agreement can be stored.
        let _ = create_private(&self.dirs.trust());
        Trust::LeftOut(match trust {
            Trust::Everything => self.agreement.known(),
            Trust::LeftOut(known) => known.clone(),
            Trust::Agreed => Known::default(),
        })
    }
}

/// Requests the lists of MCP servers, which cache the answers. A failure has the name of its server.
fn ask(servers: Vec<Arc<Server>>) -> JoinSet<Option<(String, ServerError)>> {
    let answer = |server: Arc<Server>| async move {
        let error = servers::list(&server).await.err()?;
        Some((server.config().name.clone(), error))
    };
    servers.into_iter().map(answer).collect()
}

impl ToolChoice {
    /// Refuses a plugin or server that does not exist: with a misspelt name nothing would be served.
    fn check(&self, program: &Program) -> anyhow::Result<()> {
        let plugins = program.manifest.plugins.iter().map(|plugin| plugin.name.as_str());
        let servers = program.servers.iter().map(|server| server.config().name.as_str());
        is_there(("--plugin", "plugin"), self.plugin.as_deref(), plugins)?;
        is_there(("--server", "MCP server"), self.server.as_deref(), servers)
    }

    fn misnamed(&self, program: &Program) -> Option<Report> {
        let (wrong, _) = program.misnamed("`--tools`", &self.of_one(&program.toolbox), &self.patterns, false);
        (!wrong.is_empty()).then(|| program.manifest.report(wrong))
    }

    fn of_one(&self, toolbox: &Toolbox) -> Toolbox {
        let pattern = self.plugin.as_ref().map(|plugin| format!("{plugin}__*"));
        let own = pattern.or_else(|| self.server.as_ref().map(|server| format!("mcp__{server}__*")));
        let own = own.and_then(|own| own.parse().ok());
        own.map_or_else(|| toolbox.clone(), |own| toolbox.select(&[own], None))
    }

    fn select(&self, toolbox: &Toolbox) -> Toolbox {
        let toolbox = self.of_one(toolbox);
        if self.patterns.is_empty() { toolbox } else { toolbox.select(&self.patterns, None) }
    }
}

/// Refuses a `name` that is not one of `there`.
fn is_there<'a>(
    (option, kind): (&str, &str),
    name: Option<&str>,
    there: impl Iterator<Item = &'a str>,
) -> anyhow::Result<()> {
    let all: Vec<_> = there.collect();
    let Some(name) = name.filter(|name| !all.contains(name)) else { return Ok(()) };
    let all: Vec<_> = all.iter().map(|name| format!("`{name}`")).collect();
    let there = if all.is_empty() { "none".into() } else { all.join(", ") };
    anyhow::bail!("`{option}`: this program has no {kind} `{name}`; it has {there}")
}

/// Returns whether workers may have tools of MCP servers that only the workers know.
fn has_worker_servers(program: &Program) -> bool {
    program.manifest.mcp_servers.iter().any(|server| server.enabled && !server.on.is_empty())
}

/// Reads the skills for clients in advance, on a thread that may block.
async fn read_skills(program: &Program) {
    let toolbox = program.toolbox.clone();
    // The first query of a skill reads and hashes its files.
    let read = move || {
        toolbox.offers().for_each(|entry| {
            let _ = entry.offer();
        });
    };
    // If this thread fails, the snapshot reads the skills.
    let _ = tokio::task::spawn_blocking(read).await;
}

/// Returns the snapshot of a program, and problems for tools that callers name and do not get.
fn snapshot(program: &Program, choice: &ToolChoice) -> anyhow::Result<(ToolSnapshot, Vec<Problem>)> {
    program.journal.gather();
    let (toolbox, session) = (choice.select(&program.toolbox), program.session("serve", Events::none()));
    let (views, problems) =
        if choice.for_callers { audience::views(program, &toolbox)? } else { Default::default() };
    let snapshot = ToolSnapshot::new(toolbox, session, about(program, choice), program.is_complete);
    let snapshot = match (&choice.plugin, &choice.server) {
        (Some(plugin), _) => snapshot.without_prefix(format!("{plugin}__")),
        (None, Some(server)) => snapshot.of_server(server.clone()),
        (None, None) => snapshot,
    };
    Ok((snapshot.with_callers(views), problems))
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("files", &self.files).finish_non_exhaustive()
    }
}
