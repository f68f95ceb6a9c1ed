//! What somebody wrote to choose tools by name, held against the tools that there are: a name that no tool
//! has is a slip, and choosing by it would leave out in silence what was meant. It chooses nothing itself.

use std::fmt;

use super::Program;
use haft_core::manifest::{Manifest, ToolPattern};
use haft_core::report::{Problem, Report, Span, nearest};
use haft_core::tool::{Toolbox, exposed_name};
use haft_sandbox::native::NATIVE;

/// The tools of the plugins that haft carries in itself. Which of them are on is the program's choice, and a
/// list may name those for here and for a target.
pub(super) const OF_BUILTINS: &[&str] = &["read", "write", "edit", "fetch_url", "web_search", "time"];

/// Tools that there may be without being known, by what their names begin with, and why they are not.
#[derive(Clone, Debug, Default)]
pub(super) struct Unseen(Vec<(String, String)>);

/// What a pattern that no tool has comes to.
#[derive(Clone, Debug)]
pub struct Idle {
    /// The pattern.
    pub pattern: String,
    /// What may have been meant, or why nobody knows whether it names anything.
    pub why: Why,
}

/// See [`Idle::why`].
#[derive(Clone, Debug)]
pub enum Why {
    /// No tool is called so; the nearest that is.
    Nothing(Option<String>),
    /// Tools that it may name are not known, or not on; why.
    Unseen(String),
}

impl Unseen {
    /// Tools whose names begin with `prefix`; `why` says why they are not known.
    pub(super) fn note(&mut self, prefix: impl Into<String>, why: impl Into<String>) {
        self.0.push((prefix.into(), why.into()));
    }

    /// What the program has and has switched off.
    pub(super) fn switched_off(manifest: &Manifest) -> Self {
        let off = |kind: &str, name: &str| format!("{kind} `{name}` is disabled");
        let plugins = manifest.plugins.iter().filter(|plugin| !plugin.enabled);
        let plugins = plugins.map(|own| (of_plugin(own.name.as_str()), off("plugin", own.name.as_str())));
        let servers = manifest.mcp_servers.iter().filter(|server| !server.enabled);
        let servers = servers.map(|own| (of_server(own.name.as_str()), off("MCP server", own.name.as_str())));
        let packages = manifest.packages.iter().filter(|package| !package.enabled);
        // What they hold may be called anything.
        let packages = packages.map(|own| (String::new(), off("package", own.name.as_str())));
        Self(plugins.chain(servers).chain(packages).collect())
    }

    /// Why tools that `pattern` may name are not known, where there may be such.
    pub(super) fn of(&self, pattern: &ToolPattern) -> Option<&str> {
        let text = pattern.as_str();
        let (head, has_star) = text.split_once('*').map_or((text, false), |(head, _)| (head, true));
        let meets = |prefix: &str| head.starts_with(prefix) || (has_star && prefix.starts_with(head));
        self.0.iter().find(|(prefix, _)| meets(prefix)).map(|(_, why)| why.as_str())
    }
}

/// What the names of a plugin's tools begin with.
pub(super) fn of_plugin(name: &str) -> String {
    exposed_name(&[name, ""])
}

/// The same of an MCP server.
pub(super) fn of_server(name: &str) -> String {
    exposed_name(&["mcp", name, ""])
}

/// Those of `patterns` that none of `names` has.
fn idle<'p>(
    names: &[&str],
    patterns: impl IntoIterator<Item = &'p ToolPattern>,
) -> impl Iterator<Item = &'p ToolPattern> {
    patterns.into_iter().filter(move |pattern| !names.iter().any(|name| pattern.matches(name)))
}

/// The name, or the group of names, that `pattern` is most likely a slip of.
fn near(pattern: &str, names: &[&str]) -> Option<String> {
    if !pattern.contains('*') {
        return nearest(pattern, names.iter().copied()).map(str::to_owned);
    }
    let group = |name: &&str| name.rsplit_once("__").map(|(group, _)| format!("{group}__*"));
    let groups: Vec<String> = names.iter().filter_map(group).collect();
    nearest(pattern, groups.iter().map(String::as_str)).map(str::to_owned)
}

/// A problem for each of `patterns` that names none of the tools `names` of `owner`, which stands at `span`
/// and has them in `key`.
pub(super) fn problems<'p>(
    owner: &str,
    (key, span): (&str, Span),
    names: &[&str],
    patterns: impl IntoIterator<Item = &'p ToolPattern>,
) -> Vec<Problem> {
    let problem = |pattern: &ToolPattern| {
        let problem = Problem::new(format!("{owner} has no tool `{pattern}`"));
        let problem = problem.at(span, format!("`{key}` here names it"));
        match near(pattern.as_str(), names) {
            Some(near) => problem.hint(format!("did you mean `{near}`?")),
            None => problem,
        }
    };
    idle(names, patterns).map(problem).collect()
}

impl Program {
    /// Those of `patterns` that name no tool of `toolbox`, which is this program's or a part of it.
    pub fn idle<'p>(
        &self,
        toolbox: &Toolbox,
        patterns: impl IntoIterator<Item = &'p ToolPattern>,
    ) -> Vec<Idle> {
        let mut names: Vec<&str> = toolbox.names().collect();
        names.sort_unstable();
        let of_haft = || NATIVE.iter().map(|native| native.name).chain(OF_BUILTINS.iter().copied());
        let is_off = |name: &str| of_haft().any(|own| own == name) && self.toolbox.find(name).is_none();
        let why = |pattern: &ToolPattern| match self.unseen.of(pattern) {
            _ if is_off(pattern.as_str()) => Why::Unseen("haft has this tool, and it is not on here".into()),
            Some(why) => Why::Unseen(why.to_owned()),
            None => Why::Nothing(near(pattern.as_str(), &names)),
        };
        idle(&names, patterns)
            .map(|pattern| Idle { pattern: pattern.to_string(), why: why(pattern) })
            .collect()
    }

    /// What is wrong with `patterns`, which somebody wrote at `place` to choose of `toolbox`; and what cannot be
    /// told. Where everything is known that there is, or is going to be, choosing nothing is wrong too.
    pub fn misnamed(
        &self,
        place: &str,
        toolbox: &Toolbox,
        patterns: &[ToolPattern],
        is_last: bool,
    ) -> (Vec<Problem>, Vec<String>) {
        let idle = self.idle(toolbox, patterns);
        let (slips, unknown): (Vec<_>, Vec<_>) =
            idle.iter().partition(|idle| matches!(idle.why, Why::Nothing(_)));
        let mut wrong: Vec<Problem> = slips.into_iter().map(|idle| idle.problem(place)).collect();
        let mut unknown: Vec<String> = unknown.into_iter().map(|idle| format!("{place}: {idle}")).collect();
        let is_known = self.is_complete && self.servers.unknown().is_empty();
        let is_empty = !patterns.is_empty() && idle.len() == patterns.len();
        if wrong.is_empty() && is_empty && (is_last || is_known) {
            let nothing = Problem::new(format!("{place} leaves no tool"));
            wrong.push(unknown.drain(..).fold(nothing, Problem::hint));
        }
        (wrong, unknown)
    }

    /// The same of `[agent] tools`, with the place.
    pub fn misnamed_agent_tools(&self, is_last: bool) -> (Vec<Problem>, Vec<String>) {
        let Some(allowed) = &self.manifest.agent.tools else { return Default::default() };
        let (wrong, unknown) = self.misnamed("`[agent] tools`", &self.toolbox, &allowed.value, is_last);
        (wrong.into_iter().map(|problem| problem.at(allowed.span, "these")).collect(), unknown)
    }

    /// The tools that an agent is offered: those that `patterns` name, in the place of `[agent] tools`, where
    /// there are any. What cannot be told is said to `warn`; what names nothing is refused.
    pub fn chosen_tools(&self, patterns: &[ToolPattern], warn: impl Fn(&str)) -> Result<Toolbox, Report> {
        let (wrong, unknown) = if patterns.is_empty() {
            self.misnamed_agent_tools(true)
        } else {
            self.misnamed("`--tools`", &self.toolbox, patterns, true)
        };
        for line in &unknown {
            warn(line);
        }
        if wrong.is_empty() { Ok(self.agent_tools(patterns)) } else { Err(self.manifest.report(wrong)) }
    }
}

impl Idle {
    fn problem(&self, place: &str) -> Problem {
        let problem = Problem::new(format!("{place}: {self}"));
        match &self.why {
            Why::Nothing(Some(near)) => problem.hint(format!("did you mean `{near}`?")),
            _ => problem.hint("`haft tools` lists those there are"),
        }
    }
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Why::Nothing(_) => write!(f, "no tool is called `{}`", self.pattern),
            Why::Unseen(why) => write!(f, "`{}` names no tool so far: {why}", self.pattern),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c08_the_nearest_name_or_group_is_told() {
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

    #[test]
    fn c08_what_may_be_there_is_no_slip() {
        let mut unseen = Unseen::default();
        unseen.note(of_server("git"), "not asked yet");
        for (pattern, may_be) in [
            ("mcp__git__*", true),
            ("mcp__git__log", true),
            ("mcp__*", true),
            ("*_log", true),
            ("mcp__gti__*", false),
            ("git__*", false),
            ("mcp__git", false),
        ] {
            assert_eq!(unseen.of(&pattern.parse().unwrap()).is_some(), may_be, "{pattern}");
        }
    }

    /// Each is the name of a tool that there is with everything on.
    #[tokio::test]
    async fn c08_the_built_in_tools_are_those_there_are() {
        let known: Vec<_> = super::super::builtin_names().collect();
        assert_eq!(known.len(), 4, "{known:?}: a new one has tools that belong to `OF_BUILTINS`");
    }
}
