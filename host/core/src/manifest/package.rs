//! `[[packages]]`: which packages of other people are used, and the most that their plugins get. What
//! a package itself holds is not looked at here.

use super::catalogue::{PACKAGE, PACKAGE_GRANT};
use super::config::{Settings, settings};
use super::entry::{Entry, Located};
use super::name::Name;
use super::pattern::ToolPattern;
use super::plugin::{GrantTable, PluginSecret, secrets};
use super::section::{Section, note_duplicates};
use super::source::PackageSource;

/// A package.
#[derive(Clone, Debug, PartialEq)]
pub struct Package {
    /// Its own name, as its program.toml says, or another, with which the names of its plugins begin then.
    pub name: Located<Name>,
    /// Where it comes from; paths are relative to the program's folder, or below `~/`.
    pub source: Located<PackageSource>,
    /// A package that is not enabled is checked and not loaded.
    pub enabled: bool,
    /// Which of its tools are offered, by their exposed names; `None`: all.
    pub tools: Option<Vec<ToolPattern>>,
    /// The most that its plugins get: each what it asks for and this allows.
    pub grant: GrantTable,
    /// What its plugins read of their configuration, in the place of what the package says itself.
    pub config: Option<Settings>,
    /// Headers its plugins send but never see, by the names that they ask for them.
    pub secrets: Vec<PluginSecret>,
}

impl Package {
    pub(super) fn read_all(root: &Section<'_>) -> Vec<Self> {
        let sections = root.tables("packages", &PACKAGE);
        let names = sections.iter().filter_map(|section| Some((section.span_of("name"), section.name()?)));
        note_duplicates(root.notes(), "packages", names);
        sections.iter().filter_map(Self::read).collect()
    }

    fn read(section: &Section<'_>) -> Option<Self> {
        let name = section.require("name", |entry| entry.located(Entry::parse));
        let source = section
            .require("source", |entry| entry.located(|entry| entry.path().and_then(|_| entry.parse())));
        let grant = section.get("grant", |entry| entry.section(&PACKAGE_GRANT));
        let read = Self {
            enabled: section.get("enabled", Entry::flag).unwrap_or(true),
            tools: section.get("tools", Entry::tool_patterns),
            grant: grant.as_ref().map(GrantTable::read).unwrap_or_default(),
            config: section.get("config", settings),
            secrets: section.get("secrets", secrets).unwrap_or_default(),
            name: name?,
            source: source?,
        };
        Some(read)
    }
}
