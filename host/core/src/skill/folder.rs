//! A skill in a folder of a project or a person. Reads only files below that folder.

use std::io;
use std::path::{Path, PathBuf};

use super::{FILE, MAX_FILE, SkillFiles, too_large};
use crate::grant::{Folder, Kind, Root};

/// The maximum number of entries read in a folder of a skill.
const MAX_ENTRIES: usize = 1000;

/// The maximum depth of listed folders.
const MAX_DEPTH: usize = 4;

/// The folder of a skill.
#[derive(Clone, Debug)]
pub struct SkillFolder {
    /// The root that symbolic links must not leave.
    root: Root,
    /// The path of the folder, relative to the root.
    inside: PathBuf,
    path: PathBuf,
}

impl SkillFolder {
    /// Makes the skill folder `inside` below `root`.
    pub fn new(root: Root, inside: &Path) -> Self {
        // Joining an empty path would add a trailing slash.
        let path = root.real().join(inside).components().collect();
        Self { root, inside: inside.to_owned(), path }
    }

    fn open(&self) -> io::Result<Folder> {
        let root = self.root.folder()?;
        let folder = root.enter(&self.inside)?;
        // A symbolic link to an enclosing folder would make everything in it a part of the skill.
        for around in self.inside.ancestors().skip(1) {
            if folder.is_same(&root.enter(around)?)? {
                return Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    "it leads to a folder that it lies in",
                ));
            }
        }
        Ok(folder)
    }

    /// Reads the text of the SKILL.md.
    pub(super) fn text(&self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.read(FILE)?).into_owned())
    }
}

impl SkillFiles for SkillFolder {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let content = self.open()?.read(Path::new(path), MAX_FILE)?;
        if content.size > MAX_FILE { Err(too_large(content.size)) } else { Ok(content.bytes) }
    }

    fn list(&self, most: usize) -> io::Result<Vec<String>> {
        let mut all = Vec::new();
        list(&self.open()?, "", MAX_DEPTH, most, &mut all)?;
        Ok(all)
    }

    fn folder(&self) -> &Path {
        &self.path
    }
}

/// Adds the files of a folder to `all`, without hidden files, symbolic links and names that are not UTF-8.
fn list(folder: &Folder, before: &str, depth: usize, most: usize, all: &mut Vec<String>) -> io::Result<()> {
    for entry in folder.list(MAX_ENTRIES)? {
        let Some(name) = entry.name.to_str().filter(|name| !name.starts_with('.')) else { continue };
        let path = format!("{before}{name}");
        match entry.kind {
            Kind::File if all.len() < most => all.push(path),
            Kind::Folder if depth > 0 && all.len() < most => {
                list(&folder.enter(Path::new(name))?, &format!("{path}/"), depth - 1, most, all)?;
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_are_listed_and_read_below_the_folder_alone() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().canonicalize().unwrap();
        fs::create_dir_all(place.join("pdf/references")).unwrap();
        for (file, text) in [("SKILL.md", "Do."), ("references/how.md", "So."), (".hidden", "x")] {
            fs::write(place.join("pdf").join(file), text).unwrap();
        }
        fs::write(place.join("large"), vec![b'x'; 300 << 10]).unwrap();
        fs::copy(place.join("large"), place.join("pdf/large")).unwrap();
        std::os::unix::fs::symlink("../large", place.join("pdf/link")).unwrap();
        let folder = SkillFolder::new(Root::resolve(&place, Path::new(".")).unwrap(), Path::new("pdf"));
        assert_eq!(folder.list(9).unwrap(), ["SKILL.md", "large", "references/how.md"]);
        assert_eq!(folder.list(1).unwrap(), ["SKILL.md"]);
        assert_eq!(folder.text().unwrap(), "Do.");
        assert_eq!(folder.read("references/how.md").unwrap(), b"So.");
        assert_eq!(folder.folder(), place.join("pdf"));
        let failed = |path: &str| folder.read(path).unwrap_err().to_string();
        assert_eq!(failed("large"), "it has 307200 bytes, and at most 262144 are read");
        for path in ["link", "../large", "/etc/passwd"] {
            assert_eq!(failed(path), "it leads out of the folder", "{path}");
        }
    }

    #[test]
    fn a_link_makes_no_skill_of_what_lies_around_it() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().canonicalize().unwrap();
        fs::create_dir_all(place.join("sub/skills")).unwrap();
        fs::create_dir_all(place.join("other")).unwrap();
        fs::write(place.join("SKILL.md"), "All.").unwrap();
        fs::write(place.join("sub/SKILL.md"), "All.").unwrap();
        fs::write(place.join("other/SKILL.md"), "Other.").unwrap();
        let linked = |to: &str| {
            let link = place.join("sub/skills/x");
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(to, &link).unwrap();
            let root = Root::resolve(&place, Path::new(".")).unwrap();
            SkillFolder::new(root, Path::new("sub/skills/x")).text().map_err(|error| error.to_string())
        };
        assert_eq!(linked("../../other"), Ok("Other.".to_owned()));
        for around in ["../..", "..", "."] {
            assert_eq!(linked(around), Err("it leads to a folder that it lies in".to_owned()), "{around}");
        }
    }
}
