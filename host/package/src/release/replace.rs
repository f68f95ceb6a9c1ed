//! Puts two programs in the place of two others: both or none, and each whole at every moment. A process that is
//! killed in between leaves the new helper beside the old haft, which then does without it.

use std::fs;
use std::path::{Path, PathBuf};

use super::ReleaseError;
use crate::folder;

/// What haft's two programs are called.
const HAFT: &str = "haft";
const HELPER: &str = "haft-confine";

/// haft, and the helper that lies beside it.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) haft: PathBuf,
    pub(super) helper: PathBuf,
}

impl Pair {
    /// The two in a folder, as a release has them.
    pub(super) fn within(folder: &Path) -> Self {
        Self { haft: folder.join(HAFT), helper: folder.join(HELPER) }
    }

    /// `haft`, whatever its file is called, with the helper that it looks for.
    pub(super) fn beside(haft: &Path) -> Self {
        Self { haft: haft.to_owned(), helper: haft.with_file_name(HELPER) }
    }
}

/// Renames the `new` ones over the `old` ones. `aside` is an empty place on the same file system, which keeps the old
/// helper until all is done.
pub(super) fn replace(new: &Pair, old: &Pair, aside: &Path) -> Result<(), ReleaseError> {
    let kept = keep(&old.helper, &aside.join(HELPER))?;
    // haft does without a helper that is not its own, but not the other way round.
    fs::rename(&new.helper, &old.helper).map_err(ReleaseError::io("replace", &old.helper))?;
    if let Err(error) = fs::rename(&new.haft, &old.haft) {
        let back = match &kept {
            Some(kept) => fs::rename(kept, &old.helper),
            None => fs::remove_file(&old.helper),
        };
        return Err(match back {
            Ok(()) => ReleaseError::io("replace", &old.haft)(error),
            Err(again) => ReleaseError::Half { helper: old.helper.clone(), why: format!("{error}; {again}") },
        });
    }
    if let Some(folder) = old.haft.parent() {
        // Both are in their place; after a power cut it may be the old ones again.
        let _ = folder::sync(folder);
    }
    Ok(())
}

/// A second name for the file `helper`, where there is one, so that it can be put back as it is.
fn keep(helper: &Path, kept: &Path) -> Result<Option<PathBuf>, ReleaseError> {
    // Not every file system has hard links. A copy has the mode too.
    match fs::hard_link(helper, kept).or_else(|_| fs::copy(helper, kept).map(|_| ())) {
        Ok(()) => Ok(Some(kept.to_owned())),
        Err(_) if fs::symlink_metadata(helper).is_err() => Ok(None),
        Err(error) => Err(ReleaseError::io("keep", helper)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(folder: &Path, content: &str) -> Pair {
        fs::create_dir_all(folder).unwrap();
        let pair = Pair::within(folder);
        fs::write(&pair.haft, content).unwrap();
        fs::write(&pair.helper, content).unwrap();
        pair
    }

    fn place() -> (tempfile::TempDir, Pair, Pair, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let (new, old) = (pair(&place.path().join("new"), "new"), pair(&place.path().join("old"), "old"));
        let aside = place.path().join("aside");
        fs::create_dir(&aside).unwrap();
        (place, new, old, aside)
    }

    fn says(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn both_are_replaced() {
        let (_place, new, old, aside) = place();
        replace(&new, &old, &aside).unwrap();
        assert_eq!((says(&old.haft), says(&old.helper)), ("new".into(), "new".into()));
    }

    /// What cannot be renamed over stands for whatever makes the second step fail.
    #[test]
    fn where_the_second_fails_the_first_is_put_back() {
        let (_place, new, old, aside) = place();
        fs::remove_file(&old.haft).unwrap();
        fs::create_dir(&old.haft).unwrap();
        let error = replace(&new, &old, &aside).unwrap_err();
        assert!(matches!(error, ReleaseError::Io { action: "replace", .. }), "{error}");
        assert_eq!(says(&old.helper), "old");
        // Where there was no helper there is none again.
        let (_place, new, old, aside) = place();
        fs::remove_file(&old.helper).unwrap();
        fs::remove_file(&old.haft).unwrap();
        fs::create_dir(&old.haft).unwrap();
        replace(&new, &old, &aside).unwrap_err();
        assert!(!old.helper.exists());
    }

    #[test]
    fn a_haft_without_a_helper_gets_one() {
        let (_place, new, old, aside) = place();
        fs::remove_file(&old.helper).unwrap();
        replace(&new, &old, &aside).unwrap();
        assert_eq!((says(&old.haft), says(&old.helper)), ("new".into(), "new".into()));
    }
}
