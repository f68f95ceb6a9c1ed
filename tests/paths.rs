//! C01: the meaning of a path to a plugin, in every contract that haft supports: the meaning for the user and for
//! `bash`, for every granted part of the workspace.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use haft::grant::{Grant, Root};
use haft::limit::Limits;
use serde_json::{Value, json};

use crate::cli::Home;
use crate::common::repository;
use crate::guest::Guest;

/// A workspace `ws`, a link `link` to it, and a directory `beside`.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for folder in ["ws/notes/deep", "ws/other", "ws/out", "beside"] {
            fs::create_dir_all(place.path(folder)).unwrap();
        }
        for name in ["ws/notes/a.md", "ws/notes/deep/b.md", "ws/other/c.md", "ws/top.md", "beside/d.md"] {
            fs::write(place.path(name), name).unwrap();
        }
        symlink("ws", place.path("link")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn root(&self, name: &str) -> Root {
        Root::resolve(Path::new("/"), &self.path(name)).unwrap()
    }

    fn grant(&self, workspace: &str, read: &[&str], write: &[&str]) -> Grant {
        let grant = Grant::none().with_workspace(self.root(workspace));
        let grant = read.iter().fold(grant, |grant, name| grant.with_read(self.root(name)));
        write.iter().fold(grant, |grant, name| grant.with_write(self.root(name)))
    }
}

/// A component and its tool that reads a file. Two of the components ask haft for their directory; two cannot ask.
struct World {
    component: &'static str,
    tool: &'static str,
}

const WORLDS: &[World] = &[
    World { component: "tests/guests/built/hostile.wasm", tool: "open" },
    World { component: "plugins/built/wordcount.wasm", tool: "count" },
    World { component: "tests/guests/built/types.wasm", tool: "read" },
    World { component: "tests/guests/built/act.wasm", tool: "read" },
];

impl World {
    async fn guest(&self, grant: Grant) -> Guest {
        Guest::of(&repository().join(self.component), grant, Limits::default()).await
    }

    /// Asserts that the tool reads the content of `name` through `path`.
    async fn reads(&self, guest: &Guest, path: impl Into<Value>, name: &str) -> Result<(), String> {
        let path = path.into();
        let answer = guest.call(self.tool, json!({ "path": path })).await;
        let is_it =
            answer.content.contains(name) || answer.content.contains(&format!("{} bytes", name.len()));
        let shown = format!("{} {path}: {}", self.component, answer.content);
        if !answer.is_error && is_it { Ok(()) } else { Err(shown) }
    }
}

/// C01: a plugin with a grant for a part of the workspace reaches that part by relative and absolute paths, as in
/// README's example.
#[tokio::test]
async fn a_part_of_the_workspace_is_reached_by_relative_paths() {
    let place = Place::new();
    for (workspace, granted) in [("ws", "ws"), ("ws", "link"), ("link", "ws"), ("link", "link")] {
        for world in WORLDS {
            let guest = world.guest(place.grant(workspace, &[&format!("{granted}/notes")], &[])).await;
            for path in ["notes/a.md", "./notes/a.md", "notes/./a.md", "notes//a.md", "notes/../notes/a.md"] {
                world.reads(&guest, path, "ws/notes/a.md").await.unwrap();
            }
            world.reads(&guest, "notes/deep/b.md", "ws/notes/deep/b.md").await.unwrap();
            for name in [workspace, granted, "ws"] {
                let path = place.path(name).join("notes/a.md");
                world.reads(&guest, path.to_str(), "ws/notes/a.md").await.unwrap();
            }
            for path in ["top.md", "other/c.md", "notes/../other/c.md", "../beside/d.md", "."] {
                let refused = guest.fails(world.tool, json!({ "path": path })).await;
                assert!(refused.contains("hint: to allow it, add `read = ["), "{path}: {refused}");
            }
        }
    }
}

/// C01: a plugin reaches nested grants and grants above, beside and in the workspace by their paths.
#[tokio::test]
async fn grants_of_all_kinds_are_reached() {
    let place = Place::new();
    for world in WORLDS {
        let mixed = place.grant("ws", &["ws/notes", "beside", "ws/other"], &["ws/notes/deep", "ws/out"]);
        let guest = world.guest(mixed).await;
        for (path, name) in [
            ("notes/a.md", "ws/notes/a.md"),
            ("notes/deep/b.md", "ws/notes/deep/b.md"),
            ("notes/../other/c.md", "ws/other/c.md"),
            ("out/../notes/deep/../a.md", "ws/notes/a.md"),
            ("../beside/d.md", "beside/d.md"),
        ] {
            world.reads(&guest, path, name).await.unwrap();
        }
        world.reads(&guest, place.path("beside/d.md").to_str(), "beside/d.md").await.unwrap();
        guest.fails(world.tool, json!({ "path": "top.md" })).await;
        let above = world.guest(place.grant("ws", &["."], &[])).await;
        for (path, name) in [("top.md", "ws/top.md"), ("../beside/d.md", "beside/d.md")] {
            world.reads(&above, path, name).await.unwrap();
        }
        let outside = world.guest(place.grant("ws", &["beside"], &[])).await;
        world.reads(&outside, place.path("beside/d.md").to_str(), "beside/d.md").await.unwrap();
        outside.fails(world.tool, json!({ "path": "d.md" })).await;
        outside.fails(world.tool, json!({ "path": "notes/a.md" })).await;
    }
}

/// C01: every guest can ask for the workspace's path, but only a grant gives access to its files.
#[tokio::test]
async fn the_name_of_the_workspace_is_no_right() {
    let place = Place::new();
    let guest = WORLDS[0].guest(place.grant("ws", &[], &[])).await;
    let shown = place.path("ws").display().to_string();
    let said = guest.says("paths", json!({ "path": "x" })).await;
    assert_eq!(said, format!("current Ok(\"{shown}\")\nworkspace Some(\"{shown}\")\npath {shown}/x"));
    for (tool, path) in [
        ("list_dir", "."),
        ("list_dir", shown.as_str()),
        ("list_dir", "/"),
        ("open", "top.md"),
        ("stat", "top.md"),
        ("stat", ".."),
        ("read_link", "top.md"),
        ("create", "new"),
    ] {
        guest.fails(tool, json!({ "path": path })).await;
    }
    let nothing = guest.says("stat", json!({ "path": "." })).await;
    assert!(nothing.contains("is_dir: true") && nothing.ends_with(", 0 bytes"), "{nothing}");
    assert_eq!(fs::read_dir(place.path("ws")).unwrap().count(), 4);
}

/// C01: relative paths apply to writing as to reading.
#[tokio::test]
async fn what_may_be_written_is_by_relative_paths() {
    let place = Place::new();
    let guest = WORLDS[0].guest(place.grant("ws", &["ws/notes"], &["ws/out"])).await;
    guest.says("write", json!({ "path": "out/new", "text": "x" })).await;
    guest.says("create", json!({ "path": "out/made", "directory": true })).await;
    guest.says("rename", json!({ "from": "out/new", "to": "out/made/new" })).await;
    assert_eq!(fs::read_to_string(place.path("ws/out/made/new")).unwrap(), "x");
    let refused = guest.fails("write", json!({ "path": "notes/new", "text": "x" })).await;
    let notes = place.path("ws/notes");
    assert!(refused.contains(&format!("add `write = [\"{}\"]`", notes.display())), "{refused}");
    let refused = guest.fails("write", json!({ "path": "other/new", "text": "x" })).await;
    let other = place.path("ws/other");
    assert!(refused.contains(&format!("add `write = [\"{}\"]`", other.display())), "{refused}");
}

/// C15: a path of a file with a slash at its end is refused in every contract.
#[tokio::test]
async fn a_file_with_a_slash_is_no_file_in_any_world() {
    let place = Place::new();
    for granted in ["ws", "ws/notes"] {
        for world in WORLDS {
            let guest = world.guest(place.grant("ws", &[granted], &[])).await;
            let absolute = place.path("ws/notes/a.md").display().to_string();
            for path in ["notes/a.md", &absolute] {
                for end in ["/", "/."] {
                    let path = format!("{path}{end}");
                    let refused = guest.fails(world.tool, json!({ "path": path })).await;
                    assert!(refused.contains("Not a directory"), "{} {path}: {refused}", world.component);
                }
            }
        }
    }
}

/// C01: the program of README works as written, with the plugin that comes with haft.
#[test]
fn the_example_of_the_readme_works_as_written() {
    let home = Home::new();
    fs::create_dir_all(home.work().join("notes")).unwrap();
    home.write("notes/a.md", "one two\n");
    fs::copy(repository().join("plugins/built/wordcount.wasm"), home.work().join("wordcount.wasm")).unwrap();
    home.write(
        "program.toml",
        "[program]\nname = \"notes\"\nversion = \"0.1.0\"\n[sandbox]\nworkspace = \".\"\n\
         [[plugins]]\nname = \"wordcount\"\ncomponent = \"wordcount.wasm\"\n\
         [plugins.grant]\nread = [\"./notes\"]\n",
    );
    for path in ["notes/a.md", "./notes/a.md"] {
        let answer = home.haft(&["call", "wordcount__count", "--arg", &format!("path={path}")]);
        assert!(answer.stdout.starts_with("1 lines, 2 words"), "{} {}", answer.stdout, answer.stderr);
    }
    let refused = home.haft(&["call", "wordcount__count", "--arg", "path=top.md"]);
    let line = format!("add `read = [\"{}\"]`", home.work().display());
    assert!(refused.code == 1 && refused.stderr.contains(&line), "{}", refused.stderr);
}
