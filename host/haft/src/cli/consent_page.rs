//! The page that the user reads before third-party code is installed: description, content, requests and changes.
//! All third-party text on the page is neutralised. The page decides nothing.

use std::fmt::Write;
use std::path::Path;

use super::terminal::{DIM, ERROR, GOOD, HEAD, Style, WARNING, rounded};
use crate::cli::disclosure_sheet::{Sheet, clean};
use haft_core::grant::{Grant, Reach, Right, Root, normalise};
use haft_core::limit::Limits;
use haft_core::report::plain;
use haft_manifest::Transport;
use haft_manifest::units::{format_duration, format_size};
use haft_package::disclosure::{Change, Item, ItemKind};
use haft_package::edit::{self, NewEntry};
use haft_package::signature::Signer;
use haft_package::{Candidate, Foreign, Kind, PackageSource, Pin, Request};

/// Maximum characters of a text that a package declares. Commands that run are shown whole.
const MAX_TEXT: usize = 400;

/// Maximum number of named files of a folder that are not part of the package. The other files are counted.
const MAX_NAMED: usize = 8;

pub(super) struct Page<'a> {
    pub(super) candidate: &'a Candidate,
    /// The requests that haft will grant.
    pub(super) granted: &'a [Request],
    /// The installed version and the changes, if the package is installed.
    pub(super) before: Option<Before<'a>>,
    /// The rights of the program's commands.
    pub(super) sandbox: &'a Grant,
    /// The folder that relative directories start from, and the home directory for `~`.
    pub(super) dirs: (&'a Path, &'a Path),
}

/// The installed version that the user agreed to.
pub(super) struct Before<'a> {
    pub(super) pin: &'a Pin,
    /// The additional requests of the new version.
    pub(super) more: Vec<&'a Request>,
    /// The changes since consent. `None` if the shown content was not recorded: the page then shows everything.
    pub(super) changes: Option<Vec<Change>>,
}

impl Page<'_> {
    /// Returns the page for a width of `columns`. The terminal removes the colours if it has none. Long texts are cut
    /// if `rest` names a command that shows them whole.
    pub(super) fn render(&self, columns: Option<usize>, rest: Option<String>) -> String {
        let mut sheet = Sheet::new(columns, rest);
        self.title(&mut sheet.text);
        self.facts(&mut sheet);
        match self.before.as_ref().and_then(|before| before.changes.as_ref()) {
            Some(changes) => self.changes(changes, &mut sheet),
            None => sheet.disclosure(&self.candidate.disclosure),
        }
        self.notes(&mut sheet);
        self.requests(&mut sheet);
        // The digest fits on one line of a narrow terminal.
        sheet.line("sha256", Style::new(), self.candidate.fetched.digest.hex());
        sheet.line("signature", Style::new(), &self.signer());
        sheet.text.trim_end().to_owned()
    }

    fn title(&self, page: &mut String) {
        let offered = &self.candidate.offered;
        let version = |version: Option<&semver::Version>| version.map(|version| format!(" {version}"));
        let new = version(offered.version.as_ref()).unwrap_or_default();
        let old = self.before.as_ref().and_then(|before| version(before.pin.version.as_ref()));
        let old = old.filter(|old| *old != new).map(|old| format!("{old} →")).unwrap_or_default();
        let what = offered.description.as_deref().map(|text| format!(": {}", shortened(text)));
        // Writing to a `String` cannot fail.
        let _ =
            writeln!(page, "{HEAD}{}{old}{new}{HEAD:#}{}", offered.name.as_str(), what.unwrap_or_default());
    }

    fn facts(&self, sheet: &mut Sheet) {
        let Candidate { source, fetched, offered, .. } = self.candidate;
        let mut fact = |name: &str, text: &str| sheet.line(name, Style::new(), text);
        fact("from", &format!("{} ({})", plain(&source.to_string()), rounded(fetched.size)));
        if let Some(resolved) = &fetched.resolved {
            fact("", &format!("resolved to {}", plain(resolved)));
        }
        let authors: Vec<String> = offered.authors.iter().map(|author| shortened(author)).collect();
        let license = offered.license.as_deref().map(shortened);
        match (authors.join(", "), license) {
            (authors, Some(license)) if authors.is_empty() => fact("licence", &license),
            (authors, Some(license)) => fact("by", &format!("{authors}, licence {license}")),
            (authors, None) if authors.is_empty() => {}
            (authors, None) => fact("by", &authors),
        }
    }

    /// Writes the changes since consent, and the unchanged parts as a number.
    fn changes(&self, changes: &[Change], sheet: &mut Sheet) {
        sheet.changes(changes);
        if changes.is_empty() {
            sheet.line("changes", Style::new(), "none in the text");
        }
        let is_of = |kind| move |change: &&Change| change.kind == kind;
        let code = changes.iter().filter(is_of(ItemKind::Component)).count();
        if code > 0 && !changes.iter().any(|change| change.kind == ItemKind::Tool) {
            let text = "its code changed; its tool definitions did not";
            sheet.line("", WARNING, text);
        }
        let items = &self.candidate.disclosure.items;
        let is_changed =
            |item: &Item| changes.iter().any(|change| change.kind == item.kind && change.name == item.name);
        let same = items.iter().filter(|item| !is_changed(item)).count();
        if same > 0 {
            sheet.line("", DIM, &format!("unchanged: {same} more tools and files"));
        }
    }

    /// Writes the unused parts, and the content that cannot be shown.
    fn notes(&self, sheet: &mut Sheet) {
        let left_out = &self.candidate.fetched.left_out;
        if !left_out.is_empty() {
            let named: Vec<String> = left_out.iter().take(MAX_NAMED).map(|path| clean(path)).collect();
            let more = left_out.len().saturating_sub(named.len());
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            // The plugin's format defines the files of a plugin.
            let how = if self.is_agent_plugin() { "" } else { " (`include` in its `[program]` adds files)" };
            let text = format!("{}{more}: not part of the package{how}", named.join(", "));
            sheet.line("left out", DIM, &text);
        }
        for (index, note) in self.candidate.fetched.notes.iter().enumerate() {
            sheet.line(if index == 0 { "notes" } else { "" }, WARNING, &clean(note));
        }
        let Some(bundle) = &self.candidate.offered.bundle else { return };
        for fault in bundle.agent_plugin.iter().flat_map(|plugin| &plugin.faults) {
            sheet.line(fault.kind.word(), WARNING, &clean(&fault.text));
        }
        if let Some(ignored) = bundle.ignored_servers() {
            sheet.line("ignored", WARNING, &ignored);
        }
        for (server, skill) in bundle.skill_servers() {
            let text = format!("server `{}` belongs to the skill `{skill}`", server.name.as_str());
            sheet.line("of a skill", Style::new(), &clean(&text));
        }
        if bundle.manifest.mcp_servers.iter().any(|server| server.enabled) {
            let text = "list their tools when they start: the definitions are shown and pinned then";
            sheet.line("servers", WARNING, text);
        }
    }

    fn signer(&self) -> String {
        let verdict = &self.candidate.fetched.verdict;
        let new = plain(&verdict.describe());
        match &self.before {
            Some(before) if before.pin.signer.as_ref() != verdict.signer() => {
                let old = before.pin.signer.as_ref().map_or_else(|| "by nobody".to_owned(), Signer::describe);
                format!("{WARNING}{new}{WARNING:#}, before {old}")
            }
            _ => new,
        }
    }

    fn requests(&self, sheet: &mut Sheet) {
        let requests = &self.candidate.offered.requests;
        if requests.is_empty() {
            sheet.line("requests", GOOD, "no rights: no files, no network, no environment");
        }
        for (index, request) in requests.iter().enumerate() {
            let head = if index == 0 { "requests" } else { "" };
            let (style, mark) = self.mark(request);
            sheet.line(head, style, &format!("{}{mark}", self.request_text(request)));
        }
        let asked: Vec<String> = requests.iter().map(ToString::to_string).collect();
        for gone in self.before.iter().flat_map(|before| &before.pin.asked).filter(|old| !asked.contains(old))
        {
            sheet.line("", DIM, &format!("no longer: {}", clean(gone)));
        }
        self.grants_of(sheet);
        self.limits(sheet);
        if self.is_agent_plugin() {
            self.confined(sheet);
        } else if self.candidate.source.is_foreign() {
            self.foreign(sheet);
        } else if requests.iter().any(|request| matches!(request, Request::Command(..))) {
            let text = format!("run as processes, in the sandbox of `bash`: {}", commands_may(self.sandbox));
            sheet.line("commands", WARNING, &text);
        } else if self.has_servers() {
            let text = "run as processes with the program's default: they read what `bash` reads, write the \
                        workspace and use the network, unless they request less";
            sheet.line("servers", WARNING, text);
        }
    }

    /// Writes the rights of a server of npm, PyPI or a bundle, and how to grant more.
    fn foreign(&self, sheet: &mut Sheet) {
        let has = |is_it: fn(&Right) -> bool| {
            self.granted.iter().any(|granted| matches!(granted, Request::Right(_, right) if is_it(right)))
        };
        let is_network = |right: &Right| matches!(right, Right::Host(host) if host.is_any());
        let has_folder = has(|right| matches!(right, Right::Read(_) | Right::Write(_)));
        let folders = if has_folder { "the granted folders" } else { "no folder of yours" };
        let network = match (has(|right| matches!(right, Right::Host(_))), has(is_network)) {
            (_, true) => "the network",
            (true, false) => "the granted hosts",
            (false, false) => "no network",
        };
        let text = format!("use its own files and the system's programs; {network}, {folders}");
        sheet.line("may", Style::new(), &text);
        if !has_folder {
            let name = self.candidate.offered.name.as_str();
            let folder = self.named_folder().map_or_else(|| "DIR".to_owned(), clean);
            let text = format!(
                "add rights with `--grant read={folder}` or `--grant host=NAME`, or later with `haft grant {name} …`"
            );
            sheet.line("", DIM, &text);
        }
    }

    /// Returns a folder among the arguments of the server.
    fn named_folder(&self) -> Option<&str> {
        let PackageSource::Foreign(Foreign { settings, .. }) = &self.candidate.source else { return None };
        let mut values = settings.iter().filter(|(key, _)| key == "arg").map(|(_, value)| value.as_str());
        values.find(|value| self.dirs.0.join(value).is_dir())
    }

    fn has_servers(&self) -> bool {
        let bundle = self.candidate.offered.bundle.as_ref();
        let mut servers = bundle.into_iter().flat_map(|bundle| &bundle.manifest.mcp_servers);
        servers.any(|server| server.enabled && matches!(server.transport, Transport::Stdio { .. }))
    }

    /// Writes the rights of the processes of a plugin.
    fn confined(&self, sheet: &mut Sheet) {
        let requests = &self.candidate.offered.requests;
        let is_open = requests.iter().any(|request| matches!(request, Request::AnyGrant(_)));
        let more = if is_open {
            "everything granted here: the author proposes no rights"
        } else {
            "the rights that they request and this grant allows"
        };
        let text = format!(
            "each server and each skill's scripts read the plugin's files and the system's programs, and \
             have {more}; the servers share one home directory"
        );
        sheet.line("confined", if is_open { WARNING } else { Style::new() }, &text);
    }

    /// Returns whether the package's processes have their own rights.
    fn is_agent_plugin(&self) -> bool {
        self.candidate.offered.bundle.as_ref().is_some_and(|bundle| bundle.agent_plugin.is_some())
    }

    fn limits(&self, sheet: &mut Sheet) {
        let Limits { memory, time, result, disk } = Limits::default();
        let (memory, time) = (format_size(memory), format_duration(time));
        let (result, disk) = (format_size(result), format_size(disk));
        if !self.candidate.offered.plugins.is_empty() {
            let text = format!(
                "memory {memory} · time {time} · result {result} · disk {disk} (unless listed above)"
            );
            sheet.line("per call", Style::new(), &text);
        }
    }

    fn request_text(&self, request: &Request) -> String {
        let owner = match (self.candidate.offered.plugins.len(), request) {
            (_, Request::Command(name, _) | Request::Server(name, _)) => Some(name.as_str()),
            (0 | 1, _) if !self.is_agent_plugin() => None,
            _ => request.plugin_name(),
        };
        let owner = owner.map(|owner| format!(" ({})", plain(owner))).unwrap_or_default();
        format!("{} {}{owner}", request.what(), clean(&request.detail()))
    }

    /// Writes the granted rights, with the absolute paths of directories.
    fn grants_of(&self, sheet: &mut Sheet) {
        let requests = &self.candidate.offered.requests;
        for (index, granted) in self.granted.iter().enumerate() {
            // Packages in other formats request no rights: every granted right takes effect.
            let is_effective = self.candidate.source.is_foreign() || is_asked(requests, granted);
            let extra = if is_effective { "" } else { " (not requested)" };
            let text = match granted {
                Request::Right(_, Right::Read(path) | Right::Write(path)) => {
                    format!("{} {}", granted.what(), self.absolute(path))
                }
                _ => self.request_text(granted),
            };
            sheet.line(if index == 0 { "granted" } else { "" }, Style::new(), &format!("{text}{extra}"));
        }
        for line in self.written().iter().flat_map(|text| text.lines()) {
            sheet.line("", DIM, &clean(line));
        }
    }

    /// Returns the lines of program.toml with the grant. `None` if nothing is granted.
    fn written(&self) -> Option<String> {
        let offered = &self.candidate.offered;
        let entry =
            NewEntry { kind: offered.kind, name: offered.name.as_str(), source: "-", granted: self.granted };
        let text = edit::add("", &entry).ok()?;
        // The first paragraph is the entry itself, with its name and source.
        text.split_once("\n\n").map(|(_, granted)| granted.to_owned())
    }

    /// Returns the absolute path of a directory, and the target if the path contains symbolic links.
    fn absolute(&self, written: &str) -> String {
        let (folder, home) = self.dirs;
        let path = match Path::new(written).strip_prefix("~") {
            Ok(rest) => home.join(rest),
            Err(_) => folder.join(written),
        };
        let path = normalise(&std::path::absolute(&path).unwrap_or(path));
        let shown = clean(&path.display().to_string());
        match path.canonicalize() {
            Ok(real) if real != path => {
                format!("{shown}, resolved to {}", clean(&real.display().to_string()))
            }
            Ok(_) => shown,
            Err(_) => format!("{shown} (does not exist yet)"),
        }
    }

    /// Returns the style and the note of a request: whether it is new, and whether it is granted.
    fn mark(&self, request: &Request) -> (Style, &'static str) {
        let is_new = self.before.as_ref().is_some_and(|before| before.more.contains(&request));
        match (is_grantable(request), self.grants(request), is_new) {
            (true, false, _) => (DIM, "  [not granted]"),
            (_, _, true) => (ERROR, "  [new]"),
            (false, _, false) if matches!(request, Request::Unknown(_)) => (DIM, "  [not available in haft]"),
            _ => (Style::new(), ""),
        }
    }

    /// Returns whether a request is granted. The limits of a package are those of its own manifest.
    fn grants(&self, request: &Request) -> bool {
        let is_package = self.candidate.offered.kind == Kind::Package;
        (is_package && matches!(request, Request::Limit(..)))
            || self.granted.iter().any(|granted| match (granted, request) {
                (Request::Right(_, granted), Request::Right(_, asked)) => granted.covers(asked),
                (Request::Limit(_, granted), Request::Limit(_, asked)) => {
                    asked.is_within(&granted.to_string())
                }
                (Request::Secret(_, granted), Request::Secret(_, asked)) => granted.name == asked.name,
                _ => false,
            })
    }
}

/// Returns whether a request needs a line of program.toml. Other requests are granted by the installation itself.
pub(super) fn is_grantable(request: &Request) -> bool {
    matches!(request, Request::Right(..) | Request::Limit(..) | Request::Secret(..))
}

/// Returns whether a granted right and a requested right overlap.
pub(super) fn is_asked(requests: &[Request], granted: &Request) -> bool {
    requests.iter().any(|asked| match (granted, asked) {
        (Request::Right(_, granted), Request::Right(_, asked)) => {
            granted.covers(asked) || asked.covers(granted)
        }
        (Request::Right(..), Request::AnyGrant(_)) | (Request::Limit(..), _) => true,
        (Request::Secret(_, granted), Request::Secret(_, asked)) => granted.name == asked.name,
        _ => false,
    })
}

/// Returns a short description of the rights of the program's commands.
fn commands_may(grant: &Grant) -> String {
    let dirs = |reach: &Reach| match reach {
        Reach::Anywhere => "everything".to_owned(),
        Reach::Roots(roots) => {
            let is_inner = |root: &Root| roots.iter().any(|other| other != root && other.contains(root));
            let outer = roots.iter().filter(|root| !is_inner(root));
            outer.map(|root| root.path().display().to_string()).collect::<Vec<_>>().join(", ")
        }
    };
    let (read, write) = (dirs(&grant.readable()), dirs(grant.writable()));
    let hosts: Vec<_> = grant.child_hosts().iter().map(ToString::to_string).collect();
    let network = match hosts.as_slice() {
        [] if grant.network() => "use the network".to_owned(),
        [] => "use no network".to_owned(),
        hosts => format!("reach {}", hosts.join(", ")),
    };
    let stores: Vec<_> = grant.credentials().iter().map(ToString::to_string).collect();
    let stores = match stores.as_slice() {
        [] => String::new(),
        some => format!("; open the credentials of {}", some.join(", ")),
    };
    format!("read {read}{stores}; write {write}; {network}")
}

/// Returns third-party text on one line, with bounded length.
fn shortened(text: &str) -> String {
    let text = clean(text.trim());
    let more = text.chars().count().saturating_sub(MAX_TEXT);
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => {
            let text = text.get(..end).unwrap_or_default().trim_end();
            format!("{text}… [{more} more characters]")
        }
        None => text,
    }
}
