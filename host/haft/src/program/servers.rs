//! MCP servers of a program as a source of tools. A server with a cached list is not started to list its tools. The
//! other servers are started concurrently, with a total wait of at most [`WAIT`].

mod written;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use self::written::{Written, secrets as oauth_secrets, settings};
use super::contribution::{Contribution, NewTool};
use super::dirs::Dirs;
use super::family::canonical;
use super::grants::{ProcessRights, Processes};
use super::logins::KeptLogin;
use super::options::{Ask, Options};
use super::packages::Installed;
use super::patterns;
use super::rights::Rights;
use super::server_pins::{Agreed, PinRecord};
use super::server_set::{Servers, Tracked, is_unknown};
use haft_core::report::{Problem, Span, plain};
use haft_core::secret::Redactor;
use haft_core::skill::{FILE, Shelved};
use haft_core::tool::Tool;
use haft_manifest::{Manifest, McpServer, Package, PackageSource, SecretSource, TextOrSecret, Transport};
use haft_mcp::client::oauth::OAuthSettings;
use haft_mcp::client::{
    self, Account, Config, Endpoint, Host, Rejected, RemoteTool, Server, ServerError, ServerOffer,
    ServerTool, ToolList, Values, server_skills, skill_pattern,
};
use haft_mcp::pins::{reason, way_out};

/// Time limit for all servers with unknown tools. A slower server continues to start, and is available at the next
/// load.
const WAIT: Duration = Duration::from_secs(30);

/// A declared server, and its rights.
struct Declared<'a> {
    server: &'a McpServer,
    /// The program.toml with the server.
    manifest: Arc<Manifest>,
    /// The rights of the server's process, if there is one.
    rights: ProcessRights,
    /// The place of the server, or of its package, in program.toml.
    span: Span,
    /// The package that contains the server.
    package: Option<&'a Package>,
    /// Whether a skill declares the server, which is then started at the first call of a tool.
    is_of_skill: bool,
}

/// Returns the contribution of all servers.
pub(super) async fn contribution(rights: &Rights<'_>) -> anyhow::Result<Contribution> {
    let Rights { options, dirs, confiner, .. } = rights;
    let (declared, problems) = without_duplicates(declared(rights));
    let own = |declared: &Declared<'_>| {
        let host = Host {
            confiner: confiner.clone(),
            grant: declared.rights.grant.clone(),
            table: declared.rights.table.clone(),
            elicitor: options.person.clone(),
            cache: Some(dirs.cache.join("servers")),
        };
        let config = declared.config(dirs, &options.redactor);
        let running = options.servers.same(&config, &host);
        let server = running.unwrap_or_else(|| Server::new(config, host));
        Tracked { changes: server.changes(), server }
    };
    let mut servers: Vec<_> = declared.iter().map(own).collect();
    let lists = lists(&servers, options).await;
    // A list that arrives after the wait is a change.
    for own in &mut servers {
        own.changes.mark_unchanged();
    }
    let each = declared.iter().zip(&servers).zip(&lists);
    let mut found: Contribution =
        each.map(|((declared, own), list)| of_one(rights, declared, &own.server, list.as_ref())).collect();
    found.problems.extend(problems);
    found.problems.extend(declared.iter().flat_map(Declared::withheld));
    found.servers = Servers(servers);
    Ok(found)
}

/// Returns the servers that run in this process: those of the program and all servers of installed packages,
/// because the installation included consent to them.
fn declared<'a>(rights: &Rights<'a>) -> Vec<Declared<'a>> {
    let Rights { manifest, placement, .. } = rights;
    let mut all = enabled(manifest, &rights.processes);
    all.retain(|declared| placement.runs(&declared.server.on));
    let installed = rights.installed.iter().zip(&rights.of_packages).filter(|_| !placement.is_worker());
    for (Installed { declared: package, bundle, .. }, processes) in installed {
        let (span, package) = (package.name.span, Some(*package));
        let enabled = enabled(&bundle.manifest, processes);
        let of_skills: Vec<&str> = bundle.skill_servers().map(|(server, _)| server.name.as_str()).collect();
        all.extend(enabled.into_iter().map(|server| {
            let is_of_skill = of_skills.contains(&server.name());
            Declared { span, package, is_of_skill, ..server }
        }));
    }
    all
}

/// Returns the enabled servers of a program.toml.
fn enabled<'a>(manifest: &'a Manifest, processes: &Processes) -> Vec<Declared<'a>> {
    let shared = Arc::new(manifest.clone());
    let declared = |(server, rights): (&'a McpServer, &ProcessRights)| Declared {
        server,
        manifest: shared.clone(),
        rights: rights.clone(),
        span: server.name.span,
        package: None,
        is_of_skill: server.skill.is_some(),
    };
    let all = manifest.mcp_servers.iter().zip(&processes.servers);
    all.filter(|(server, _)| server.enabled).map(declared).collect()
}

/// Returns the servers with unique names. Of two servers with one name the second is a problem.
fn without_duplicates(declared: Vec<Declared<'_>>) -> (Vec<Declared<'_>>, Vec<Problem>) {
    let (mut kept, mut problems) = (Vec::<Declared<'_>>::new(), Vec::new());
    for server in declared {
        if kept.iter().any(|other| other.name() == server.name()) {
            let text = format!("MCP server `{}` is left out: another server has this name", server.name());
            problems.push(Problem::new(text).at(server.span, "this server"));
        } else {
            kept.push(server);
        }
    }
    (kept, problems)
}

/// Returns the contribution of one server. `list` is the server's answer, if it was queried.
fn of_one(
    rights: &Rights<'_>,
    declared: &Declared<'_>,
    server: &Arc<Server>,
    list: Option<&Result<Arc<ToolList>, ServerError>>,
) -> Contribution {
    let mut found = declared.pinned(rights, server);
    let unusable = server.config().problem();
    let may_have_more = list.is_none() && unusable.is_none();
    match (unusable, list) {
        (Some(problem), _) => found.problems.push(problem.at(declared.span, "this server")),
        (None, Some(Err(error))) => found.problems.push(declared.problem(error)),
        _ => {}
    }
    // An old list is better than none if the server is unavailable.
    if let Some((listed, _)) = server.remembered() {
        found.tools = declared.tools(rights.manifest, server, &listed);
        found.offers = declared.prompts_and_resources(rights.manifest, server, &listed);
        found.skills = declared.skills(server, &listed);
        found.problems.extend(listed.offers.left_out.iter().map(|why| {
            let text = format!("MCP server `{}`: {why}", declared.name());
            Problem::new(text).at(declared.span, "this server").warning()
        }));
        found.problems.extend(listed.rejected.iter().map(|rejected| declared.rejection(rejected)));
        found.problems.extend(declared.idle_patterns(&listed));
        declared.tell_differences(server, &listed, &mut found);
    } else {
        found.is_partial = may_have_more;
        let why = format!("the tools of MCP server `{}` are not known", declared.name());
        found.unseen.note(patterns::server_prefix(declared.name()), why);
    }
    if rights.options.only.as_ref().is_some_and(|tool| !client::owns(declared.name(), tool)) {
        // Problems of an unused server are not reported.
        found.problems.clear();
        found.notices.clear();
        found.first_lists.clear();
    }
    if let Some(file) = declared.skill_file() {
        let of_skill = |problem: Problem| problem.without_place().hint(format!("it is declared in `{file}`"));
        found.problems = found.problems.into_iter().map(of_skill).collect();
    }
    found
}

impl Declared<'_> {
    /// Returns the server's name, which follows `mcp__` in the names of its tools.
    fn name(&self) -> &str {
        self.server.name.as_str()
    }

    /// Returns the SKILL.md that declares the server, outside of packages.
    fn skill_file(&self) -> Option<String> {
        let folder = self.server.skill.as_ref().filter(|_| self.package.is_none())?;
        Some(plain(&folder.join(FILE).display().to_string()))
    }

    fn tools(&self, program: &Manifest, server: &Arc<Server>, listed: &ToolList) -> Vec<NewTool> {
        let tools = listed.tools.iter().filter(|tool| self.offers(&tool.name));
        let tools = tools.map(|tool| Arc::new(ServerTool::new(server, listed, tool)));
        tools.map(|tool| self.new_tool(program, server, tool)).collect()
    }

    /// Returns the server's prompts and resources, which `tools` names as `prompts/NAME` and `resources/read`.
    fn prompts_and_resources(
        &self,
        program: &Manifest,
        server: &Arc<Server>,
        listed: &ToolList,
    ) -> Vec<NewTool> {
        let all = ServerOffer::all(server, listed).into_iter().filter(|(own, _)| self.offers(own));
        all.map(|(_, offer)| self.new_tool(program, server, Arc::new(offer))).collect()
    }

    /// Returns the server's skills, which `tools` names as `skills/NAME`.
    fn skills(&self, server: &Arc<Server>, listed: &ToolList) -> Vec<Shelved> {
        let all = server_skills(server, listed).into_iter().filter(|(own, _)| self.offers(own));
        all.map(|(_, skill)| skill).collect()
    }

    fn new_tool(&self, program: &Manifest, server: &Server, tool: Arc<dyn Tool>) -> NewTool {
        let place = self.skill_file().unwrap_or_else(|| program.source.place(self.span));
        let package = self.package.map(|package| format!(" of package `{}`", package.name.as_str()));
        let origin = format!("MCP server `{}`{} at {place}", self.name(), package.unwrap_or_default());
        let limits = client::limits(server.config());
        NewTool {
            on: self.server.on.clone(),
            ..NewTool::new(tool, self.rights.grant.clone(), limits, origin)
        }
    }

    fn config(&self, dirs: &Dirs, redactor: &Redactor) -> Config {
        let values = |pairs: &[(String, TextOrSecret)]| -> Arc<dyn Values> {
            Arc::new(Written {
                pairs: pairs.iter().filter(|(_, value)| self.may_have(value)).cloned().collect(),
                manifest: self.manifest.clone(),
                home: dirs.home.clone(),
                redactor: redactor.clone(),
            })
        };
        let endpoint = match &self.server.transport {
            Transport::Stdio { command, env } => Endpoint::Stdio {
                command: command.value.clone(),
                folder: self.manifest.folder.clone(),
                home: dirs.home.clone(),
                environment: values(env),
            },
            Transport::Http { url, headers, oauth } => {
                let says_who = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
                let settings = || settings(oauth, values);
                let account = (!says_who).then(|| self.account(&url.value, settings(), dirs, redactor));
                Endpoint::Http { url: url.value.clone(), headers: values(headers), account }
            }
        };
        Config {
            name: self.name().to_owned(),
            endpoint,
            timeout: self.server.timeout,
            limits: self.server.limits,
            on_use: self.is_of_skill,
            max_result: self.server.max_result.try_into().unwrap_or(usize::MAX),
            redactor: redactor.clone(),
        }
    }

    /// Returns the login at the server.
    fn account(&self, url: &str, settings: OAuthSettings, dirs: &Dirs, redactor: &Redactor) -> Arc<Account> {
        let package = self.package.map(|package| format!("{}/", package.name.as_str())).unwrap_or_default();
        let kept = KeptLogin::new((&(package + self.name()), url), dirs, &self.manifest, redactor);
        Account::new(self.name(), url, settings, Arc::new(kept), redactor.clone())
    }

    /// Returns whether the server may have a value. A package's server gets the variables granted to the package;
    /// the package's own program.toml is not a grant.
    fn may_have(&self, value: &TextOrSecret) -> bool {
        match (self.package, value) {
            (None, _) | (_, TextOrSecret::Text(_)) => true,
            (Some(package), TextOrSecret::Secret(SecretSource::Env(name))) => {
                package.grant.env.iter().any(|granted| granted == name.as_str())
            }
            // The source is the text in the program that has the package.
            (Some(package), TextOrSecret::Secret(SecretSource::Keyring(entry))) => {
                matches!(&package.source.value, PackageSource::Foreign(source) if source.names(entry))
            }
            (Some(_), TextOrSecret::Secret(SecretSource::File(_))) => false,
        }
    }

    /// Returns a problem for each requested value that the server does not get.
    fn withheld(&self) -> Vec<Problem> {
        let values = match &self.server.transport {
            Transport::Stdio { env, .. } => env.clone(),
            Transport::Http { headers, oauth, .. } => [&headers[..], &oauth_secrets(oauth)].concat(),
        };
        let withheld = values.iter().filter(|(_, value)| !self.may_have(value));
        let problem = |(name, value): &(String, TextOrSecret)| {
            let text = format!("MCP server `{}` is not granted `{name}`", self.name());
            let problem = Problem::new(text).at(self.span, "not granted to this package");
            match value {
                TextOrSecret::Secret(SecretSource::Env(name)) => {
                    problem.hint(format!("`env = [\"{name}\"]` in `[packages.grant]` allows it"))
                }
                _ => problem.hint("a package gets secrets only from variables"),
            }
        };
        withheld.map(problem).collect()
    }

    fn offers(&self, tool: &str) -> bool {
        let of_package = self.package.and_then(|package| package.tools.as_deref());
        let exposed = client::exposed(self.name(), tool);
        patterns::select(self.server.tools.as_deref(), tool) && patterns::select(of_package, &exposed)
    }

    /// Pins the tools of `server` before they are read. Without an agreement, the first list is pinned without
    /// consent or waits for it.
    fn pinned(&self, rights: &Rights<'_>, server: &Arc<Server>) -> Contribution {
        let mut found = Contribution::default();
        // The program decides on pinning; a package's setting does not count.
        if !self.server.pinned && self.package.is_none() {
            server.hold_to(None);
            return found;
        }
        let record = PinRecord::new(&rights.dirs.pins(), &canonical(&rights.manifest.path), server);
        let agreed = record.read().unwrap_or_else(|error| {
            let text = format!("cannot read the pins of MCP server `{}`: {error}", self.name());
            found.problems.push(Problem::new(text).at(self.span, "its tools are held back"));
            Some(Agreed::default())
        });
        server.hold_to(Some(Arc::new(agreed.as_ref().map(|agreed| agreed.pins.clone()).unwrap_or_default())));
        let listed = server.sent().filter(|listed| agreed.is_none() && listed.has_offers());
        let Some(first) = listed.map(|listed| record.first(server, &listed, &rights.loaded.lock)) else {
            return found;
        };
        let options = rights.options;
        let is_used = options.only.as_deref().is_none_or(|tool| client::owns(self.name(), tool));
        if !options.pins_first_lists || options.known_only || !is_used {
            let why = format!("you have not agreed to the tools of MCP server `{}` yet", self.name());
            found.held.push((
                patterns::server_prefix(self.name()),
                format!("{why}: `haft update {}` shows them", self.name()),
            ));
            found.first_lists.push(first);
            return found;
        }
        match first.agree() {
            Ok(()) => found.notices.push(first.line()),
            Err(error) => {
                found
                    .problems
                    .push(Problem::new(format!("{error:#}")).at(self.span, "this server").warning());
            }
        }
        found
    }

    /// Reports the differences between `server`'s list and the agreed one, one a line. Tools that are held back are
    /// omitted, and their calls get the reason.
    fn tell_differences(&self, server: &Server, listed: &ToolList, found: &mut Contribution) {
        if !found.first_lists.is_empty() {
            return;
        }
        // Patterns name a skill by its name, and pins by its URI.
        let is_offered = |own: &str| self.offers(skill_pattern(listed, own).as_deref().unwrap_or(own));
        let differences = listed.differences.iter().filter(|one| is_offered(one.tool()));
        let hint = way_out(&server.config().name);
        for one in differences {
            let line = format!("MCP server `{}`: {one}", self.name());
            let exposed = client::exposed(self.name(), one.tool());
            let what = if one.holds() { "held back until you agree" } else { "this server" };
            found.problems.push(Problem::new(line).at(self.span, what).warning().hint(hint.clone()));
            found.held.push((exposed, reason(self.name(), one)));
        }
    }

    fn problem(&self, error: &ServerError) -> Problem {
        let problem = Problem::new(format!("MCP server `{}` {error}", self.name()));
        let problem = problem.at(self.span, "its tools are left out");
        error.hints().into_iter().fold(problem, Problem::hint)
    }

    fn rejection(&self, rejected: &Rejected) -> Problem {
        let Rejected { tool, why } = rejected;
        let what = match tool {
            Some(tool) => format!("tool `{tool}` of MCP server `{}` is left out: {why}", self.name()),
            None => format!("MCP server `{}`: {why}", self.name()),
        };
        Problem::new(what).at(self.span, "this server")
    }

    /// Returns a problem for each pattern of `tools` without a tool.
    fn idle_patterns(&self, listed: &ToolList) -> Vec<Problem> {
        let prompts = listed.offers.prompts.iter().filter_map(|prompt| prompt["name"].as_str());
        let prompts: Vec<String> = prompts.map(|name| format!("prompts/{name}")).collect();
        let skills = listed.offers.skills.iter();
        let skills: Vec<String> =
            skills.filter_map(|skill| skill_pattern(listed, skill["uri"].as_str()?)).collect();
        let others = prompts.iter().chain(&skills).map(String::as_str).chain(["resources/read"]);
        let names = listed.sent.iter().filter_map(|tool| tool["name"].as_str()).chain(others);
        let names: Vec<&str> = names.collect();
        let owner = format!("MCP server `{}`", self.name());
        patterns::problems(&owner, ("tools", self.span), &names, self.server.tools.iter().flatten())
    }
}

/// Requests the list of `server`, and waits for it at most [`WAIT`].
pub(super) async fn list(server: &Arc<Server>) -> Result<Arc<ToolList>, ServerError> {
    tokio::time::timeout(WAIT, server.list()).await.unwrap_or(Err(ServerError::Late(WAIT)))
}

/// Returns the list of each queried server; `None` for a server that is not queried.
async fn lists(servers: &[Tracked], options: &Options) -> Vec<Option<Result<Arc<ToolList>, ServerError>>> {
    if let Ask::Failed(failed) = &options.ask {
        let error = |own: &Tracked| failed.iter().find(|(name, _)| *name == own.server.config().name);
        return servers.iter().map(|own| error(own).map(|(_, error)| Err(error.clone()))).collect();
    }
    let mut asking = JoinSet::new();
    for (index, own) in servers.iter().enumerate().filter(|(_, own)| must_ask(&own.server, options)) {
        let server = own.server.clone();
        asking.spawn(async move { (index, list(&server).await) });
    }
    let mut lists: Vec<_> = servers.iter().map(|_| None).collect();
    for (index, list) in asking.join_all().await {
        if let Some(place) = lists.get_mut(index) {
            *place = Some(list);
        }
    }
    lists
}

/// Returns whether `server` is queried. If only one tool is called, the server is queried unless its list, of any
/// age, has the tool.
fn must_ask(server: &Server, options: &Options) -> bool {
    if server.config().problem().is_some() {
        return false;
    }
    match (&options.ask, &options.only) {
        (Ask::Never | Ask::Failed(_), _) => false,
        (Ask::Always, _) => true,
        (Ask::WhereUnknown, None) => is_unknown(server),
        (Ask::WhereUnknown, Some(tool)) => {
            let name = &server.config().name;
            let is_it = |own: &RemoteTool| client::exposed(name, &own.name).eq_ignore_ascii_case(tool);
            let has = |listed: &ToolList| listed.tools.iter().any(is_it);
            client::owns(name, tool) && server.remembered().is_none_or(|(listed, _)| !has(&listed))
        }
    }
}
