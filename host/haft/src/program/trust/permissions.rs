//! The permissions that a program.toml requests beyond tools that work in its own folder, one line each. The code names
//! every field of a table, so that the compiler reports a new field.

mod processes;

use std::path::{Path, PathBuf};

use super::permission::{Part, Permission, of_path, pinned, place, shown, values};
use haft_agent::provider;
use haft_core::grant::{Root, SandboxMode};
use haft_core::report::item;
use haft_manifest::{
    AgentKind, AgentTool, BackendTable, Builtins, CallerTable, Component, GrantTable, Located, Manifest,
    McpServer, NatsLogin, NatsTable, NatsUrl, Package, Plugin, PluginSecret, Provider, Sandbox, SecretSource,
    Serve, Setting, Settings, TelemetryTable, TextOrSecret, Transport,
};
use haft_package::{Kind, Lock};

/// Finds the permissions of one program.toml.
struct Finder<'a> {
    manifest: &'a Manifest,
    lock: &'a Lock,
    home: &'a Path,
    /// The folder of program.toml, which needs no consent; `None` if it cannot be resolved.
    folder: Option<Root>,
    permissions: Vec<Permission>,
}

/// Returns the permissions that `manifest` requests, none without a file. `lock` has the pins of its packages; `home` is `~`.
pub(super) fn permissions(manifest: &Manifest, lock: &Lock, home: &Path) -> Vec<Permission> {
    if manifest.file().is_none() {
        return Vec::new();
    }
    let folder = Root::resolve(Path::new("/"), &manifest.folder).ok();
    let mut finder = Finder { manifest, lock, home, folder, permissions: Vec::new() };
    finder.all();
    finder.permissions
}

impl Finder<'_> {
    fn all(&mut self) {
        let Manifest {
            tools,
            plugins,
            packages,
            mcp_servers,
            provider,
            agents,
            serve,
            telemetry,
            nats,
            network,
            sandbox,
            backend,
            builtins,
            // Not rights.
            path: _,
            folder: _,
            source: _,
            written: _,
            program: _,
            required_tools: _,
            journal: _,
            agent: _,
            // Searched on PATH, and never run.
            host_requirements: _,
            // Run only by `haft plugin build` and `haft plugin dev`, as other build tools run the code of a project.
            build: _,
        } = self.manifest;
        if let Some(provider) = provider {
            self.provider(provider);
        }
        mcp_servers.iter().filter(|server| server.enabled).for_each(|server| self.server(server));
        for tool in tools {
            self.command(tool);
        }
        packages.iter().filter(|package| package.enabled).for_each(|package| self.package(package));
        if self.has_usual_processes()
            || packages.iter().any(|own| own.enabled && !own.source.value.is_foreign())
        {
            self.children(sandbox);
        }
        plugins.iter().filter(|plugin| plugin.enabled).for_each(|plugin| self.plugin(plugin));
        agents.iter().filter(|agent| agent.enabled).for_each(|agent| self.agent(agent));
        self.sandbox(sandbox);
        self.backend(backend);
        self.builtins(builtins);
        self.nats(nats);
        self.permissions.extend(super::permission::of_network(network));
        if let Some(telemetry) = telemetry {
            self.telemetry(telemetry);
        }
        self.serve(serve);
    }

    /// Returns whether a process has no grant of its own.
    fn has_usual_processes(&self) -> bool {
        let is_usual = |server: &McpServer| {
            server.enabled && server.grant.is_none() && matches!(server.transport, Transport::Stdio { .. })
        };
        self.manifest.tools.iter().any(|tool| tool.grant.is_none())
            || self.manifest.mcp_servers.iter().any(is_usual)
    }

    fn ask(&mut self, part: Part, text: impl AsRef<str>) {
        self.permissions.push(Permission::new(part, text.as_ref()));
    }

    fn provider(&mut self, own: &Provider) {
        let Provider {
            name,
            base_url,
            api_key,
            headers,
            format: _,
            model: _,
            model_fast: _,
            model_complex: _,
            extra_body: _,
            stream: _,
            effort: _,
            max_tokens: _,
            context_window: _,
            timeout: _,
            connect_timeout: _,
            first_byte_timeout: _,
            idle_timeout: _,
            max_retries: _,
            prices: _,
        } = own;
        let name = name.value.as_str();
        let usual = provider::kind(name).map_or("", |kind| kind.key_variable);
        let is_usual =
            |key: &SecretSource| matches!(key, SecretSource::Env(variable) if variable.as_str() == usual);
        let secrets = headers.iter().any(|(_, value)| matches!(value, TextOrSecret::Secret(_)));
        let own_key = api_key.as_ref().filter(|key| base_url.is_some() || !is_usual(key));
        if base_url.is_none() && own_key.is_none() && !secrets {
            return;
        }
        let address = base_url.as_ref().map_or("its own address", |url| &url.value);
        let key = own_key.map(place).or_else(|| Some(format!("${usual}")).filter(|_| !usual.is_empty()));
        let key = key.map(|key| format!(", gets the key in {key}")).unwrap_or_default();
        self.ask(Part::Provider, format!("{name} at {address}{key}{}", values("; header", headers)));
    }

    fn plugin(&mut self, plugin: &Plugin) {
        let Plugin {
            name,
            component,
            hooks,
            grant,
            config,
            secrets,
            signer: _,
            enabled: _,
            tools: _,
            descriptions: _,
            titles: _,
            hints: _,
            confirm: _,
            limits: _,
            reuse: _,
            on: _,
        } = plugin;
        let part = Part::Plugin(name.as_str().to_owned());
        let (name, before) = (name.as_str(), self.permissions.len());
        if let Some(hooks) = hooks {
            let hooks = hooks.iter().map(|hook| hook.value.as_str()).collect::<Vec<_>>().join(", ");
            self.ask(part.clone(), format!("`{name}` sees and may refuse the calls of {hooks}"));
        }
        self.granted(&part, name, (grant, config.as_ref(), secrets));
        let (from, is_fetched) = match &component.value {
            Component::File(path) => (of_path(path), false),
            Component::Url(from) | Component::Oci(from) => (from.clone(), true),
        };
        // The component of a plugin with rights is a part of the permission.
        if is_fetched || self.permissions.len() > before {
            let text = format!("`{name}` from {from}{}", pinned(self.lock, Kind::Plugin, name));
            self.permissions.insert(before, Permission::new(part, &text));
        }
    }

    fn package(&mut self, package: &Package) {
        let Package { name, source, grant, config, secrets, signer: _, enabled: _, tools: _ } = package;
        let part = Part::Package(name.as_str().to_owned());
        let (name, lock) = (name.as_str(), self.lock);
        let pin = pinned(lock, Kind::Package, name);
        self.ask(part.clone(), format!("`{name}` from {}{pin}", item(&source.value.to_string())));
        // The server of the package is a process, to which denied paths of `[sandbox]` are closed too.
        let closed: &[_] = if source.value.is_foreign() { &self.manifest.sandbox.deny } else { &[] };
        let grant = GrantTable { deny: [&grant.deny[..], closed].concat(), ..grant.clone() };
        self.granted(&part, name, (&grant, config.as_ref(), secrets));
    }

    fn granted(&mut self, part: &Part, name: &str, with: (&GrantTable, Option<&Settings>, &[PluginSecret])) {
        let (table, config, secrets) = with;
        let GrantTable { read, write, hosts, env, deny, credentials, state: _, cache: _ } = table;
        let but = self.but(deny);
        for path in self.outside(read) {
            self.ask(part.clone(), format!("`{name}` reads {path}{but}"));
        }
        for path in self.outside(write) {
            self.ask(part.clone(), format!("`{name}` writes {path}{but}"));
        }
        for host in hosts {
            self.ask(part.clone(), format!("`{name}` reaches {host}"));
        }
        for store in credentials {
            self.ask(part.clone(), format!("`{name}` reads your {store} credentials"));
        }
        for variable in env {
            self.ask(part.clone(), format!("`{name}` sees ${variable}"));
        }
        for (key, setting) in config.into_iter().flatten() {
            if let Setting::Secret(source) = setting {
                self.ask(part.clone(), format!("`{name}` gets {} as `{}`", place(source), key.value));
            }
        }
        for PluginSecret { host, header, source, name: _, prefix: _ } in secrets {
            self.ask(part.clone(), format!("`{name}` sends {} to {host} as {header}", place(source)));
        }
    }

    fn agent(&mut self, agent: &AgentTool) {
        let AgentTool { name, kind, description: _, enabled: _, max_turns: _, timeout: _, output: _ } = agent;
        if let AgentKind::Program(program) = kind {
            let path = self.manifest.resolve(&program.value, self.home);
            self.ask(Part::Agents, format!("`{}`: {}", name.as_str(), path.display()));
        }
    }

    fn sandbox(&mut self, sandbox: &Sandbox) {
        let Sandbox {
            mode,
            workspace,
            write,
            services,
            credentials,
            secrets,
            read: _,
            network: _,
            hosts: _,
            deny: _,
        } = sandbox;
        for path in self.outside(workspace.as_slice()) {
            self.ask(Part::Workspace, format!("`bash` and the tools for files work in {path}"));
        }
        if *mode == SandboxMode::Rwx {
            self.ask(Part::Sandbox, "mode rwx: `bash` writes anywhere");
        }
        for path in self.outside(write) {
            self.ask(Part::Sandbox, format!("writes {path}"));
        }
        for store in credentials {
            self.ask(Part::Sandbox, format!("`bash` reads your {store} credentials"));
        }
        for service in services {
            self.ask(Part::Sandbox, format!("`bash` {}", service.meaning()));
        }
        self.process_secrets(&Part::Sandbox, "bash", secrets);
    }

    fn backend(&mut self, backend: &BackendTable) {
        let BackendTable {
            container,
            engine,
            ssh,
            ssh_config,
            shell,
            directory,
            files,
            // Commands in a pane have equal confinement.
            tmux: _,
            session: _,
            target_tools: _,
        } = backend;
        let with = [
            engine.filter(|_| ssh.is_none()).map(|engine| format!(", by {}", engine.as_str())),
            ssh_config.as_ref().map(|path| format!(", by {}", of_path(&path.value))),
            shell.as_ref().map(|shell| format!(", with {}", item(shell))),
            directory.as_ref().map(|directory| format!(", in {}", item(directory))),
            files.as_ref().map(|files| {
                format!(", files in {}", files.iter().map(|file| item(file)).collect::<Vec<_>>().join(", "))
            }),
        ];
        let with: String = with.into_iter().flatten().collect();
        let place = ssh.as_ref().map(|ssh| item(&ssh.value).into_owned());
        let place = place.or_else(|| container.as_ref().map(|name| format!("the container {}", item(name))));
        if let Some(place) = place {
            self.ask(Part::Backend, format!("commands run on {place}{with}"));
        }
    }

    fn builtins(&mut self, builtins: &Builtins) {
        let Builtins {
            search_url,
            fetch_allow,
            shell: _,
            files: _,
            fetch: _,
            search: _,
            time: _,
            tmux: _,
            shell_confirm: _,
            shell_deny: _,
            fetch_confirm: _,
            shell_timeout: _,
            fetch_block: _,
            on: _,
        } = builtins;
        if *search_url != Builtins::default().search_url {
            self.ask(Part::Search, format!("asks {search_url}"));
        }
        for host in fetch_allow {
            self.ask(Part::Fetch, format!("reaches {host}"));
        }
    }

    fn nats(&mut self, nats: &NatsTable) {
        let NatsTable { urls, login, ca, certificate, prefix, storage: _ } = nats;
        let login = login.as_ref().map(|login| match login {
            NatsLogin::User(TextOrSecret::Secret(user), password) => {
                format!(" with {} and {}", place(user), place(password))
            }
            NatsLogin::User(TextOrSecret::Text(user), password) => {
                format!(" as {} with {}", item(user), place(password))
            }
            NatsLogin::Token(source) | NatsLogin::Credentials(source) | NatsLogin::Nkey(source) => {
                format!(" with {}", place(source))
            }
        });
        let ca = ca.as_ref().map(|ca| format!(", trusts {}", of_path(&ca.value)));
        let key = certificate
            .as_ref()
            .map(|(own, key)| format!(", shows {} with the key in {}", of_path(own), of_path(key)));
        let prefix = prefix.as_ref().map(|prefix| format!(", prefix {}", prefix.as_str()));
        let with: String = [login, ca, key, prefix].into_iter().flatten().collect();
        let urls = urls.iter().map(NatsUrl::as_str).collect::<Vec<_>>().join(", ");
        if !urls.is_empty() || !with.is_empty() {
            self.ask(Part::Nats, format!("{urls}{with}"));
        }
    }

    fn telemetry(&mut self, telemetry: &TelemetryTable) {
        let TelemetryTable { endpoint, headers, service_name: _ } = telemetry;
        let headers = values("; header", headers);
        self.ask(Part::Telemetry, format!("call data is sent to {}{headers}", endpoint.value));
    }

    fn serve(&mut self, serve: &Serve) {
        let Serve { callers, max_sessions: _, max_connections: _, url: _, drain: _ } = serve;
        for caller in callers {
            let CallerTable { name, proof, tools: _, grant, calls_per_minute: _, calls_at_once: _ } = caller;
            let part = Part::Caller(name.as_str().to_owned());
            if let Some(proof) = shown(proof) {
                self.ask(part.clone(), format!("`{}` {proof}", name.as_str()));
            }
            if let Some(grant) = grant {
                self.granted(&part, name.as_str(), (&grant.value, None, &[]));
            }
        }
    }

    /// Returns the real paths of those `paths` that are outside the folder of program.toml.
    fn outside(&self, paths: &[Located<PathBuf>]) -> Vec<String> {
        let resolved = paths.iter().map(|path| self.manifest.resolve(&path.value, self.home));
        let outside = resolved.filter_map(|path| match Root::resolve(Path::new("/"), &path) {
            Ok(root) if self.folder.as_ref().is_some_and(|folder| folder.contains(&root)) => None,
            Ok(root) => Some(of_path(root.real())),
            Err(_) => Some(of_path(&path)),
        });
        outside.collect()
    }

    /// Returns the denied paths. Without this text the removal of a denied path would widen rights.
    fn but(&self, deny: &[Located<PathBuf>]) -> String {
        if deny.is_empty() { String::new() } else { format!(", but not {}", self.paths(deny)) }
    }

    fn paths(&self, paths: &[Located<PathBuf>]) -> String {
        let resolved = paths.iter().map(|path| self.manifest.resolve(&path.value, self.home));
        resolved.map(|path| of_path(&path)).collect::<Vec<_>>().join(", ")
    }
}
