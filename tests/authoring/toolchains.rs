//! Errors of `haft plugin build`: missing tools of a language, and projects of an unexpected form.

use std::fs;

use crate::cli::{Answer, Home};

/// A new project of a language.
fn project(language: &str) -> Home {
    let home = Home::new();
    let answer = home.haft(&["plugin", "new", "--lang", language, "words"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    home
}

/// `haft plugin build` with an empty PATH.
fn build(home: &Home) -> Answer {
    let mut command = home.command(&["plugin", "build", "words"]);
    Answer::from(command.env("PATH", "/nowhere").env_remove("VIRTUAL_ENV").output().unwrap())
}

#[test]
fn a_missing_toolchain_is_named_with_the_ways_to_get_it() {
    for (language, program, way) in [
        ("go", "go", "hint: for every project: https://go.dev/dl"),
        ("python", "componentize-py", "hint: in this project alone: a line `componentize-py==0.25.1`"),
        ("js", "node", "hint: 18 or later: https://nodejs.org"),
    ] {
        let home = project(language);
        // The project does not declare the tool as its own requirement either.
        drop(fs::remove_file(home.work().join("words/requirements.txt")));
        let answer = build(&home);
        assert_ne!(answer.code, 0, "{language}");
        assert!(answer.stderr.starts_with(&format!("error: cannot find `{program}`")), "{}", answer.stderr);
        assert!(answer.stderr.contains(way), "{}", answer.stderr);
    }
}

#[test]
fn what_a_project_names_is_installed_with_python_which_may_be_missing_too() {
    for language in ["go", "python"] {
        let answer = build(&project(language));
        assert!(answer.stderr.starts_with("error: cannot find `python3`"), "{}", answer.stderr);
        assert!(answer.stderr.contains("requirements.txt"), "{}", answer.stderr);
    }
}

#[test]
fn a_project_without_its_main_file_says_which() {
    for (language, file, expected) in
        [("python", "app.py", "error: no `app.py` in "), ("go", "go.mod", "error: cannot read `")]
    {
        let home = project(language);
        fs::remove_file(home.work().join("words").join(file)).unwrap();
        let tool = home.work().join("words/.venv/bin/go");
        fs::create_dir_all(tool.parent().unwrap()).unwrap();
        fs::copy("/bin/true", &tool).unwrap();
        let answer = build(&home);
        assert!(answer.stderr.starts_with(expected), "{}", answer.stderr);
    }
}

#[test]
fn a_python_world_must_not_be_called_like_the_module() {
    let home = project("python");
    let path = home.work().join("words/wit/world.wit");
    let wit = fs::read_to_string(&path).unwrap().replace("world tools", "world app");
    fs::write(&path, wit).unwrap();
    let answer = build(&home);
    assert!(
        answer.stderr.starts_with("error: the world and the module `app.py` have the same name"),
        "{}",
        answer.stderr
    );
    assert!(answer.stderr.contains("hint: give the world another name"), "{}", answer.stderr);
}
