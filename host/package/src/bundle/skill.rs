//! The skill of an installed package, as it is offered to models. Returns only files that the user agreed to:
//! each read checks the file against its digest.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Bundle;
use crate::listing::Listing;
use haft_core::skill::{MAX_FILE, Shelved, SkillFiles, too_large};

/// The files of a package.
#[derive(Debug)]
struct PackagedSkill {
    folder: PathBuf,
    listing: Listing,
}

impl Bundle {
    /// Returns the package's skill, if it has one, with the files that a model may read.
    pub fn shelved_skill(&self) -> Option<Shelved> {
        let files = Arc::new(PackagedSkill { folder: self.folder.clone(), listing: self.listing.clone() });
        let origin = format!("package `{}`", self.program.name.as_str());
        self.skill.clone().map(|skill| Shelved { skill, origin, files })
    }
}

impl SkillFiles for PackagedSkill {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        if self.listing.file(path).is_none() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the package has no such file"));
        }
        let size = fs::symlink_metadata(self.folder.join(path))?.len();
        if size > MAX_FILE {
            return Err(too_large(size));
        }
        self.listing.bytes(&self.folder, path, MAX_FILE).map_err(io::Error::other)
    }

    fn list(&self, most: usize) -> io::Result<Vec<String>> {
        Ok(self.listing.paths().take(most).map(str::to_owned).collect())
    }

    fn folder(&self) -> &Path {
        &self.folder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_agreed_to_is_given() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("tree");
        fs::create_dir_all(folder.join("references")).unwrap();
        for (path, text) in
            [("SKILL.md", "Do."), ("references/how.md", "So."), ("large", &"x".repeat(300 << 10))]
        {
            fs::write(folder.join(path), text).unwrap();
        }
        fs::write(place.path().join("secret"), "x").unwrap();
        let (listing, _) = Listing::from_folder(&folder).unwrap();
        let skill = PackagedSkill { folder: folder.clone(), listing };
        fs::write(folder.join("added"), "x").unwrap();
        assert_eq!(skill.list(9).unwrap(), ["SKILL.md", "large", "references/how.md"]);
        assert_eq!(skill.read("references/how.md").unwrap(), b"So.");
        fs::write(folder.join("references/how.md"), "No.").unwrap();
        for (path, why) in [
            ("references/how.md", "`references/how.md` was changed"),
            ("large", "it has 307200 bytes, and at most 262144 are read"),
            ("added", "the package has no such file"),
            ("../secret", "the package has no such file"),
        ] {
            assert_eq!(skill.read(path).unwrap_err().to_string(), why, "{path}");
        }
    }
}
