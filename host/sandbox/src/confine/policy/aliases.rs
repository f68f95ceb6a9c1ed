//! Aliases of a path: a file system can be mounted in several places, and a path that is denied in one would be
//! accessible in another. An alias counts only if the identical file or directory is there.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};

/// The kernel's list of mounts.
const MOUNTS: &str = "/proc/self/mountinfo";

/// Returns `paths` and all aliases of the same files and directories. A path that is missing, or behind a directory that
/// haft may not search, has the aliases of the nearest directory above it.
pub(super) fn with_aliases(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    if paths.is_empty() {
        return paths;
    }
    let list = fs::read(MOUNTS).unwrap_or_default();
    let mounts: Vec<_> = list.split(|byte| *byte == b'\n').filter_map(Mount::parse).collect();
    let mut with_aliases = paths.clone();
    for alias in paths.iter().flat_map(|path| aliases(path, &mounts)) {
        if !with_aliases.contains(&alias) {
            with_aliases.push(alias);
        }
    }
    with_aliases
}

#[derive(Debug, PartialEq, Eq)]
struct Mount {
    id: u64,
    /// The device number of the file system.
    device: String,
    /// The mounted part of the file system.
    root: PathBuf,
    place: PathBuf,
}

impl Mount {
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        let device = String::from_utf8(fields.nth(1)?.to_owned()).ok()?;
        Some(Self { id, device, root: unescaped(fields.next()?), place: unescaped(fields.next()?) })
    }
}

/// Decodes spaces and other characters, which are written as a backslash and three octal digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.filter(|_| *first == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { after.get(3..).unwrap_or_default() } else { after };
    }
    OsString::from_vec(bytes).into()
}

fn aliases(path: &Path, mounts: &[Mount]) -> Vec<PathBuf> {
    let nearest = path.ancestors().find_map(|above| Some((above, found(above)?)));
    let Some((above, here)) = nearest else { return Vec::new() };
    let Some(containing) = mounts.iter().find(|mount| mount.id == here.stx_mnt_id) else { return Vec::new() };
    let Ok(below) = above.strip_prefix(&containing.place) else { return Vec::new() };
    let Ok(unseen) = path.strip_prefix(above) else { return Vec::new() };
    let inside = containing.root.join(below);
    let others = mounts.iter().filter(|mount| mount.id != containing.id && mount.device == containing.device);
    let names = others.filter_map(|mount| {
        let below = inside.strip_prefix(&mount.root).ok()?;
        // Collecting the components removes a trailing slash.
        Some(mount.place.join(below).components().collect())
    });
    let is_same = |name: &PathBuf| found(name).is_some_and(|there| identity(&there) == identity(&here));
    let other = names.filter(|name| name != above).filter(is_same);
    other.map(|name| name.join(unseen).components().collect()).collect()
}

fn found(path: &Path) -> Option<Statx> {
    statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID).ok()
}

fn identity(found: &Statx) -> (u32, u32, u64) {
    (found.stx_dev_major, found.stx_dev_minor, found.stx_ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_read_from_its_line() {
        let line = br"36 35 98:0 /mnt1 /mnt\040two rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let (root, place) = ("/mnt1".into(), "/mnt two".into());
        assert_eq!(Mount::parse(line), Some(Mount { id: 36, device: "98:0".to_owned(), root, place }));
        assert_eq!(Mount::parse(b""), None);
        assert_eq!(unescaped(br"a\1"), Path::new(r"a\1"));
    }

    /// A second mount of the temporary directory is simulated: a link to it counts as its place.
    #[test]
    fn a_path_that_is_not_visible_has_the_aliases_of_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().canonicalize().unwrap();
        fs::create_dir_all(place.join("one/inner")).unwrap();
        std::os::unix::fs::symlink("one", place.join("two")).unwrap();
        let here = found(&place.join("one")).unwrap();
        let mount = |id, place| Mount { id, device: "0:1".to_owned(), root: "/".into(), place };
        let mounts = [mount(here.stx_mnt_id, place.join("one")), mount(0, place.join("two"))];
        for path in ["inner", "inner/none/none"] {
            assert_eq!(
                aliases(&place.join("one").join(path), &mounts),
                [place.join("two").join(path)],
                "{path}"
            );
        }
    }

    #[test]
    fn what_is_mounted_once_has_one_name() {
        let directory = tempfile::tempdir().unwrap();
        let paths = vec![directory.path().canonicalize().unwrap(), directory.path().join("missing")];
        assert_eq!(with_aliases(paths.clone()), paths);
    }
}
