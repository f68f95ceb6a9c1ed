//! Tools that the user selected by name (`--tools`, `[agent] tools`), the rules for calls in `[agent]`, and the hooks that
//! see calls. A name without a tool is refused; a name that cannot be checked yet is reported. `haft_core::tool` matches
//! calls against the rules.

use std::path::Path;
use std::sync::Arc;

use super::Program;
use super::patterns::{Idle, OF_BUILTINS, Why, idle, near};
use haft_core::report::{Problem, Report};
use haft_core::skill::ReadSkill;
use haft_core::tool::{Hook, Rule, Rules, Toolbox};
use haft_manifest::{Located, Manifest, RulePattern, ToolPattern};
use haft_sandbox::native::NATIVE;

impl Program {
    /// Returns the `patterns` that match no tool of `toolbox`, which holds all or some of this program's tools.
    pub fn idle<'p>(
        &self,
        toolbox: &Toolbox,
        patterns: impl IntoIterator<Item = &'p ToolPattern>,
    ) -> Vec<Idle> {
        let mut names: Vec<&str> = toolbox.names().collect();
        names.sort_unstable();
        let of_haft =
            || NATIVE.iter().map(|own| own.name).chain(OF_BUILTINS.iter().copied()).chain([ReadSkill::NAME]);
        let is_off = |name: &str| of_haft().any(|own| own == name) && self.toolbox.find(name).is_none();
        let why = |pattern: &ToolPattern| match self.unseen.reason_for(pattern) {
            _ if is_off(pattern.as_str()) => Why::Unseen("this built-in tool is switched off".into()),
            Some(why) => Why::Unseen(why.to_owned()),
            None => Why::Nothing(near(pattern.as_str(), &names)),
        };
        idle(&names, patterns)
            .map(|pattern| Idle { pattern: pattern.to_string(), why: why(pattern) })
            .collect()
    }

    /// Returns the errors of `patterns`, which select tools of `toolbox` at `place`, and the patterns that cannot
    /// be checked yet. If all tools are known, an empty selection is an error too.
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

    /// Returns the errors of `[agent] tools`, with their place.
    pub fn misnamed_agent_tools(&self, is_last: bool) -> (Vec<Problem>, Vec<String>) {
        let Some(allowed) = &self.manifest.agent.tools else { return Default::default() };
        let (wrong, unknown) =
            self.misnamed("`[agent] tools`", &self.with_read_skill(&[]), &allowed.value, is_last);
        (wrong.into_iter().map(|problem| problem.at(allowed.span, "these")).collect(), unknown)
    }

    /// Returns the tools for an agent: those that `patterns` match or, without patterns, `[agent] tools`. Rules
    /// may name all of the tools. Reports unchecked patterns to `warn`, and refuses a pattern without a tool.
    pub fn chosen_tools(&self, patterns: &[ToolPattern], warn: impl Fn(&str)) -> Result<Toolbox, Report> {
        let (mut wrong, mut unknown) = self.misnamed_rules();
        let (more_wrong, more_unknown) = if patterns.is_empty() {
            self.misnamed_agent_tools(true)
        } else {
            self.misnamed("`--tools`", &self.with_read_skill(patterns), patterns, true)
        };
        wrong.extend(more_wrong);
        unknown.extend(more_unknown);
        for line in &unknown {
            warn(line);
        }
        if wrong.is_empty() { Ok(self.agent_tools(patterns)) } else { Err(self.manifest.report(wrong)) }
    }
}

/// Returns the tools of `all` for an agent, the program's own or another one: those that `patterns` match, without
/// tools for user interfaces alone.
pub(super) fn of_agent(all: &Toolbox, patterns: Option<&[ToolPattern]>) -> Toolbox {
    let all = all.for_models();
    match patterns {
        Some(patterns) => all.select(patterns, None),
        None => all,
    }
}

/// Returns the rules of program.toml. `home` is the expansion of `~`.
pub(super) fn rules(manifest: &Manifest, home: &Path) -> Rules {
    let (table, source) = (&manifest.agent.rules, &manifest.source);
    let rule = |(effect, rule): (_, &Located<RulePattern>)| Rule {
        effect,
        pattern: rule.value.clone(),
        place: source.place(rule.span),
        base: None,
    };
    let otherwise = table.otherwise.as_ref().map(|otherwise| (otherwise.value, source.place(otherwise.span)));
    Rules { rules: table.all().map(rule).collect(), otherwise, home: Some(home.to_owned()) }
}

impl Program {
    /// Returns the tools for calls that a user types. Typing a call approves it; denied calls stay denied.
    pub fn typed_tools(&self) -> Toolbox {
        self.toolbox.ruled(&rules(&self.manifest, &self.dirs.home).for_a_person())
    }

    /// Returns the errors of rules and hooks that match no tool, and the patterns that cannot be checked yet.
    pub fn misnamed_rules(&self) -> (Vec<Problem>, Vec<String>) {
        let rules = self.manifest.agent.rules.all().map(|(effect, rule)| {
            let place = format!("`{}` in `[agent]`", effect.as_str());
            (place, rule.value.tools(), rule.span, "this rule")
        });
        let plugins = self.manifest.plugins.iter().filter(|plugin| plugin.enabled);
        let hooks = plugins.flat_map(|plugin| plugin.hooks.iter().flatten().map(move |hook| (plugin, hook)));
        let hooks = hooks.map(|(plugin, pattern)| {
            let place = format!("`hooks` of plugin `{}`", plugin.name.as_str());
            (place, &pattern.value, pattern.span, "this pattern")
        });
        let (mut wrong, mut unknown, tools) = (Vec::new(), Vec::new(), self.with_read_skill(&[]));
        for (place, pattern, span, label) in rules.chain(hooks) {
            for idle in self.idle(&tools, [pattern]) {
                match idle.why {
                    Why::Nothing(_) => wrong.push(idle.problem(&place).at(span, label)),
                    Why::Unseen(_) => unknown.push(format!("{place}: {idle}")),
                }
            }
        }
        (wrong, unknown)
    }

    /// Returns the known errors of rules as one report.
    pub(super) fn report_of_rules(&self) -> Option<Report> {
        let (wrong, _) = self.misnamed_rules();
        (!wrong.is_empty()).then(|| self.manifest.report(wrong))
    }
}

/// A hook, and the tools whose calls it sees.
#[derive(Clone)]
pub(super) struct Watching {
    pub(super) tools: Vec<ToolPattern>,
    pub(super) hook: Arc<dyn Hook>,
    /// Whether the hook is unavailable, so that every call that it should see is refused.
    pub(super) is_absent: bool,
}

impl Watching {
    pub(super) fn sees(&self, tool: &str) -> bool {
        self.tools.iter().any(|pattern| pattern.matches(tool))
    }
}

/// Returns the tools with these hooks, in the order of program.toml.
pub(super) fn hooked(tools: &Toolbox, hooks: &[Watching]) -> Toolbox {
    hooks.iter().fold(tools.clone(), |tools, watching| tools.hooked(&watching.tools, &watching.hook))
}

impl std::fmt::Debug for Watching {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { tools, hook, is_absent } = self;
        let mut shown = f.debug_struct("Watching");
        shown.field("tools", tools).field("hook", &hook.name()).field("is_absent", is_absent).finish()
    }
}
