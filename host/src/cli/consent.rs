//! The page that somebody reads before code of a stranger's is installed: what it is, what it brings and
//! what it asks for. Everything on it that is not haft's is neutralised; it decides nothing.

use std::fmt::Write;

use anstyle::Style;

use super::packages::{Arrival, Brought};
use super::terminal::{DIM, ERROR, GOOD, HEAD, WARNING, rounded};
use crate::grant::{Grant, Reach, Root};
use crate::limit::Limits;
use crate::manifest::units::{format_duration, format_size};
use crate::package::signature::Signer;
use crate::package::{Pin, Request};
use crate::report::plain;

/// Tools that are listed; the rest is counted.
const MAX_TOOLS: usize = 20;

/// Characters of one line's text.
const MAX_TEXT: usize = 100;

/// Width of the column of names.
const NAME: usize = 10;

/// What there is to read.
pub(super) struct Page<'a> {
    pub(super) arrival: &'a Arrival,
    /// What is going to be granted.
    pub(super) granted: &'a [Request],
    /// What was installed before, and what the new one asks for beyond it.
    pub(super) before: Option<Before<'a>>,
    /// What commands of the program may do.
    pub(super) sandbox: &'a Grant,
}

/// What was agreed to before.
pub(super) struct Before<'a> {
    pub(super) pin: &'a Pin,
    /// What is asked for beyond it.
    pub(super) more: Vec<&'a Request>,
}

impl Page<'_> {
    /// The page, with colours, which the terminal leaves out where there are none.
    pub(super) fn render(&self) -> String {
        let mut page = String::new();
        self.title(&mut page);
        self.facts(&mut page);
        self.tools(&mut page);
        self.requests(&mut page);
        page.trim_end().to_owned()
    }

    fn title(&self, page: &mut String) {
        let offered = &self.arrival.offered;
        let version = |version: Option<&semver::Version>| version.map(|version| format!(" {version}"));
        let new = version(offered.version.as_ref()).unwrap_or_default();
        let old = self.before.as_ref().and_then(|before| version(before.pin.version.as_ref()));
        let old = old.filter(|old| *old != new).map(|old| format!("{old} →")).unwrap_or_default();
        let what = offered.description.as_deref().map(|text| format!(": {}", shortened(text)));
        // Writing to a `String` cannot fail.
        let _ =
            writeln!(page, "{HEAD}{}{old}{new}{HEAD:#}{}", offered.name.as_str(), what.unwrap_or_default());
    }

    fn facts(&self, page: &mut String) {
        let Arrival { source, fetched, offered, .. } = self.arrival;
        let mut fact = |name: &str, text: &str| line(page, name, Style::new(), text);
        fact("from", &plain(&source.to_string()));
        if let Some(resolved) = &fetched.resolved {
            fact("", &format!("that is {}", plain(resolved)));
        }
        fact("digest", &format!("{} ({})", fetched.digest, rounded(fetched.size)));
        fact("signature", &self.signer());
        let mut about: Vec<String> = offered.authors.iter().map(|author| shortened(author)).collect();
        about.extend(offered.license.as_deref().map(|license| format!("licence {}", shortened(license))));
        if !about.is_empty() {
            fact("by", &about.join(", "));
        }
    }

    fn signer(&self) -> String {
        let verdict = &self.arrival.fetched.verdict;
        let new = plain(&verdict.describe());
        match &self.before {
            Some(before) if before.pin.signer.as_ref() != verdict.signer() => {
                let old = before.pin.signer.as_ref().map_or_else(|| "nobody".to_owned(), Signer::describe);
                format!("{WARNING}{new}{WARNING:#}, and before by {old}")
            }
            _ => new,
        }
    }

    fn tools(&self, page: &mut String) {
        let tools = &self.arrival.tools;
        let width = tools.iter().take(MAX_TOOLS).map(|tool| tool.name.chars().count()).max().unwrap_or(0);
        for (index, Brought { name, description }) in tools.iter().take(MAX_TOOLS).enumerate() {
            let head = if index == 0 { "tools" } else { "" };
            let text = format!("{:width$}  {DIM}{}{DIM:#}", plain(name), shortened(description));
            line(page, head, Style::new(), text.trim_end());
        }
        match tools.len().saturating_sub(MAX_TOOLS) {
            0 if tools.is_empty() => line(page, "tools", Style::new(), "none"),
            0 => {}
            more => line(page, "", Style::new(), &format!("… and {more} more")),
        }
    }

    fn requests(&self, page: &mut String) {
        let requests = &self.arrival.offered.requests;
        if requests.is_empty() {
            line(page, "asks for", GOOD, "nothing: no files, no network, no environment");
        }
        for (index, request) in requests.iter().enumerate() {
            let head = if index == 0 { "asks for" } else { "" };
            let (style, mark) = self.mark(request);
            line(page, head, style, &format!("{}{mark}", self.shown(request)));
        }
        let asked: Vec<String> = requests.iter().map(ToString::to_string).collect();
        for gone in self.before.iter().flat_map(|before| &before.pin.asked).filter(|old| !asked.contains(old))
        {
            line(page, "", DIM, &format!("no longer: {}", shortened(gone)));
        }
        for extra in self.granted.iter().filter(|granted| !is_asked(requests, granted)) {
            line(page, "granted", Style::new(), &format!("{} (without being asked for)", self.shown(extra)));
        }
        self.limits(page);
        if requests.iter().any(|request| matches!(request, Request::Command(..))) {
            let rights = commands_may(self.sandbox);
            line(
                page,
                "commands",
                WARNING,
                &format!("run as processes of yours, confined as `bash` is: {rights}"),
            );
        }
    }

    /// What every call may use where nothing else is asked for.
    fn limits(&self, page: &mut String) {
        let Limits { memory, time, result, disk } = Limits::default();
        let (memory, time) = (format_size(memory), format_duration(time));
        let (result, disk) = (format_size(result), format_size(disk));
        if !self.arrival.offered.plugins.is_empty() {
            let text = format!(
                "{memory} of memory, {time}, {result} of answer and {disk} of files for each, unless said above"
            );
            line(page, "calls get", Style::new(), &text);
        }
    }

    fn shown(&self, request: &Request) -> String {
        let whose = match (self.arrival.offered.plugins.len(), request) {
            (_, Request::Command(name, _) | Request::Server(name, _)) => Some(name.as_str()),
            (0 | 1, _) => None,
            _ => request.whose(),
        };
        let whose = whose.map(|whose| format!(" ({})", plain(whose))).unwrap_or_default();
        format!("{} {}{whose}", request.what(), shortened(&request.detail()))
    }

    /// How a request looks, and what is to be said of it: whether it is new, and whether it is granted.
    fn mark(&self, request: &Request) -> (Style, &'static str) {
        let is_new = self.before.as_ref().is_some_and(|before| before.more.contains(&request));
        match (is_grantable(request), self.grants(request), is_new) {
            (true, false, _) => (DIM, "  [not granted]"),
            (_, _, true) => (ERROR, "  [new]"),
            (false, _, false) if matches!(request, Request::Unknown(_)) => {
                (DIM, "  [haft does not give this]")
            }
            _ => (Style::new(), ""),
        }
    }

    fn grants(&self, request: &Request) -> bool {
        self.granted.iter().any(|granted| match (granted, request) {
            (Request::Right(_, granted), Request::Right(_, asked)) => granted.covers(asked),
            (Request::Limit(_, granted), Request::Limit(_, asked)) => granted == asked,
            (Request::Secret(_, granted), Request::Secret(_, asked)) => granted.name == asked.name,
            _ => false,
        })
    }
}

/// Whether something is given by a line of program.toml, and not by being installed at all.
pub(super) fn is_grantable(request: &Request) -> bool {
    matches!(request, Request::Right(..) | Request::Limit(..) | Request::Secret(..))
}

/// Whether what is granted is a part of what is asked for, or more of it.
pub(super) fn is_asked(requests: &[Request], granted: &Request) -> bool {
    requests.iter().any(|asked| match (granted, asked) {
        (Request::Right(_, granted), Request::Right(_, asked)) => {
            granted.covers(asked) || asked.covers(granted)
        }
        (Request::Limit(..), _) => true,
        (Request::Secret(_, granted), Request::Secret(_, asked)) => granted.name == asked.name,
        _ => false,
    })
}

/// What the commands of a program may do, in a few words.
fn commands_may(grant: &Grant) -> String {
    let places = |reach: &Reach| match reach {
        Reach::Anywhere => "everything".to_owned(),
        Reach::Roots(roots) => {
            let is_inner = |root: &Root| roots.iter().any(|other| other != root && other.contains(root));
            let outer = roots.iter().filter(|root| !is_inner(root));
            outer.map(|root| root.path().display().to_string()).collect::<Vec<_>>().join(", ")
        }
    };
    let (read, write) = (places(&grant.readable()), places(grant.writable()));
    let network = if grant.network() { "use the network" } else { "use no network" };
    format!("read {read}; write {write}; {network}")
}

/// A line of the page: a name in its column, then the text.
fn line(page: &mut String, name: &str, style: Style, text: &str) {
    // Writing to a `String` cannot fail.
    let _ = writeln!(page, "  {DIM}{name:NAME$}{DIM:#}{style}{text}{style:#}");
}

/// A stranger's text on one line, of bounded length.
fn shortened(text: &str) -> String {
    let text = plain(text.trim());
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default().trim_end()),
        None => text,
    }
}
