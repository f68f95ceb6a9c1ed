use super::*;

/// A folder with these empty files, and `bin/haft`.
fn place(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    for (name, content) in [("bin/haft", "")].iter().chain(files) {
        let path = place.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let program = place.path().join("bin/haft");
    (place, program)
}

fn who(files: &[(&str, &str)]) -> Option<(String, String)> {
    let (_place, program) = place(files);
    Owner::of(&program).map(|owner| (owner.who, owner.command))
}

fn owned(who: &str, command: &str) -> (String, String) {
    (who.to_owned(), command.to_owned())
}

#[test]
fn a_tarball_belongs_to_nobody() {
    assert_eq!(who(&[]), None);
    assert_eq!(
        who(&[("bin/haft-confine", ""), ("lib/python3.13/site-packages/other-1.dist-info/RECORD", "")]),
        None
    );
    assert_eq!(who(&[(".crates.toml", "[v1]\n\"ripgrep 1.0.0 (registry)\" = [\"rg\"]\n")]), None);
    // Another package of that name in Python's index.
    assert_eq!(who(&[("lib/python3.13/site-packages/haft-1.0.dist-info/RECORD", "")]), None);
}

#[test]
fn a_marker_says_who_and_how() {
    let marker = |text| who(&[("bin/haft.installed-by", text)]);
    assert_eq!(marker("npm\nnpm install --global haft\n"), Some(owned("npm", "npm install --global haft")));
    assert_eq!(marker(""), Some(owned("another installer", "install it again as it was installed")));
    let (who, _) = marker("\u{1b}[2Jevil\n").unwrap();
    assert!(!who.contains('\u{1b}'), "{who:?}");
}

#[test]
fn the_records_of_python_and_cargo_are_read() {
    const RECORD: (&str, &str) = ("lib/python3.13/site-packages/haft_tools-0.1.0.dist-info/RECORD", "");
    let pip = Some(owned("pip", "`pip install --upgrade haft-tools`"));
    assert_eq!(who(&[RECORD]), pip);
    assert_eq!(who(&[("lib/python3/dist-packages/haft_tools-0.1.0.dist-info/RECORD", "")]), pip);
    assert_eq!(who(&[("lib64/python3.13/site-packages/haft_tools-0.1.0.dist-info/RECORD", "")]), pip);
    assert_eq!(who(&[("haft_tools-0.1.0.dist-info/RECORD", "")]), pip, "pip install --target");
    assert_eq!(who(&[RECORD, ("uv-receipt.toml", "")]), Some(owned("uv", "`uv tool upgrade haft-tools`")));
    assert_eq!(who(&[RECORD, ("pipx_metadata.json", "")]), Some(owned("pipx", "`pipx upgrade haft-tools`")));
    let cargo = who(&[(".crates.toml", "[v1]\n\"haft 0.1.0 (git+https://a.test)\" = [\"haft\"]\n")]);
    assert_eq!(cargo.unwrap().0, "cargo");
}
