//! `haft chat`: a conversation at the terminal. Refuses piped input, which is a task for `haft run`. `/allow` and `/deny` change
//! the rules for calls of this session; program.toml gets only rules that the user has seen and agreed to.

mod command;
mod editor;

use std::collections::VecDeque;

use clap::Args;

use self::command::{Command, Next};
use self::editor::{Editor, Entered};
use super::common::Common;
use super::conversation::{Conversation, SessionName};
use super::dialogue::filled;
use super::disclosure_sheet::Sheet;
use super::install_session::replace;
use super::model_args::ModelArgs;
use super::terminal::{Answers, DIM, HEAD, Hinted, Screen, Show, Terminal};
use super::{Exit, attach, server_prompts};
use haft_agent::provider::Prompt;
use haft_agent::{End, Outcome};
use haft_core::call::Attachment;
use haft_core::report::nearest;
use haft_core::tool::Entry;
use haft_manifest::RulePattern;
use haft_package::{Project, ProjectError, edit};

#[derive(Debug, Args)]
#[command(after_help = "\
Enter sends. Alt-Enter, or a `\\` at the end of the line, starts a new line. Tab completes. The arrow keys and \
Ctrl-R search the input history. Ctrl-O shows the full tool results of the last prompt (always with `-v`). \
Input during a task is sent to the model at its next step. Ctrl-C stops the task, a second Ctrl-C or Ctrl-D \
quits. `/help` lists the commands.

Examples:
  haft chat
  haft chat --resume             the newest session of this program in this folder
  haft chat --resume 3f9ac801
  haft chat --model llama3 --base-url http://localhost:11434/v1")]
pub(super) struct Chat {
    /// Resume a session: its id, the start of its id, or `last` for the newest session of this program in
    /// this folder
    #[arg(short, long, value_name = "ID", num_args = 0..=1, default_missing_value = "last", add = super::completions::sessions())]
    resume: Option<SessionName>,
    /// Start in plan mode: tools only read, until `/plan off`
    #[arg(long)]
    plan: bool,
    #[command(flatten)]
    choice: ModelArgs,
}

impl Chat {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        if !terminal.has_person() || terminal.json {
            let message = "`haft chat` needs a terminal to read from and to write to";
            return Err(Hinted::new(message, "`haft run -` reads a task from standard input").into());
        }
        let answers = if common.verbose > 0 { Answers::Whole } else { Answers::Folded("Ctrl-O") };
        let screen = Screen::new(terminal, Show::All, answers);
        let mut conversation =
            Conversation::begin(common, terminal, &screen, "chat", self.choice, self.resume.as_ref()).await?;
        if self.plan {
            conversation.dialogue.is_planning = true;
        }
        conversation.listens = true;
        let mut editor = Editor::new(&conversation, common.execution.no_journal)?;
        welcome(&conversation, terminal);
        let exit = converse(&mut conversation, &mut editor, &screen, terminal).await;
        if let Some(id) = conversation.dialogue.id() {
            terminal.message(format_args!("{DIM}`haft chat --resume {id}` continues this session{DIM:#}"));
        }
        conversation.close().await;
        exit
    }
}

/// Reads prompts and runs them until the user leaves.
async fn converse(
    conversation: &mut Conversation,
    editor: &mut Editor,
    screen: &Screen,
    terminal: Terminal,
) -> anyhow::Result<Exit> {
    let (mut attached, mut entered, mut words) = (Vec::new(), VecDeque::new(), String::new());
    loop {
        let (commands, unheard) = conversation.left_over();
        entered.extend(commands);
        words.push_str(&unheard);
        let text = match entered.pop_front() {
            Some(command) => command,
            None => match editor.read(conversation.dialogue.is_planning, std::mem::take(&mut words)).await? {
                Entered::End => return Ok(Exit::Success),
                Entered::Nothing => continue,
                Entered::ShowAnswers => {
                    screen.show_answers();
                    continue;
                }
                Entered::Text(text) => text,
            },
        };
        let next = match text.strip_prefix('/') {
            Some(line) => typed(line, conversation, &mut attached, terminal).await.unwrap_or_else(|error| {
                terminal.fail(&error);
                Next::Read
            }),
            None => Next::Do(Some(text.into())),
        };
        match next {
            Next::Read => {}
            Next::Leave => return Ok(Exit::Success),
            Next::Do(prompt) => {
                // The check precedes the removal of the files from the list, so that they remain for another model.
                let files = if prompt.is_some() { attached.as_slice() } else { &[] };
                if let Err(error) = attach::check(files, &conversation.dialogue) {
                    terminal.fail(&error);
                    terminal.hint("`/detach` removes the attached files");
                    continue;
                }
                let prompt = prompt.map(|Prompt { text, attachments }| Prompt {
                    text,
                    attachments: [std::mem::take(&mut attached), attachments].concat(),
                });
                if answer(conversation, prompt, screen, terminal).await? {
                    return Ok(Exit::Interrupted);
                }
            }
        }
    }
}

/// Executes the line after a `/`: a command, or a prompt of a plugin or an MCP server.
async fn typed(
    line: &str,
    conversation: &mut Conversation,
    attached: &mut Vec<Attachment>,
    terminal: Terminal,
) -> anyhow::Result<Next> {
    let (name, words) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    if let Some(prompt) = server_prompts::all(&conversation.dialogue).iter().find(|one| one.name == name) {
        return Ok(Next::Do(Some(conversation.get(prompt, words.trim()).await?)));
    }
    Command::parse(line)?.execute(conversation, attached, terminal).await
}

/// Runs one prompt, and returns whether the user wants to leave. Prints an error; the conversation continues.
async fn answer(
    conversation: &mut Conversation,
    prompt: Option<Prompt>,
    screen: &Screen,
    terminal: Terminal,
) -> anyhow::Result<bool> {
    match conversation.task(prompt).await {
        Ok(None) => return Ok(true),
        Ok(Some(outcome)) => {
            if !screen.has_shown() {
                terminal.answer(&outcome.text)?;
            }
            if let Some(failure) = &outcome.failure {
                terminal.fail(&failure.clone().into());
            }
            sum_up(&outcome, conversation.dialogue.fill(), terminal);
        }
        Err(error) => {
            terminal.fail(&error);
            if conversation.is_unfinished() {
                terminal.hint("`/continue` tries again");
            }
        }
    }
    Ok(false)
}

fn welcome(conversation: &Conversation, terminal: Terminal) {
    let (model, tools) = (conversation.dialogue.model(), conversation.dialogue.toolbox.entries().len());
    terminal.message(format_args!(
        "{HEAD}{model}{HEAD:#} {DIM}with {tools} tools; `/help` lists the commands, Ctrl-D quits{DIM:#}"
    ));
    if conversation.dialogue.is_planning {
        command::tell_plan(true, terminal);
    }
    if conversation.is_unfinished() {
        terminal.hint("the last task is not finished; `/continue` resumes it");
    }
}

/// Tells why the answer is incomplete, and what the prompt cost.
fn sum_up(outcome: &Outcome, fill: (usize, Option<u32>), terminal: Terminal) {
    if let Some(why) = outcome.shortfall().filter(|_| outcome.failure.is_none()) {
        terminal.message(format_args!("[{why}]"));
    }
    if outcome.end == End::Failed {
        terminal.hint("`/continue` tries again");
    } else if outcome.end.is_resumable() {
        terminal.hint("`/continue` resumes the task");
    }
    let (input, output) = (outcome.usage.input, outcome.usage.output);
    let cost = outcome.usage.cost.map(|cost| format!(", {cost}")).unwrap_or_default();
    let seconds = outcome.elapsed.as_secs_f64();
    let fill = filled(fill);
    terminal.message(format_args!(
        "{DIM}{seconds:.1} s, {input} input tokens, {output} output tokens{cost}{fill}{DIM:#}"
    ));
}

/// Lists the allowed tools, and the tools that need approval.
fn list_rules(conversation: &Conversation, terminal: Terminal) {
    let allowed = conversation.approvals.allowed();
    let is_allowed =
        |name: &str| allowed.iter().any(|rule| rule.tools().as_str() == name && rule.about().is_none());
    let asks = conversation
        .dialogue
        .toolbox
        .entries()
        .filter(|entry| entry.asks())
        .map(|entry| entry.def().name.clone());
    let asks: Vec<_> = asks.filter(|name| !is_allowed(name)).collect();
    let of_agents = conversation.approvals.allowed_to_agents().into_iter();
    let of_agents = of_agents.map(|(agent, rule)| format!("{agent}: {rule}"));
    let allowed: Vec<_> = allowed.iter().map(RulePattern::to_string).chain(of_agents).collect();
    let list = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    terminal.message(format_args!("allowed in this session: {}", list(&allowed)));
    terminal.message(format_args!("ask before every call: {}", list(&asks)));
}

/// Allows the calls that a rule matches, in this session.
fn allow_rule(conversation: &Conversation, rule: &str, terminal: Terminal) -> anyhow::Result<()> {
    let (rule, entries) = matched(conversation, rule)?;
    if !entries.iter().any(|entry| entry.asks()) {
        terminal.message(format_args!("`{rule}` needs no approval already"));
        return Ok(());
    }
    let mut sheet = Sheet::new(terminal.message_columns(), None);
    for entry in entries {
        sheet.tool("allowed", &entry.def().name, entry.def());
    }
    terminal.message(sheet.text.trim_end());
    terminal.message(format_args!("`{rule}` runs without approval in this session"));
    conversation.approvals.allow(rule);
    Ok(())
}

/// Writes a rule to `[agent] allow`, after the user has seen the line and agreed. The rule is also valid in this
/// session.
async fn keep_rule(conversation: &Conversation, rule: &str, terminal: Terminal) -> anyhow::Result<()> {
    let (rule, _) = matched(conversation, rule)?;
    let path = conversation.dialogue.program.manifest.path.as_path();
    if path.as_os_str().is_empty() {
        let hint = "`haft init` writes one; `/allow` without `--save` applies to this session";
        return Err(Hinted::new("there is no program.toml to save the rule to", hint).into());
    }
    let project = Project::open(path)?;
    let after = edit::allow(&project.text, &rule.to_string())
        .map_err(|error| ProjectError::Edit { path: path.to_owned(), error })?;
    if after == project.text {
        terminal.message(format_args!("`allow` in `[agent]` already has `{rule}`"));
    } else {
        terminal.message(format_args!("{DIM}{}:{DIM:#}", path.display()));
        terminal.new_lines(&project.text, &after);
        if !terminal.confirm("write this?").await? {
            terminal.message("nothing was written");
            return Ok(());
        }
        // haft writes the displayed text or nothing.
        replace(&project, &after)?;
        terminal.message(format_args!("`{rule}` is now allowed"));
    }
    conversation.approvals.allow(rule);
    Ok(())
}

/// Returns the rule with the tool's full name, and the tools that it matches.
fn matched<'c>(conversation: &'c Conversation, rule: &str) -> anyhow::Result<(RulePattern, Vec<&'c Entry>)> {
    let rule: RulePattern =
        rule.parse().map_err(|error| anyhow::anyhow!("`{rule}` is not a rule: {error}"))?;
    let tools = rule.tools().as_str();
    if let Some(entry) = conversation.dialogue.toolbox.find(tools) {
        let about = rule.about().map(|about| format!("({about})")).unwrap_or_default();
        return Ok((format!("{}{about}", entry.def().name).parse()?, vec![entry]));
    }
    let entries =
        conversation.dialogue.toolbox.entries().filter(|entry| rule.tools().matches(&entry.def().name));
    let entries: Vec<_> = entries.collect();
    if entries.is_empty() {
        let names = conversation.dialogue.toolbox.entries().map(|entry| entry.def().name.as_str());
        let rest = match nearest(tools, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`/tools` lists them".to_owned(),
        };
        anyhow::bail!("there is no tool `{tools}`; {rest}");
    }
    Ok((rule, entries))
}

/// Withdraws a rule of this session, also from agents.
fn deny_rule(conversation: &Conversation, rule: &str, terminal: Terminal) -> anyhow::Result<()> {
    // A session's rule may no longer match a tool, and is withdrawn nevertheless.
    let own = matched(conversation, rule);
    let name = own.as_ref().map_or_else(|_| rule.to_owned(), |(rule, _)| rule.to_string());
    // An agent may have a tool under a name that another tool has here.
    let is_withdrawn =
        [name.as_str(), rule].map(|rule| conversation.approvals.withdraw(rule)).contains(&true);
    if is_withdrawn {
        terminal.message(format_args!("`{name}` needs approval again"));
    } else {
        own?;
        terminal.message(format_args!("`{name}` was not allowed in this session"));
    }
    Ok(())
}
