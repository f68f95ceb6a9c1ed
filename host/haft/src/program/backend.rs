//! Selects the backend that commands run on, from program.toml and the command line. If the selected backend is
//! unavailable, no command runs, because another target has other files.

use std::sync::Arc;

use super::contribution::Contribution;
use super::options::{Options, Target};
use super::rights::Rights;
use super::{Dirs, children};
use haft_core::report::{Problem, Report};
use haft_manifest::{BackendTable, Manifest};
use haft_sandbox::native::is_of_target;
use haft_sandbox::{self, Backend, BackendConfig, BackendError, HostContext, Place};

/// Returns the backend with its native tools, or the native tools of this machine.
pub(super) async fn contribution(rights: &Rights<'_>) -> anyhow::Result<Contribution> {
    let Rights { options, manifest, target, .. } = rights;
    let backend = connected(rights).await?;
    Ok(Contribution {
        tools: children::native(rights, backend.clone()),
        problems: without_effect(manifest, options).into_iter().collect(),
        // The tools of a target are unknown until it is connected.
        is_partial: target.is_some() && options.known_only,
        backend,
        ..Contribution::default()
    })
}

/// Returns the connected backend of a program; `None` if commands run on this machine, as `bash` does.
async fn connected(rights: &Rights<'_>) -> anyhow::Result<Option<Arc<dyn Backend>>> {
    let Rights { options, manifest, dirs, confiner, .. } = rights;
    let Some(choice) = &rights.target else { return Ok(None) };
    if let Some(problem) = two_targets(manifest, &options.target).filter(|_| options.under.is_none()) {
        return Err(manifest.report(vec![problem]).into());
    }
    if let Some(problem) = unheld_network(manifest, &choice.place) {
        return Err(manifest.report(vec![problem]).into());
    }
    let is_selected = options.only.as_deref().is_none_or(is_of_target);
    if !is_selected || options.known_only {
        return Ok(None);
    }
    dirs.own()?;
    let host = HostContext {
        confiner: confiner.clone(),
        transport_confiner: confiner.without_layers(),
        haft: std::env::current_exe()?,
        state: dirs.state.clone(),
        grant: rights.grant.clone(),
    };
    match haft_sandbox::connect(choice, &host).await {
        Ok(backend) => Ok(Some(backend)),
        Err(error) => Err(report(&error).into()),
    }
}

/// Returns a problem if commands run on a target whose network haft does not limit, though `[sandbox]` does.
fn unheld_network(manifest: &Manifest, place: &Place) -> Option<Problem> {
    let (target, way_out) = match place {
        Place::Local => return None,
        Place::Container { .. } => (
            "in a container",
            "remove it, and give the container the network that its commands need (`docker run --network none` gives none)",
        ),
        Place::Ssh { .. } => {
            ("on another host", "remove it; commands have the network of their account there")
        }
    };
    let sandbox = &manifest.sandbox;
    let key = match sandbox.single_hosts() {
        [] if sandbox.network => return None,
        [] => "network = false",
        _ => "hosts",
    };
    let problem =
        Problem::new(format!("`{key}` in `[sandbox]` does not limit the network of commands {target}"));
    Some(problem.hint(way_out).hint("a server or command has `hosts` in its own grant"))
}

/// Returns a problem if program.toml selects both a container and a host.
fn two_targets(manifest: &Manifest, target: &Target) -> Option<Problem> {
    let BackendTable { container, ssh, .. } = &manifest.backend;
    let is_settled = target.container.is_some() || target.ssh.is_some();
    let ssh = ssh.as_ref().filter(|_| container.is_some() && !is_settled)?;
    let problem = Problem::new("`[backend]` has both a container and a host; commands run in one place");
    Some(
        problem
            .at(ssh.span, "the host")
            .hint("remove one of the two, or choose with `--container` or `--ssh`"),
    )
}

/// Returns the selected backend, if any. An agent of another program has that program's backend.
pub(super) fn chosen(manifest: &Manifest, options: &Options, dirs: &Dirs) -> Option<BackendConfig> {
    match &options.under {
        Some(under) => under.backend.clone(),
        None => choice(manifest, &options.target, dirs),
    }
}

/// Returns a problem if an agent of another program names a target, which its caller may not be able to reach.
fn without_effect(manifest: &Manifest, options: &Options) -> Option<Problem> {
    let BackendTable { container, ssh, .. } = &manifest.backend;
    let is_named = options.under.is_some() && (container.is_some() || ssh.is_some());
    let text = "`[backend]` has no effect in an agent: its commands run where those of the program run that calls it";
    is_named.then(|| Problem::new(text).warning())
}

fn choice(manifest: &Manifest, target: &Target, dirs: &Dirs) -> Option<BackendConfig> {
    let written = &manifest.backend;
    if target.here {
        return None;
    }
    let named = match (&target.container, &target.ssh) {
        (Some(name), _) => Some(Place::Container { name: name.clone(), engine: None }),
        (None, Some(host)) => Some(Place::Ssh { target: host.clone(), config: None }),
        (None, None) => None,
    };
    let choice = match named {
        // Settings of `[backend]` for another target do not apply.
        Some(place) => BackendConfig { place, ..BackendConfig::default() },
        None => of_table(manifest, written, dirs),
    };
    let choice = BackendConfig {
        tmux: target.tmux.or(choice.tmux),
        session: target.session.clone().or(choice.session),
        ..choice
    };
    let is_chosen = choice.place != Place::Local || choice.tmux == Some(true) || written.target_tools;
    is_chosen.then_some(choice)
}

/// Returns whether commands run without a pane and neither program.toml nor the command line decides that. On a
/// host with tmux commands run in a pane.
pub(super) fn is_without_pane(manifest: &Manifest, target: &Target) -> bool {
    let table = &manifest.backend;
    let is_settled = target.container.is_some() || table.container.is_some();
    let is_host = target.ssh.is_some() || !is_settled && table.ssh.is_some();
    !is_host && target.tmux.or(table.tmux).is_none()
}

fn of_table(manifest: &Manifest, table: &BackendTable, dirs: &Dirs) -> BackendConfig {
    let config = table.ssh_config.as_ref().map(|path| manifest.resolve(&path.value, &dirs.home));
    let place = match (&table.container, &table.ssh) {
        (Some(name), _) => Place::Container { name: name.clone(), engine: table.engine },
        (None, Some(target)) => Place::Ssh { target: target.value.clone(), config },
        (None, None) => Place::Local,
    };
    BackendConfig {
        place,
        tmux: table.tmux,
        session: table.session.clone(),
        shell: table.shell.clone(),
        directory: table.directory.clone(),
        files: table.files.clone(),
    }
}

fn report(error: &BackendError) -> Report {
    let text = error.to_string();
    let mut parts = text.split("\nhint: ");
    let problem = Problem::new(parts.next().unwrap_or_default());
    Report::from(parts.fold(problem, Problem::hint))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn chosen(text: &str, target: &Target) -> Option<BackendConfig> {
        let manifest = Manifest::parse(text, Path::new("program.toml")).unwrap();
        choice(&manifest, target, &Dirs::of_this_machine().unwrap())
    }

    /// BE01: a program with two targets is refused, unless the command line selects one.
    #[test]
    fn two_places_are_one_too_many() {
        let text = "[backend]\ncontainer = \"web\"\nssh = \"host\"\n";
        let manifest = Manifest::parse(text, Path::new("program.toml")).unwrap();
        let problem = two_targets(&manifest, &Target::default()).unwrap();
        let report = manifest.report(vec![problem]).to_string();
        assert!(
            report.contains("program.toml:3:7") && report.contains("hint: remove one of the two"),
            "{report}"
        );
        let named = Target { container: Some("other".into()), ..Target::default() };
        assert_eq!(two_targets(&manifest, &named), None);
    }

    /// The network of a target is not silently wider than program.toml says.
    #[test]
    fn a_limit_of_the_network_is_refused_on_a_target_that_does_not_keep_it() {
        let problem = |text: &str, place: Place| {
            let manifest = Manifest::parse(text, Path::new("program.toml")).unwrap();
            unheld_network(&manifest, &place).map(|problem| problem.message().to_owned())
        };
        let container = Place::Container { name: "web".into(), engine: None };
        let ssh = Place::Ssh { target: "box".into(), config: None };
        for (text, key) in [
            ("[sandbox]\nhosts = [\"@npm\"]\n", "`hosts`"),
            ("[sandbox]\nnetwork = false\n", "`network = false`"),
        ] {
            assert!(problem(text, container.clone()).unwrap().starts_with(key));
            assert!(problem(text, ssh.clone()).unwrap().contains("on another host"));
            assert_eq!(problem(text, Place::Local), None);
        }
        assert_eq!(problem("[sandbox]\nhosts = [\"*\"]\n", container), None);
    }

    /// BE01, CL02: the command line and program.toml select the backend; the default is this machine.
    #[test]
    fn the_backend_is_the_one_that_was_chosen() {
        let none = Target::default();
        assert_eq!(chosen("", &none), None);
        let tmux = Target { tmux: Some(true), session: Some("work".into()), ..Target::default() };
        let choice = chosen("", &tmux).unwrap();
        assert_eq!((choice.place, choice.session.as_deref()), (Place::Local, Some("work")));
        let text = "[backend]\nssh = \"me@host\"\ndirectory = \"/srv\"\nfiles = [\"/srv\"]\n";
        let choice = chosen(text, &none).unwrap();
        assert!(matches!(&choice.place, Place::Ssh { target, .. } if target == "me@host"));
        assert_eq!(choice.directory.as_deref(), Some("/srv"));
        let container = Target { container: Some("web".into()), ..Target::default() };
        let choice = chosen(text, &container).unwrap();
        assert!(matches!(&choice.place, Place::Container { name, engine: None } if name == "web"));
        assert_eq!((choice.directory, choice.files), (None, None));
        assert_eq!(chosen(text, &Target { here: true, ..Target::default() }), None);
        assert!(chosen("[backend]\ntarget_tools = true\n", &none).is_some());
    }
}
