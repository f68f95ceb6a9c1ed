//! The rules for calls in `[agent]`: made into values, and checked against the tools that there are. What a rule means is
//! decided in `haft_core::tool`.

use std::path::Path;

use super::Program;
use super::patterns::Why;
use haft_core::report::{Problem, Report};
use haft_core::tool::{Rule, Rules, Toolbox};
use haft_manifest::{Located, Manifest, RulePattern};

/// The rules of program.toml. `home` is what `~` means in them.
pub(super) fn of(manifest: &Manifest, home: &Path) -> Rules {
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
    /// The tools for calls that a person types one by one: that is their answer wherever a rule would have them asked.
    pub fn typed_tools(&self) -> Toolbox {
        self.toolbox.ruled(&of(&self.manifest, &self.dirs.home).for_a_person())
    }

    /// Rules and hooks that name no tool, and what cannot be checked yet.
    pub fn misnamed_rules(&self) -> (Vec<Problem>, Vec<String>) {
        let (mut wrong, mut unknown, tools) = (Vec::new(), Vec::new(), self.with_read_skill());
        for (effect, rule) in self.manifest.agent.rules.all() {
            let place = format!("`{}` in `[agent]`", effect.as_str());
            for idle in self.idle(&tools, [rule.value.tools()]) {
                match idle.why {
                    Why::Nothing(_) => wrong.push(idle.problem(&place).at(rule.span, "this rule")),
                    Why::Unseen(_) => unknown.push(format!("{place}: {idle}")),
                }
            }
        }
        for plugin in self.manifest.plugins.iter().filter(|plugin| plugin.enabled) {
            let place = format!("`hooks` of plugin `{}`", plugin.name.as_str());
            for pattern in plugin.hooks.iter().flatten() {
                for idle in self.idle(&tools, [&pattern.value]) {
                    match idle.why {
                        Why::Nothing(_) => wrong.push(idle.problem(&place).at(pattern.span, "this pattern")),
                        Why::Unseen(_) => unknown.push(format!("{place}: {idle}")),
                    }
                }
            }
        }
        (wrong, unknown)
    }

    /// The same, as one report, of those that can be told.
    pub(super) fn report_of_rules(&self) -> Option<Report> {
        let (wrong, _) = self.misnamed_rules();
        (!wrong.is_empty()).then(|| self.manifest.report(wrong))
    }
}
