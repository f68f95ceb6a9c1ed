//! Checks patterns of tool names against the existing tools. A pattern that matches no tool is an error, because it
//! would silently omit the intended tool. Selects no tools itself.

use std::fmt;

use haft_core::report::{Problem, Span, nearest};
use haft_core::tool::{Toolbox, exposed_name};
use haft_manifest::{Located, Manifest, ToolPattern};

/// The tools of the built-in plugins. The program enables some of them, and a list of tools may name those of this
/// machine and of a target.
pub(super) const OF_BUILTINS: &[&str] = &["read", "write", "edit", "fetch_url", "web_search", "time"];

/// Name prefixes of possible tools, each with the reason why the tools are unknown.
#[derive(Clone, Debug, Default)]
pub(super) struct Unseen(Vec<(String, String)>);

/// A pattern without a tool.
#[derive(Clone, Debug)]
pub struct Idle {
    /// The pattern.
    pub pattern: String,
    /// The reason why no tool matches.
    pub why: Why,
}

/// The reason why no tool matches a pattern.
#[derive(Clone, Debug)]
pub enum Why {
    /// No tool has this name. The value: the nearest name.
    Nothing(Option<String>),
    /// Tools that the pattern may match are unknown or disabled. The value: the reason.
    Unseen(String),
}

impl Unseen {
    /// Adds tools whose names begin with `prefix`, and the reason `why` they are unknown.
    pub(super) fn note(&mut self, prefix: impl Into<String>, why: impl Into<String>) {
        self.0.push((prefix.into(), why.into()));
    }

    pub(super) fn extend(&mut self, more: impl IntoIterator<Item = (String, String)>) {
        self.0.extend(more);
    }

    pub(super) fn append(&mut self, more: Self) {
        self.extend(more.0);
    }

    pub(super) fn switched_off(manifest: &Manifest) -> Self {
        let off = |kind: &str, name: &str| format!("{kind} `{name}` is disabled");
        let plugins = manifest.plugins.iter().filter(|plugin| !plugin.enabled);
        let plugins = plugins.map(|own| (plugin_prefix(own.name.as_str()), off("plugin", own.name.as_str())));
        let servers = manifest.mcp_servers.iter().filter(|server| !server.enabled);
        let servers =
            servers.map(|own| (server_prefix(own.name.as_str()), off("MCP server", own.name.as_str())));
        let packages = manifest.packages.iter().filter(|package| !package.enabled);
        // Tools of packages may have any name.
        let packages = packages.map(|own| (String::new(), off("package", own.name.as_str())));
        Self(plugins.chain(servers).chain(packages).collect())
    }

    /// Returns the reason why tools that `pattern` may match are unknown, if there may be such tools.
    pub(super) fn reason_for(&self, pattern: &ToolPattern) -> Option<&str> {
        let text = pattern.as_str();
        let (head, has_star) = text.split_once('*').map_or((text, false), |(head, _)| (head, true));
        let meets = |prefix: &str| head.starts_with(prefix) || (has_star && prefix.starts_with(head));
        self.0.iter().find(|(prefix, _)| meets(prefix)).map(|(_, why)| why.as_str())
    }
}

/// Returns the prefix of a plugin's tool names.
pub(super) fn plugin_prefix(name: &str) -> String {
    exposed_name(&[name, ""])
}

/// Returns the prefix of an MCP server's tool names.
pub(super) fn server_prefix(name: &str) -> String {
    exposed_name(&["mcp", name, ""])
}

/// Returns whether `patterns` select the tool `name`; without patterns every tool is selected.
pub(super) fn select(patterns: Option<&[ToolPattern]>, name: &str) -> bool {
    patterns.is_none_or(|patterns| patterns.iter().any(|pattern| pattern.matches(name)))
}

/// Returns the `patterns` that match none of `names`.
pub(super) fn idle<'p>(
    names: &[&str],
    patterns: impl IntoIterator<Item = &'p ToolPattern>,
) -> impl Iterator<Item = &'p ToolPattern> {
    patterns.into_iter().filter(move |pattern| !names.iter().any(|name| pattern.matches(name)))
}

/// Returns the name, or the group of names, that `pattern` most likely means.
pub(super) fn near(pattern: &str, names: &[&str]) -> Option<String> {
    if !pattern.contains('*') {
        return nearest(pattern, names.iter().copied()).map(str::to_owned);
    }
    let group = |name: &&str| name.rsplit_once("__").map(|(group, _)| format!("{group}__*"));
    let groups: Vec<String> = names.iter().filter_map(group).collect();
    nearest(pattern, groups.iter().map(String::as_str)).map(str::to_owned)
}

/// Returns a problem for each of `patterns` that matches none of the tools `names` of `owner`. The patterns are in
/// `key` of `owner`, which is at `span`.
pub(super) fn problems<'p>(
    owner: &str,
    (key, span): (&str, Span),
    names: &[&str],
    patterns: impl IntoIterator<Item = &'p ToolPattern>,
) -> Vec<Problem> {
    let problem = |pattern: &ToolPattern| {
        let problem = Problem::new(format!("{owner} has no tool `{pattern}`"));
        let problem = problem.at(span, format!("used in `{key}` here"));
        match near(pattern.as_str(), names) {
            Some(near) => problem.hint(format!("did you mean `{near}`?")),
            None => problem,
        }
    };
    idle(names, patterns).map(problem).collect()
}

/// Returns a problem for each name of program.toml without a tool in `toolbox`: names in `[requires_tools]`, and
/// patterns in `[[packages]] tools` except those that `unseen` tools may match.
pub(super) fn missing(manifest: &Manifest, toolbox: &Toolbox, unseen: &Unseen) -> Vec<Problem> {
    let required = manifest.required_tools.iter().filter(|name| toolbox.find(&name.value).is_none());
    let problem = |name: &Located<String>| {
        Problem::new(format!("the program requires the tool `{}`, which it does not have", name.value))
            .at(name.span, "this tool")
    };
    let mut all: Vec<Problem> = required.map(problem).collect();
    let names: Vec<&str> = toolbox.names().collect();
    for package in manifest.packages.iter().filter(|package| package.enabled) {
        let patterns = package.tools.iter().flatten().filter(|pattern| unseen.reason_for(pattern).is_none());
        let owner = format!("package `{}`", package.name.as_str());
        all.extend(problems(&owner, ("tools", package.name.span), &names, patterns));
    }
    all
}

impl Idle {
    pub(super) fn problem(&self, place: &str) -> Problem {
        let problem = Problem::new(format!("{place}: {self}"));
        match &self.why {
            Why::Nothing(Some(near)) => problem.hint(format!("did you mean `{near}`?")),
            _ => problem.hint("`haft tools` lists all tools"),
        }
    }
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Why::Nothing(_) => write!(f, "there is no tool `{}`", self.pattern),
            Why::Unseen(why) => write!(f, "`{}` matches no tool yet: {why}", self.pattern),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C08: the nearest tool name or group is suggested.
    #[test]
    fn the_nearest_name_or_group_is_told() {
        let names = ["read", "git__log", "git__show", "mcp__time__now"];
        for (pattern, expected) in [
            ("reed", Some("read")),
            ("gti__*", Some("git__*")),
            ("mcp__tmie__*", Some("mcp__time__*")),
            ("git__lgo", Some("git__log")),
            ("nothing_like_it", None),
            ("*", None),
        ] {
            assert_eq!(near(pattern, &names).as_deref(), expected, "{pattern}");
        }
    }

    /// C08: a pattern that may match tools of an unknown list counts as possible.
    #[test]
    fn what_may_be_there_is_no_slip() {
        let mut unseen = Unseen::default();
        unseen.note(server_prefix("git"), "not asked yet");
        for (pattern, may_be) in [
            ("mcp__git__*", true),
            ("mcp__git__log", true),
            ("mcp__*", true),
            ("*_log", true),
            ("mcp__gti__*", false),
            ("git__*", false),
            ("mcp__git", false),
        ] {
            assert_eq!(unseen.reason_for(&pattern.parse().unwrap()).is_some(), may_be, "{pattern}");
        }
    }

    /// C08: there are four built-in plugins: the tools of another one belong to `OF_BUILTINS` too.
    #[tokio::test]
    async fn the_built_in_tools_are_those_there_are() {
        let known: Vec<_> = super::super::builtin_names().collect();
        assert_eq!(known.len(), 4, "{known:?}: a new one has tools that belong to `OF_BUILTINS`");
    }
}
