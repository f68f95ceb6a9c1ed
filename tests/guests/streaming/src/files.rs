//! Paths in the preopened directories of a guest.

use super::bindings::wasi::filesystem::preopens;
use super::bindings::wasi::filesystem::types::{
    Descriptor, DescriptorFlags, ErrorCode, OpenFlags, PathFlags,
};

/// An error of WASI as text.
#[expect(clippy::needless_pass_by_value, reason = "what `map_err` hands over")]
pub(crate) fn text(code: ErrorCode) -> String {
    format!("{code:?}")
}

/// The directory that `path` lies in, and the path in it.
pub(crate) fn directory(path: &str) -> Result<(Descriptor, String), String> {
    let mut found: Option<(Descriptor, String, usize)> = None;
    for (descriptor, name) in preopens::get_directories() {
        let Some(rest) = path.strip_prefix(name.as_str()) else { continue };
        let is_within = name.ends_with('/') || rest.is_empty() || rest.starts_with('/');
        if is_within && found.as_ref().is_none_or(|(_, _, length)| *length < name.len()) {
            let rest = rest.trim_start_matches('/');
            found = Some((descriptor, if rest.is_empty() { "." } else { rest }.to_owned(), name.len()));
        }
    }
    found.map(|(descriptor, rest, _)| (descriptor, rest)).ok_or_else(|| format!("no directory holds {path}"))
}

/// The file or directory at `path`, opened.
pub(crate) async fn open(path: &str, how: OpenFlags, flags: DescriptorFlags) -> Result<Descriptor, String> {
    let (directory, rest) = directory(path)?;
    directory.open_at(PathFlags::SYMLINK_FOLLOW, rest, how, flags).await.map_err(text)
}
