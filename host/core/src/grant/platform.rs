//! What each system has to open a directory with whose path must be free of links.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(super) use linux::open_without_links;

#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
pub(super) use macos::open_without_links;

#[cfg(test)]
mod tests {
    use std::io;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_directory_is_opened_and_never_behind_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(place.join("a/b")).unwrap();
        symlink("a", place.join("link")).unwrap();
        let opened = |path: &str| open_without_links(&place.join(path));
        assert!(opened("a/b").unwrap().metadata().unwrap().is_dir());
        assert!(opened("link/b").is_err() && opened("link").is_err());
        assert_eq!(opened("a/c").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
