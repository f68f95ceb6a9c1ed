//! Finds skills: those of a project, from the workspace up to its repository's root, and those of a user.
//! Symbolic links of a project must not leave its repository; those of a user may lead anywhere.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{Shelf, Shelved, Skill, SkillFolder};
use crate::grant::{Folder, Kind, Root};
use crate::project::Project;

/// The folder of skills, below a project's folders and below a home directory.
const FOLDER: &str = ".agents/skills";

/// The maximum number of entries of such a folder.
const MAX_ENTRIES: usize = 1000;

/// Adds the skills of `project` to the shelf, nearest first.
pub fn of_project(project: &Project, shelf: &mut Shelf) {
    for folder in project.upwards() {
        below(project.root(), &folder.join(FOLDER), shelf);
    }
}

/// Adds the skills of the user with the home directory `home` to the shelf.
pub fn of_person(home: &Path, shelf: &mut Shelf) {
    let folder = home.join(FOLDER);
    let entries =
        Root::resolve(Path::new("/"), &folder).and_then(|root| entries(&root.folder()?, Path::new("")));
    for name in listed(entries, &folder, shelf) {
        if let Ok(root) = Root::resolve(&folder, Path::new(&name)) {
            put(SkillFolder::new(root, Path::new("")), &name, shelf);
        }
    }
}

/// Adds the skills below `folder`, that of a program, to the shelf. Symbolic links must not leave it.
pub fn of_folder(folder: &Root, shelf: &mut Shelf) {
    below(folder, Path::new(FOLDER), shelf);
}

/// Adds the skills in the folder `inside` of `root`.
fn below(root: &Root, inside: &Path, shelf: &mut Shelf) {
    let entries = root.folder().and_then(|folder| entries(&folder, inside));
    for name in listed(entries, &root.real().join(inside), shelf) {
        put(SkillFolder::new(root.clone(), &inside.join(&name)), &name, shelf);
    }
}

/// Returns the names of folders, and of symbolic links that may lead to folders.
fn entries(root: &Folder, inside: &Path) -> io::Result<Vec<String>> {
    let entries = root.enter(inside)?.list(MAX_ENTRIES)?.into_iter().filter(|entry| entry.kind != Kind::File);
    Ok(entries.filter_map(|entry| entry.name.into_string().ok()).collect())
}

/// Returns the names; reports an existing folder that cannot be listed.
fn listed(entries: io::Result<Vec<String>>, folder: &Path, shelf: &mut Shelf) -> Vec<String> {
    entries.unwrap_or_else(|error| {
        if !is_absent(&error) {
            shelf.problem(format!("the skills in `{}` are not used: {error}", folder.display()));
        }
        Vec::new()
    })
}

fn put(folder: SkillFolder, name: &str, shelf: &mut Shelf) {
    let path = folder.path.display().to_string();
    match folder.text() {
        Ok(text) => {
            let (skill, files) = (Skill::parse(&text, name), Arc::new(folder));
            shelf.put(Shelved {
                skill,
                origin: format!("`{path}`"),
                files,
                scripts: None,
                tools: Vec::new(),
            });
        }
        Err(error) if is_absent(&error) => {}
        Err(error) => shelf.problem(format!("the skill in `{path}` is not used: {error}")),
    }
}

/// Returns whether the error means that no folder exists.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::super::MAX_SKILLS;
    use super::*;

    fn write(folder: &Path, head: &str) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("SKILL.md"), format!("---\n{head}\n---\nText.\n")).unwrap();
    }

    fn place() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().canonicalize().unwrap();
        fs::create_dir_all(place.join("repo/.git")).unwrap();
        fs::create_dir_all(place.join("repo/sub")).unwrap();
        (directory, place)
    }

    fn shelf(place: &Path) -> Shelf {
        let mut shelf = Shelf::default();
        of_project(
            &Project::around(&Root::resolve(place, Path::new("repo/sub")).unwrap()).unwrap(),
            &mut shelf,
        );
        of_person(&place.join("home"), &mut shelf);
        shelf
    }

    #[test]
    fn the_nearest_of_a_name_is_kept_and_the_others_are_told() {
        let (_directory, place) = place();
        write(&place.join("repo/sub/.agents/skills/deploy"), "description: near");
        write(&place.join("repo/.agents/skills/ship"), "name: deploy\ndescription: far");
        write(&place.join("repo/.agents/skills/test"), "license: MIT");
        write(&place.join("home/.agents/skills/test"), "description: own");
        write(&place.join("elsewhere/own"), "description: linked");
        symlink(place.join("elsewhere/own"), place.join("home/.agents/skills/own")).unwrap();
        fs::write(place.join("home/.agents/skills/README.md"), "x").unwrap();
        fs::create_dir(place.join("home/.agents/skills/empty")).unwrap();
        let shelf = shelf(&place);
        let told: Vec<_> = shelf
            .skills()
            .iter()
            .map(|own| (own.skill.name.as_str(), own.skill.description.as_str()))
            .collect();
        assert_eq!(told, [("deploy", "near"), ("test", "Text."), ("own", "linked")]);
        let path = |path: &str| place.join(path).display().to_string();
        let expected = [
            format!(
                "the skill `deploy` of `{}` is left out: `{}` has a skill of this name and takes precedence",
                path("repo/.agents/skills/ship"),
                path("repo/sub/.agents/skills/deploy"),
            ),
            format!(
                "the skill `test` of `{}` is left out: `{}` has a skill of this name and takes precedence",
                path("home/.agents/skills/test"),
                path("repo/.agents/skills/test"),
            ),
        ];
        assert_eq!(shelf.problems(), expected);
    }

    #[test]
    fn a_project_reaches_no_skill_beyond_its_repository() {
        let (_directory, place) = place();
        write(&place.join("secret"), "name: secret");
        fs::create_dir_all(place.join("repo/.agents/skills")).unwrap();
        symlink("../../../secret", place.join("repo/.agents/skills/out")).unwrap();
        symlink(place.join("secret"), place.join("repo/sub/.agents")).unwrap();
        write(&place.join("repo/inner/skill"), "name: inner");
        symlink("../../inner/skill", place.join("repo/.agents/skills/in")).unwrap();
        let shelf = shelf(&place);
        let names: Vec<_> = shelf.skills().iter().map(|own| own.skill.name.as_str()).collect();
        assert_eq!(names, ["inner"]);
        assert_eq!(shelf.problems().len(), 2, "{:?}", shelf.problems());
        assert!(shelf.problems().iter().all(|problem| problem.ends_with("it points outside the folder")));
    }

    #[test]
    fn there_are_so_many_and_no_more() {
        let (_directory, place) = place();
        for number in 0..=MAX_SKILLS {
            write(&place.join(format!("repo/.agents/skills/s{number:03}")), "description: d");
        }
        let shelf = shelf(&place);
        assert_eq!(shelf.skills().len(), MAX_SKILLS);
        assert!(
            shelf.problems()[0].ends_with("is left out: the limit of 100 skills is reached"),
            "{:?}",
            shelf.problems()
        );
    }
}
