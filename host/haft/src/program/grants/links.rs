//! Links on the way to sealed files: a tool that may write the directory of such a link could replace the file.

use std::path::{Path, PathBuf};

use haft_core::grant::{Closed, Grant, Reach, Why};
use haft_core::report::{Problem, Report};

/// Fails if a tool with `grant` could replace a sealed file: a link on the way to it is in a directory that the
/// tool may write, and nothing can be mounted over a link.
pub(in crate::program) fn refuse_links(grant: &Grant) -> anyhow::Result<()> {
    let Reach::Roots(writable) = grant.writable() else { return Ok(()) };
    // A file that is found, not named, is closed at its real path: a `~/.npmrc` that is a link does not prevent
    // work in `~`.
    for sealed in grant.closed().filter(|closed| matches!(closed.why, Why::Own | Why::Denied)) {
        let replaceable = |link: &PathBuf| writable.iter().any(|root| link.starts_with(root.real()));
        if let Some(link) = sealed.root.links().into_iter().find(replaceable) {
            let way_out = way_out(&link, sealed.root.real());
            let (link, real) = (link.display(), sealed.root.real().display());
            let what = replaced(sealed);
            let problem = Problem::new(format!(
                "`{link}` is a link to `{real}` in a directory that tools may write: a tool could replace {what}"
            ));
            return Err(Report::new(vec![problem.hint(way_out)]).into());
        }
    }
    Ok(())
}

/// Returns the hint for a link that a tool could replace. The target of a link in a virtual environment is an
/// interpreter without the packages of the environment.
fn way_out(link: &Path, real: &Path) -> String {
    let environment = link.parent().and_then(Path::parent);
    if environment.is_some_and(|place| place.join("pyvenv.cfg").is_file()) {
        const ELSEWHERE: &str = "python3 -m venv ~/.local/share/haft-venv";
        return format!(
            "create the virtual environment outside the directories that tools may write: `{ELSEWHERE}`"
        );
    }
    format!("write `{}` instead, or set another `[sandbox] workspace`", real.display())
}

/// Describes the target of a link that a tool could replace.
fn replaced(sealed: &Closed) -> &'static str {
    if sealed.why == Why::Denied { "a path of `deny`" } else { "the file that sets the tools' rights" }
}
