//! The rights that a plugin's author proposes, one table for each server and skill: in `extensions` of plugin.json,
//! or in a file in the folder of that name (§8). A proposal grants nothing; it is the upper bound of the consent
//! question.

use std::collections::BTreeMap;

use haft_core::grant::Right;
use serde_json::{Map, Value};

use super::{AGENT, Fault, FaultKind, Files};

/// The namespace of haft in `extensions`, and the name of its folder (§8).
const NAMESPACE: &str = "dev.haft";

/// The file in the folder, for plugins whose manifest has no `extensions`.
const FILE: &str = "dev.haft/permissions.json";

/// Maximum number of rights of one server or skill: as many as fit on a screen.
const MAX_RIGHTS: usize = 64;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Permissions {
    /// Whether the author proposes anything at all.
    is_there: bool,
    servers: BTreeMap<String, Vec<Right>>,
    skills: BTreeMap<String, Vec<Right>>,
}

impl Permissions {
    /// Reads the proposal of a plugin; the manifest's takes precedence.
    pub(super) fn read(
        files: &Files<'_>,
        extensions: Option<&Map<String, Value>>,
        faults: &mut Vec<Fault>,
    ) -> Self {
        let own = extensions.and_then(|all| all.get(NAMESPACE)).and_then(|own| own.get("permissions"));
        let in_folder = || files.has(FILE).then(|| files.json(FILE));
        let (file, value) = match (own, in_folder) {
            (Some(own), _) => (AGENT, Ok(own.clone())),
            (None, in_folder) => match in_folder() {
                Some(read) => (FILE, read),
                None => return Self::default(),
            },
        };
        let mut reading = Reading { file, faults };
        let mut found = Self { is_there: true, ..Self::default() };
        match value {
            Ok(Value::Object(kinds)) => {
                for (kind, parts) in &kinds {
                    match kind.as_str() {
                        "$schema" => {}
                        "servers" => found.servers = reading.parts(kind, parts),
                        "skills" => found.skills = reading.parts(kind, parts),
                        other => reading.note(&format!("`{other}` is neither `servers` nor `skills`")),
                    }
                }
            }
            Ok(_) => reading.note("expected an object with `servers` and `skills`"),
            Err(why) => reading.note(&why),
        }
        found
    }

    /// Returns the proposal for a server; `None` if the author proposes nothing for any part.
    pub(super) fn server(&self, name: &str) -> Option<Vec<Right>> {
        self.is_there.then(|| self.servers.get(name).cloned().unwrap_or_default())
    }

    /// Returns the proposal for a skill's scripts and its own servers.
    pub(super) fn skill(&self, name: &str) -> Option<Vec<Right>> {
        self.is_there.then(|| self.skills.get(name).cloned().unwrap_or_default())
    }
}

struct Reading<'a> {
    file: &'static str,
    faults: &'a mut Vec<Fault>,
}

impl Reading<'_> {
    fn note(&mut self, why: &str) {
        let text = format!("the rights that `{}` proposes: {why}; not requested", self.file);
        self.faults.push(Fault::new(FaultKind::Permission, text));
    }

    fn parts(&mut self, kind: &str, value: &Value) -> BTreeMap<String, Vec<Right>> {
        let Value::Object(parts) = value else {
            self.note(&format!("expected `{kind}` to be an object"));
            return BTreeMap::new();
        };
        parts
            .iter()
            .map(|(name, table)| (name.clone(), self.table(&format!("{kind}.{name}"), table)))
            .collect()
    }

    fn table(&mut self, place: &str, value: &Value) -> Vec<Right> {
        let Value::Object(keys) = value else {
            self.note(&format!("expected `{place}` to be an object"));
            return Vec::new();
        };
        let mut rights = Vec::new();
        for (key, value) in keys {
            match (key.as_str(), value) {
                ("read" | "write" | "env" | "credentials" | "hosts", Value::Array(all)) => {
                    rights.extend(all.iter().filter_map(|one| self.right(place, key, one)));
                }
                ("state", one) => rights.extend(self.right(place, key, one)),
                _ => self.note(&format!("`{place}.{key}` is not a valid right")),
            }
        }
        if rights.len() > MAX_RIGHTS {
            self.note(&format!("`{place}` has more than {MAX_RIGHTS} rights"));
            rights.truncate(MAX_RIGHTS);
        }
        rights
    }

    fn right(&mut self, place: &str, key: &str, value: &Value) -> Option<Right> {
        let text = value.as_str().unwrap_or_default();
        let word = if key == "hosts" { "host" } else { key };
        match format!("{word}={text}").parse() {
            Ok(right) if !text.is_empty() => Some(right),
            _ => {
                self.note(&format!("`{place}.{key}` has an invalid right: {value}"));
                None
            }
        }
    }
}
