//! `haft chat`: a conversation at the terminal. Refuses piped input, which is a task for `haft run`.

mod command;
mod editor;
mod rules;

use crate::cli::common::Common;
use clap::Args;
use std::collections::VecDeque;
use std::path::PathBuf;

use self::command::{Command, Next};
use self::editor::{Editor, Entered};
use super::Exit;
use super::attach;
use super::model_args::ModelArgs;
use super::server_prompts;
use super::terminal::{Answers, DIM, HEAD, Hinted, Screen, Show, Terminal};
use crate::cli::conversation::{Conversation, SessionName};
use crate::cli::dialogue::filled;
use haft_agent::provider::Prompt;
use haft_agent::{End, Outcome};
use haft_core::call::Attachment;
use haft_core::report::plain;

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
            conversation.dialogue.plan(true);
        }
        conversation.listen();
        let mut editor = Editor::new(&conversation, common.execution.no_journal)?;
        welcome(&conversation, terminal);
        let exit = converse(&mut conversation, &mut editor, &screen, terminal).await;
        if let Some(id) = conversation.id() {
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
            None => match editor.read(conversation.dialogue.is_planning(), std::mem::take(&mut words)).await?
            {
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
            Some(line) => typed(line, conversation, terminal).await.unwrap_or_else(|error| {
                terminal.fail(&error);
                Next::Read
            }),
            None => Next::Do(Some(text.into())),
        };
        match next {
            Next::Read => {}
            Next::Leave => return Ok(Exit::Success),
            Next::Model(model) => use_model(conversation, &model, terminal).await,
            Next::Keep(rule) => {
                rules::keep(conversation, &rule, terminal).await;
            }
            Next::Compact => compact(conversation, terminal).await,
            Next::Attach(paths) => attach(conversation, &paths, &mut attached, terminal),
            Next::Detach => {
                detach(&mut attached, terminal);
            }
            Next::Do(prompt) => {
                // The check precedes the removal of the files from the list, so that they remain for another model.
                if let Err(error) = conversation.check(prompt.as_ref().map_or(&[], |_| attached.as_slice())) {
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
async fn typed(line: &str, conversation: &mut Conversation, terminal: Terminal) -> anyhow::Result<Next> {
    let (name, words) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    if let Some(prompt) = server_prompts::all(&conversation.dialogue).iter().find(|one| one.name == name) {
        return Ok(Next::Do(Some(conversation.get(prompt, words.trim()).await?)));
    }
    Ok(Command::parse(line)?.execute(conversation, terminal))
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

fn detach(attached: &mut Vec<Attachment>, terminal: Terminal) {
    attached.clear();
    terminal.message(format_args!("{DIM}no files are attached to your next message{DIM:#}"));
}

/// Attaches files to the next prompt, and lists the attached files.
fn attach(
    conversation: &Conversation,
    paths: &[PathBuf],
    attached: &mut Vec<Attachment>,
    terminal: Terminal,
) {
    let mut all = attached.clone();
    let read = attach::read_all(paths, &mut all);
    match read.and_then(|()| attach::check(&all, &conversation.dialogue)) {
        Ok(()) => *attached = all,
        Err(error) => terminal.fail(&error),
    }
    let list: Vec<_> = attached.iter().map(|file| plain(&file.described())).collect();
    match list.as_slice() {
        [] => terminal.message("no files are attached to your next message"),
        list => terminal.message(format_args!("attached to your next message: {}", list.join("; "))),
    }
}

async fn use_model(conversation: &mut Conversation, model: &str, terminal: Terminal) {
    match conversation.dialogue.use_model(model).await {
        Ok(()) => {
            terminal
                .message(format_args!("{DIM}the model is now `{}`{DIM:#}", conversation.dialogue.model()));
        }
        Err(error) => terminal.fail(&error),
    }
}

fn welcome(conversation: &Conversation, terminal: Terminal) {
    let (model, tools) = (conversation.dialogue.model(), conversation.dialogue.toolbox.entries().len());
    terminal.message(format_args!(
        "{HEAD}{model}{HEAD:#} {DIM}with {tools} tools; `/help` lists the commands, Ctrl-D quits{DIM:#}"
    ));
    if conversation.dialogue.is_planning() {
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

/// Summarises the conversation now.
async fn compact(conversation: &mut Conversation, terminal: Terminal) {
    match conversation.dialogue.compact().await {
        Ok(text) => terminal.message(format_args!("{DIM}{text}{DIM:#}")),
        Err(error) => terminal.fail(&error),
    }
}
