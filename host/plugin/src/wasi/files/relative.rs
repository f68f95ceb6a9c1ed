//! Recovers the path that a guest meant from the path that its C library passes on.
//!
//! A C library without a known working directory turns `x` into `/x`, and looks it up in the preopened directory
//! named `/`. If that were the workspace, `/etc/x` would silently become a file of the workspace; if there were
//! none, relative paths would fail, and most paths that models write are relative. haft therefore preopens a `/`
//! that is not a real directory (`stand_in`), and interprets each path below it as follows:
//!
//! - **A guest that asked haft for its workspace** uses absolute paths, except for the relative paths among the
//!   call's arguments.
//! - **Otherwise the call's arguments decide.** If an argument is that path, or a part or a parent of it, the path
//!   is absolute if the argument begins with a slash, and otherwise relative to the workspace.
//! - **Otherwise no argument names it.** The path is absolute if it leads to the workspace, or if this machine has
//!   its first name in `/` and the workspace does not (`/etc`, `/usr`, `/tmp`), otherwise relative.
//!
//! In every case only the directories of the grant exist.

use std::fs::symlink_metadata;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use haft_core::grant::{Preopen, Root, normalise};
use haft_state::Kept;

/// The name that C libraries look relative paths up by, and Go's takes its working directory from.
pub(super) const NAME: &str = "/";

/// Arguments of a call that may be paths; a call names a few.
const MAX_NAMED: usize = 1000;

/// Maximum number of bytes of a path, as Linux has it.
const MAX_PATH: usize = 4096;

/// The directory of a guest's descriptor.
#[derive(Clone, Debug)]
pub(super) enum HandedDirectory {
    /// The directory [`NAME`], which may be the workspace itself.
    Root {
        is_workspace: bool,
    },
    Granted(PathBuf),
    /// A private directory, or an object opened from one.
    Private(Kept),
}

/// The facts for the interpretation of one guest's paths.
#[derive(Clone, Copy, Default)]
pub(super) struct RelativePaths<'a> {
    /// Whether the guest can ask haft for its workspace.
    pub(super) can_ask: bool,
    /// Whether the guest has received the answer. Its library keeps it for as long as the instance lives.
    pub(super) is_location_known: bool,
    /// Texts among the arguments of the call, which [`named`] finds.
    pub(super) named: &'a [String],
}

impl RelativePaths<'_> {
    /// Returns whether a library made `absolute` of a relative path among the call's arguments: a guest that knows
    /// its workspace need not begin there.
    fn is_relative(&self, absolute: &Path) -> bool {
        let relative = self.named.iter().filter(|named| !named.starts_with('/'));
        let mut shortened = relative.map(|named| normalise(&Path::new("/").join(named)));
        shortened.any(|named| named.parent().is_some() && are_kin(&named, absolute))
    }

    /// Returns the original of `path`, which the guest's library has shortened: the complete path, and whether the
    /// call's arguments name it. Relative paths start from `base`.
    pub(super) fn meaning(&self, base: Option<&Root>, path: &str) -> (PathBuf, bool) {
        let absolute = normalise(&Path::new("/").join(path));
        let is_named = |slash: bool| {
            let alike = self.named.iter().filter(|named| named.starts_with('/') == slash);
            alike.map(|named| normalise(&Path::new("/").join(named))).any(|named| are_kin(&named, &absolute))
        };
        let Some(base) = base else {
            let is_named = is_named(true) || is_named(false);
            return (absolute, is_named);
        };
        let relative = || normalise(&base.path().join(path));
        if lies_in(base, &absolute) || (self.is_location_known && !self.is_relative(&absolute)) {
            let is_named = self.named.iter().any(|named| are_kin(&in_full(base, named), &absolute));
            return (absolute, is_named);
        }
        match (is_named(true), is_named(false)) {
            (_, true) => (relative(), true),
            (true, false) => (absolute, true),
            (false, false) if is_of_the_system(base.path(), &absolute) => (absolute, false),
            (false, false) => (relative(), false),
        }
    }
}

fn in_full(base: &Root, named: &str) -> PathBuf {
    let below_home = named.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'));
    match (below_home, etcetera::home_dir()) {
        (Some(rest), Ok(home)) => normalise(&home.join(rest.trim_start_matches('/'))),
        _ => normalise(&base.path().join(named)),
    }
}

/// Returns whether `path` is `base` or below it, under one of its names.
fn lies_in(base: &Root, path: &Path) -> bool {
    path.starts_with(base.path()) || path.starts_with(base.real())
}

/// Returns the absolute path of `path` below the directory `name`, if it leaves the directory at its beginning. A C
/// library looks for the directory that a path begins with, and passes `/ws/notes/../other` on as `../other` below
/// `/ws/notes`.
pub(super) fn upwards(name: &Path, path: &str) -> Option<PathBuf> {
    let (mut place, mut rest) = (name, Path::new(path));
    while let Ok(next) = rest.strip_prefix("..") {
        (place, rest) = (place.parent().unwrap_or(place), next);
    }
    (rest != Path::new(path)).then(|| place.join(rest))
}

pub(super) fn names_directory(path: &str) -> bool {
    path.ends_with('/') || path.ends_with("/.")
}

/// Returns the directory of `preopens` that contains `path`, and the path below it. The workspace has two names if
/// links lead to it, and its content was granted under one of them.
pub(super) fn split(preopens: &[Preopen], base: Option<&Root>, path: &Path) -> Option<(Preopen, String)> {
    let other_name = || {
        let base = base?;
        let swap = |from: &Path, to: &Path| Some(normalise(&to.join(path.strip_prefix(from).ok()?)));
        swap(base.path(), base.real()).or_else(|| swap(base.real(), base.path()))
    };
    covering(preopens, path).or_else(|| covering(preopens, &other_name()?))
}

fn covering(preopens: &[Preopen], path: &Path) -> Option<(Preopen, String)> {
    let covers = preopens.iter().filter(|preopen| path.starts_with(&preopen.name));
    let preopen = covers.max_by_key(|preopen| preopen.name.len())?;
    let rest = path.strip_prefix(&preopen.name).ok()?.to_str()?.to_owned();
    Some((preopen.clone(), if rest.is_empty() { ".".to_owned() } else { rest }))
}

/// Returns the texts among a call's arguments that could be paths.
pub(crate) fn named(arguments: &Value) -> Vec<String> {
    let mut named = Vec::new();
    texts(arguments, &mut named);
    named
}

fn texts(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) if !text.is_empty() && text.len() <= MAX_PATH && into.len() < MAX_NAMED => {
            into.push(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, into)),
        Value::Object(entries) => entries.values().for_each(|item| texts(item, into)),
        _ => {}
    }
}

fn are_kin(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// Returns whether this machine has the first name of a path in `/`, and the workspace does not.
fn is_of_the_system(base: &Path, path: &Path) -> bool {
    let first = path.components().find_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    first.is_some_and(|first| {
        let is_there = |directory: &Path| symlink_metadata(directory.join(first)).is_ok();
        is_there(Path::new("/")) && !is_there(base)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn root(path: &Path) -> Root {
        Root::resolve(Path::new("/"), path).unwrap()
    }

    fn meaning(arguments: &Value, path: &str) -> (String, bool) {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir(base.path().join("usr")).unwrap();
        let relative = RelativePaths { named: &named(arguments), ..RelativePaths::default() };
        let (path, is_named) = relative.meaning(Some(&root(base.path())), path);
        let shown = path
            .strip_prefix(base.path())
            .map_or_else(|_| path.display().to_string(), |rest| format!("WORKSPACE/{}", rest.display()));
        (shown, is_named)
    }

    #[test]
    fn a_path_is_what_the_call_says_it_is() {
        let nothing = json!({});
        for (arguments, path, expected) in [
            (json!({ "path": "/zzz" }), "zzz", ("/zzz", true)),
            (json!({ "path": "zzz" }), "zzz", ("WORKSPACE/zzz", true)),
            (json!({ "paths": [{ "to": "/zzz/a/../b" }] }), "zzz/b", ("/zzz/b", true)),
            // The parents of a file to create, and the content of a named directory.
            (json!({ "path": "/zzz/a/b" }), "zzz/a", ("/zzz/a", true)),
            (json!({ "path": "/zzz" }), "zzz/a/b", ("/zzz/a/b", true)),
            (json!({ "path": "." }), "etc", ("WORKSPACE/etc", true)),
            (json!({ "path": "tmp/x" }), "tmp/x", ("WORKSPACE/tmp/x", true)),
            (json!({ "path": "/tmp/x", "name": "tmp" }), "tmp/x", ("WORKSPACE/tmp/x", true)),
            // Paths that no argument names.
            (nothing.clone(), "etc/passwd", ("/etc/passwd", false)),
            (nothing.clone(), "usr/local", ("WORKSPACE/usr/local", false)),
            (nothing.clone(), "no-such-name-here/x", ("WORKSPACE/no-such-name-here/x", false)),
            (json!({ "text": "" }), "etc/passwd", ("/etc/passwd", false)),
        ] {
            assert_eq!(meaning(&arguments, path), (expected.0.to_owned(), expected.1), "{arguments} {path}");
        }
    }

    /// C01: a guest that knows its workspace uses absolute paths, even if directories of the workspace have the
    /// names of its parents.
    #[test]
    fn a_guest_that_was_told_where_it_is_names_paths_in_full() {
        let place = tempfile::tempdir().unwrap();
        let first = place.path().components().nth(1).unwrap();
        std::fs::create_dir(place.path().join(first)).unwrap();
        let base = root(place.path());
        let named = named(&json!({ "path": "notes/a.md", "other": first.as_os_str().to_str() }));
        let relative = RelativePaths { can_ask: true, is_location_known: true, named: &named };
        let full = place.path().join("notes/a.md");
        let shortened = full.to_str().unwrap().trim_start_matches('/');
        assert_eq!(relative.meaning(Some(&base), shortened), (full, true));
        assert_eq!(relative.meaning(Some(&base), "etc/passwd"), ("/etc/passwd".into(), false));
        let begun_elsewhere = relative.meaning(Some(&base), "notes/a.md");
        assert_eq!(begun_elsewhere, (place.path().join("notes/a.md"), true));
    }

    /// C01: a grant by one name of the workspace is valid for its other name.
    #[test]
    fn a_workspace_behind_a_link_has_two_names() {
        let place = tempfile::tempdir().unwrap();
        let real = place.path().join("real");
        std::fs::create_dir_all(real.join("notes")).unwrap();
        std::os::unix::fs::symlink(&real, place.path().join("link")).unwrap();
        let base = root(&place.path().join("link"));
        let granted = haft_core::grant::Grant::none().with_read(root(&real.join("notes"))).preopens();
        for path in ["link/notes/a.md", "real/notes/a.md"] {
            let (preopen, rest) = split(&granted, Some(&base), &place.path().join(path)).unwrap();
            assert_eq!((preopen.root.real(), &*rest), (real.join("notes").as_path(), "a.md"), "{path}");
        }
        assert_eq!(split(&granted, Some(&base), &place.path().join("link/other")), None);
    }

    /// C01: `..` leads from one granted directory to another.
    #[test]
    fn paths_lead_up_at_their_beginning() {
        let up = |path: &str| upwards(Path::new("/ws/notes"), path);
        assert_eq!(up("../other/c.md"), Some("/ws/other/c.md".into()));
        assert_eq!(up("./../../x/../y"), None);
        assert_eq!(up("../../x/../y"), Some("/x/../y".into()));
        assert_eq!(up("../../../.."), Some("/".into()));
        assert_eq!(up("a/../../other"), None, "`a` may be a link");
    }

    #[test]
    fn of_many_arguments_some_are_kept() {
        let named = named(&json!(["x".repeat(MAX_PATH + 1), vec!["y"; MAX_NAMED + 1]]));
        assert_eq!(named.len(), MAX_NAMED);
    }
}
