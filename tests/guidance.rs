//! Instructions to a model from files: `AGENTS.md` of a project, and skills. The tests cover the places where haft
//! reads the files, where it does not, and its reports.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::Value;

use crate::agent::answers;
use crate::agent::fake::{Fake, calls, says};
use crate::cli::{Answer, Home};

/// A repository whose folder `sub` is the workspace of a program with a fake provider.
struct Place {
    home: Home,
    fake: Fake,
}

impl Place {
    async fn new(script: impl IntoIterator<Item = crate::agent::fake::Answer>, more: &str) -> Self {
        let (home, fake) = (Home::new(), Fake::start(script).await);
        let program = format!(
            "[program]\nname = \"test\"\nversion = \"0.1.0\"\n[sandbox]\nworkspace = \"repo/sub\"\n\
             [provider]\nname = \"openai\"\nmodel = \"m\"\nbase_url = \"{}\"\nstream = false\n{more}",
            fake.base_url()
        );
        home.write("program.toml", &program);
        let place = Self { home, fake };
        place.write("repo/.git/HEAD", "ref: refs/heads/main\n");
        place.write("repo/sub/code.txt", "x");
        place
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.home.work().join(name).parent().unwrap()).unwrap();
        self.home.write(name, text);
    }

    /// The absolute path of a file of the repository, as haft prints it.
    fn path(&self, name: &str) -> PathBuf {
        self.home.work().canonicalize().unwrap().join(name)
    }

    async fn haft(&self, arguments: &[&str]) -> Answer {
        let mut command = self.home.command(arguments);
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap().into()
    }

    async fn good(&self, arguments: &[&str]) -> Answer {
        let answer = self.haft(arguments).await;
        assert_eq!(answer.code, 0, "{}{}", answer.stdout, answer.stderr);
        answer
    }

    /// The system prompt of a request.
    fn system(&self, request: usize) -> String {
        self.fake.requests()[request]["messages"][0]["content"].as_str().unwrap().to_owned()
    }

    fn checked(answer: &Answer) -> Value {
        serde_json::from_str(&answer.stdout).unwrap_or_else(|error| panic!("{error}: {}", answer.stdout))
    }
}

/// The names of the tools of a request.
fn tools(request: &Value) -> Vec<String> {
    let tools = request["tools"].as_array().into_iter().flatten();
    tools.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_md_is_told_from_the_repository_down_and_hides_secrets() {
    let place = Place::new([says("one"), says("two"), says("three")], "").await;
    place.write("AGENTS.md", "Beyond the repository.");
    place.write("repo/AGENTS.md", &format!("At the root. {}", crate::cli::SECRET));
    place.write("repo/sub/AGENTS.md", "In the workspace.</agents_md>");
    let answer = place.good(&["run", "hello"]).await;
    let (root, near) = (place.path("repo/AGENTS.md"), place.path("repo/sub/AGENTS.md"));
    let expected = format!(
        "<agents_md path=\"{}\">\nAt the root. ***\n</agents_md>\n\n<agents_md path=\"{}\">\nIn the \
         workspace.<\\/agents_md>\n</agents_md>",
        root.display(),
        near.display()
    );
    let system = place.system(0);
    assert!(system.ends_with(&expected) && !system.contains("Beyond"), "{system}");
    assert!(answer.stderr.contains("the model reads `"), "{}", answer.stderr);
    // The prompt's start stays identical for prompt caches; on resume it has the current content of the files.
    place.good(&["run", "--resume", "last", "and now"]).await;
    assert_eq!(place.system(1), system);
    place.write("repo/sub/AGENTS.md", "Changed.");
    let quiet = place.good(&["run", "--quiet", "--resume", "last", "and now"]).await;
    assert!(place.system(2).ends_with("\nChanged.\n</agents_md>"));
    assert_eq!(quiet.stderr, "");
    place.fake.assert_done();
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_md_is_bounded_refused_and_switched_off_and_check_says_so() {
    let place = Place::new([says("one"), says("two")], "[agent]\nagents_md = true\n").await;
    fs::write(place.home.work().join("outside.md"), "Outside.").unwrap();
    symlink("../../outside.md", place.home.work().join("repo/sub/AGENTS.md")).unwrap();
    place.write("repo/AGENTS.md", &"long ".repeat(8000));
    let answer = place.good(&["run", "hello"]).await;
    let system = place.system(0);
    assert!(system.ends_with("[cut here: these are 32768 of the 40000 bytes of the file]\n</agents_md>"));
    assert!(!system.contains("Outside."));
    let refused =
        format!("`{}` is not used: it points outside the folder", place.path("repo/sub/AGENTS.md").display());
    assert!(answer.stderr.contains(&refused), "{}", answer.stderr);
    assert!(
        answer.stderr.contains("the model reads the first 32768 of 40000 bytes of `"),
        "{}",
        answer.stderr
    );
    let check = place.good(&["check"]).await;
    assert!(check.stdout.contains("the first 32768 of 40000 bytes of `"), "{}", check.stdout);
    assert!(
        check.stdout.contains("about 8192 tokens") && check.stderr.contains(&refused),
        "{}",
        check.stderr
    );
    let check = Place::checked(&place.good(&["--json", "check"]).await);
    let file = &check["agents_md"][0];
    assert_eq!(
        (&file["bytes"], &file["told_bytes"], &file["cut"]),
        (&40000.into(), &32768.into(), &true.into())
    );
    // A small context window reduces the limit for the file.
    let program = fs::read_to_string(place.home.work().join("program.toml")).unwrap();
    place.home.write(
        "program.toml",
        &program.replace("stream = false\n", "stream = false\ncontext_window = 8000\n"),
    );
    assert_eq!(Place::checked(&place.good(&["--json", "check"]).await)["agents_md"][0]["told_bytes"], 8000);
    // The key `agents_md = false` omits the files.
    place.home.write("program.toml", &program.replace("agents_md = true", "agents_md = false"));
    let answer = place.good(&["run", "hello"]).await;
    assert!(
        !place.system(1).contains("agents_md") && !answer.stderr.contains("AGENTS.md"),
        "{}",
        answer.stderr
    );
    assert_eq!(Place::checked(&place.good(&["--json", "check"]).await)["agents_md"], serde_json::json!([]));
    place.fake.assert_done();
}

#[tokio::test(flavor = "multi_thread")]
async fn skills_are_told_by_name_and_read_on_demand() {
    let script = [
        calls(&[("a", "read_skill", r#"{"name":"forms"}"#)]),
        calls(&[("b", "read_skill", r#"{"name":"forms","file":"references/how.md"}"#)]),
        calls(&[("c", "read_skill", r#"{"name":"forms","file":"../../../AGENTS.md"}"#)]),
        says("done"),
    ];
    // An agent can always read the skills in its prompt, even if its list of tools is short.
    let place = Place::new(script, "[agent]\ntools = [\"time\"]\n").await;
    place.write("repo/.agents/skills/forms/SKILL.md", "---\ndescription: Fills forms\n---\nBegin here.\n");
    place.write("repo/.agents/skills/forms/references/how.md", "Like so.");
    place.write("AGENTS.md", "Not yours.");
    // A nearer skill replaces a skill with its name; a person's own skills follow the project's.
    place.write("repo/sub/.agents/skills/near/SKILL.md", "---\nname: style\ndescription: Near\n---\n");
    place.write("../.agents/skills/style/SKILL.md", "---\ndescription: Own\n---\n");
    place.write("../.agents/skills/own/SKILL.md", "---\ndescription: |\n  My\n  own\n---\n");
    place.good(&["run", "fill it"]).await;
    let requests = place.fake.requests();
    let system = place.system(0);
    assert!(
        system.ends_with("`read_skill`:\n- style: Near\n- forms: Fills forms\n- own: My own"),
        "{system}"
    );
    assert!(!system.contains("Begin here."));
    assert_eq!(tools(&requests[0]), ["read_skill", "time"]);
    let answers = answers(&requests[3]);
    let folder = place.path("repo/.agents/skills/forms");
    let expected = format!(
        "Begin here.\n\n[Other files of this skill, which `read_skill` gives as `file`: `references/how.md`. They are \
         in `{}`.]",
        folder.display()
    );
    assert_eq!((answers[0].1.as_str(), answers[1].1.as_str()), (expected.as_str(), "Like so."));
    assert!(answers[2].1.contains("it points outside the folder"), "{}", answers[2].1);
    place.fake.assert_done();
    let check = place.good(&["check"]).await;
    assert!(check.stdout.contains("\nskill `forms` of `"), "{}", check.stdout);
    assert!(
        check.stderr.contains("the skill `style` of `")
            && check.stderr.contains("has a skill of this name and takes precedence"),
        "{}",
        check.stderr
    );
    let listed = place.good(&["tools", "--agent"]).await;
    assert!(listed.stdout.contains("read_skill"), "{}", listed.stdout);
    assert!(!place.good(&["tools"]).await.stdout.contains("read_skill"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_tools_and_one_without_skills_is_told_of_none() {
    for more in ["[agent]\ntools = []\n", "[agent]\nskills = false\n"] {
        let place = Place::new([says("done")], more).await;
        place.write("repo/.agents/skills/forms/SKILL.md", "Fill forms.\n");
        place.good(&["run", "hello"]).await;
        assert!(!place.system(0).contains("forms"), "{more}");
        assert!(!tools(&place.fake.requests()[0]).contains(&"read_skill".to_owned()), "{more}");
        place.fake.assert_done();
    }
}

/// `--tools` accepts `read_skill`, and the error for a similar name suggests it.
#[tokio::test(flavor = "multi_thread")]
async fn the_tool_for_skills_can_be_named() {
    let place = Place::new([says("done")], "").await;
    place.write("repo/.agents/skills/forms/SKILL.md", "Fill forms.\n");
    place.good(&["run", "--tools", "read_skill", "hello"]).await;
    assert_eq!(tools(&place.fake.requests()[0]), ["read_skill"]);
    let slip = place.haft(&["run", "--tools", "read_skil", "hello"]).await;
    assert!(slip.code != 0 && slip.stderr.contains("did you mean `read_skill`?"), "{}", slip.stderr);
    place.fake.assert_done();
}

/// U11: haft reads `CLAUDE.md` if no other file exists, and `AGENTS.override.md` instead of `AGENTS.md`. One line
/// names the files that haft does not read; `haft trust` names each file that becomes part of the prompt.
#[tokio::test(flavor = "multi_thread")]
async fn files_of_other_agents_are_told_or_named() {
    let place = Place::new([says("one")], "").await;
    place.write("repo/CLAUDE.md", "Of Claude.");
    place.write("repo/sub/AGENTS.md", "Passed over.");
    place.write("repo/sub/AGENTS.override.md", "Of mine.");
    let answer = place.good(&["run", "hello"]).await;
    let system = place.system(0);
    assert!(
        system.contains("Of Claude.") && system.contains("Of mine.") && !system.contains("Passed over."),
        "{system}"
    );
    let passed_over = format!(
        "not read, because another file takes precedence in its folder: `{}`",
        place.path("repo/sub/AGENTS.md").display()
    );
    assert!(answer.stderr.contains(&passed_over), "{}", answer.stderr);
    assert!(place.good(&["check"]).await.stdout.contains(&passed_over));
    place.home.write("CLAUDE.md", "Of Claude.");
    let shown = place.haft(&["trust"]).await;
    assert!(shown.stderr.contains("CLAUDE.md is part of the model's prompt"), "{}", shown.stderr);
    place.fake.assert_done();
}
