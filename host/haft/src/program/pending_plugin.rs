//! A plugin on its way into the toolbox: what is known of it before its component is loaded.

use super::patterns;
use super::pins::Agreed;
use haft_core::call::ToolDef;
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::report::Span;
use haft_core::tool::SubjectArgument;
use haft_manifest::{Component, Label, Located, Package, Plugin as Declared, PluginSecret, ToolName};
use haft_package::disclosure::Disclosure;
use haft_plugin_host::{GrantPlace, PluginOffer, Source};

/// One plugin on its way into the toolbox.
pub(super) struct PendingPlugin<'a> {
    pub(super) name: String,
    pub(super) source: Source,
    pub(super) grant: Grant,
    /// Where a person would grant more.
    pub(super) place: GrantPlace,
    pub(super) limits: Limits,
    /// What says what its calls are about.
    pub(super) about: SubjectArgument,
    /// What program.toml says of it; nothing for a built-in.
    pub(super) declared: Option<&'a Declared>,
    /// The package it came in. What is declared is the package's then, and the program has its say here.
    pub(super) package: Option<&'a Package>,
    /// The definitions that the user agreed to, where it is installed.
    pub(super) agreed: Option<Agreed>,
    /// Labels of the workers that it lives on; none: it lives here.
    pub(super) on: &'a [Label],
}

impl PendingPlugin<'_> {
    /// The headers that the program gives it: those of a package by the names that it asks for.
    pub(super) fn secrets(&self) -> Vec<&PluginSecret> {
        let Some(declared) = self.declared else { return Vec::new() };
        let Some(package) = self.package else { return declared.secrets.iter().collect() };
        let is_asked =
            |secret: &&PluginSecret| declared.secrets.iter().any(|asked| asked.name == secret.name);
        package.secrets.iter().filter(is_asked).collect()
    }

    /// Whether the tool that is `own` to the plugin is offered under its exposed name.
    pub(super) fn offers(&self, own: &str, exposed: &str) -> bool {
        is_offered(self.declared, own) && self.package.is_none_or(|package| offers(package, exposed))
    }

    /// Whether the tool is what the user agreed to. A component lists its tools by running, and may list others
    /// another day.
    pub(super) fn is_agreed_to(&self, own: &ToolDef) -> bool {
        let Some(agreed) = &self.agreed else { return true };
        // What the program itself says of a tool is its own.
        let def = described(self.declared.filter(|_| self.package.is_some()), own);
        let name = PluginOffer::exposed_name(&self.name, &own.name);
        agreed.get(&name) == Some(&Disclosure::definition_digest(ToolDef { name: name.clone(), ..def }))
    }

    /// What the names of its tools begin with.
    pub(super) fn prefix(&self) -> String {
        self.declared.map_or_else(String::new, |_| patterns::plugin_prefix(&self.name))
    }

    /// Whether it is a file of its author's, which nothing but they can put right.
    pub(super) fn is_own_file(&self) -> bool {
        self.declared.is_some_and(|plugin| matches!(plugin.component.value, Component::File(_)))
    }

    /// Where it stands in the program's file.
    pub(super) fn span(&self) -> Option<Span> {
        let own = self.declared.map(|plugin| plugin.component.span);
        self.package.map(|package| package.name.span).or(own)
    }
}

/// Those that may have a tool called `only`, and the others. Without `only` all of them may.
pub(super) fn split<'a>(
    pending: Vec<PendingPlugin<'a>>,
    only: Option<&str>,
) -> (Vec<PendingPlugin<'a>>, Vec<PendingPlugin<'a>>) {
    let Some(only) = only else { return (pending, Vec::new()) };
    // An exposed name begins with the plugin's, even where it had to be shortened.
    let plugin = only.split_once("__").map(|(plugin, _)| plugin);
    let may_have = |pending: &PendingPlugin<'_>| match (plugin, pending.declared) {
        // A hook sees the calls of others.
        (_, Some(declared)) if declared.hooks.is_some() => true,
        (Some(plugin), Some(_)) => pending.name.eq_ignore_ascii_case(plugin),
        (None, None) => true,
        _ => false,
    };
    pending.into_iter().partition(may_have)
}

fn is_offered(declared: Option<&Declared>, tool: &str) -> bool {
    let patterns = declared.and_then(|plugin| plugin.tools.as_ref());
    patterns.is_none_or(|patterns| patterns.iter().any(|pattern| pattern.matches(tool)))
}

/// Whether the program wants the tool with this exposed name of a package.
pub(super) fn offers(package: &Package, exposed: &str) -> bool {
    package.tools.as_ref().is_none_or(|patterns| patterns.iter().any(|pattern| pattern.matches(exposed)))
}

/// The tool with what program.toml says of it: the description, the title and the hints, if there are any.
pub fn described(declared: Option<&Declared>, own: &ToolDef) -> ToolDef {
    let Some(declared) = declared else { return own.clone() };
    let said = |texts: &[(Located<ToolName>, String)]| {
        texts.iter().find(|(name, _)| name.as_str() == own.name).map(|(_, text)| text.clone())
    };
    ToolDef {
        description: said(&declared.descriptions).unwrap_or_else(|| own.description.clone()),
        title: said(&declared.titles).or_else(|| own.title.clone()),
        hints: declared.hints.hints(&own.name, own.hints),
        ..own.clone()
    }
}
