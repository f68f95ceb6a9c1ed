//! Tests of saved conversations: an editor opens, unloads, closes and reopens them, and awaits each response.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio::sync::{Mutex, Semaphore, mpsc};

use super::*;
use crate::output::{MAX_UNWRITTEN, ROOM};
use crate::session::Session;
use crate::sessions::MAX_AWAKE;
use crate::sessions::Sessions;
use crate::tool_call::MAX_PICTURE;
use crate::updates::Updates;
use haft_agent::End;
use haft_agent::provider::Usage;
use haft_core::call::Attachment;

/// Only a hanging test reaches this.
const HANG: Duration = Duration::from_mins(5);

/// A host that saves conversations.
struct Keeping {
    /// The number of begun conversations; for one id the loaded ones, and the maximum of concurrently loaded ones.
    begun: AtomicUsize,
    loaded: Lock<BTreeMap<String, usize>>,
    most: AtomicUsize,
    /// The saved messages, by ids.
    said: Lock<BTreeMap<String, Vec<Said>>>,
    /// Whether the saved conversations cannot be read.
    is_broken: AtomicBool,
    /// A permit is required to load a stored conversation.
    gate: Semaphore,
    /// The number of waiting calls.
    waiting: AtomicUsize,
}

impl Default for Keeping {
    fn default() -> Self {
        Self {
            begun: AtomicUsize::default(),
            loaded: Lock::default(),
            most: AtomicUsize::default(),
            said: Lock::default(),
            is_broken: AtomicBool::default(),
            gate: Semaphore::new(1),
            waiting: AtomicUsize::default(),
        }
    }
}

impl Keeping {
    /// A conversation whose program is loaded.
    fn load(self: &Arc<Self>, id: &str) -> Box<dyn Conversation> {
        let mut loaded = self.loaded.lock();
        let count = loaded.entry(id.to_owned()).or_default();
        *count += 1;
        self.most.fetch_max(*count, Ordering::SeqCst);
        let messages = self.said.lock().get(id).cloned().unwrap_or_default();
        Box::new(Talk { host: self.clone(), id: id.to_owned(), messages })
    }

    fn loaded(&self, id: &str) -> usize {
        self.loaded.lock().get(id).copied().unwrap_or_default()
    }
}

/// The host itself, because conversations hold it too.
struct Shared(Arc<Keeping>);

#[async_trait]
impl Host for Shared {
    fn keeps(&self) -> bool {
        true
    }

    fn knows(&self, id: &str) -> bool {
        self.0.said.lock().contains_key(id)
    }

    async fn begin(&self, opening: Opening) -> Result<Box<dyn Conversation>, Failure> {
        let new = || format!("s{}", self.0.begun.fetch_add(1, Ordering::SeqCst));
        Ok(self.0.load(&opening.id.unwrap_or_else(new)))
    }

    async fn resume(&self, id: &str, _: Opening) -> Result<Box<dyn Conversation>, Failure> {
        self.0.waiting.fetch_add(1, Ordering::SeqCst);
        let _place = self.0.gate.acquire().await;
        if self.0.is_broken.load(Ordering::SeqCst) || !self.0.said.lock().contains_key(id) {
            return Err(Failure(format!("no session `{id}` can be read")));
        }
        Ok(self.0.load(id))
    }

    async fn list(&self, _: Option<PathBuf>) -> Result<Vec<Summary>, Failure> {
        Ok(Vec::new())
    }

    async fn remove(&self, _: &str) -> Result<(), Failure> {
        Ok(())
    }
}

/// A conversation that repeats its prompts.
struct Talk {
    host: Arc<Keeping>,
    id: String,
    messages: Vec<Said>,
}

#[async_trait]
impl Conversation for Talk {
    fn id(&self) -> String {
        self.id.clone()
    }

    fn messages(&self) -> &[Said] {
        &self.messages
    }

    fn workspace(&self) -> Option<&Path> {
        None
    }

    fn models(&self) -> (Vec<Model>, String) {
        (Vec::new(), String::new())
    }

    async fn use_model(&mut self, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn window(&mut self) -> (usize, Option<u32>) {
        (0, None)
    }

    async fn prompt(&mut self, prompt: Prompt, _: Turn) -> Result<Outcome, Failure> {
        self.messages.push(Said::User(prompt.clone()));
        self.host.said.lock().insert(self.id.clone(), self.messages.clone());
        Ok(Outcome {
            end: End::Final,
            text: prompt.text,
            turns: 1,
            usage: Usage::default(),
            model: "m".into(),
            elapsed: Duration::ZERO,
            failure: None,
            output: None,
            detail: None,
            agents: BTreeMap::new(),
        })
    }

    async fn close(self: Box<Self>) {
        if let Some(count) = self.host.loaded.lock().get_mut(&self.id) {
            *count -= 1;
        }
    }
}

/// An editor that waits for its answers.
struct Editor {
    host: Arc<Keeping>,
    to: io::PipeWriter,
    lines: mpsc::UnboundedReceiver<Value>,
    /// The editor does not read while another task holds this.
    reads: Arc<Mutex<()>>,
    /// The updates so far.
    updates: Vec<Value>,
    next: i64,
}

impl Editor {
    async fn start() -> Self {
        let host = Arc::<Keeping>::default();
        let (input, to) = io::pipe().unwrap();
        let (from, output) = io::pipe().unwrap();
        let shared = Arc::new(Shared(host.clone()));
        tokio::spawn(serve(shared, Redactor::default(), input, output, CancellationToken::new()));
        let (sender, lines) = mpsc::unbounded_channel();
        let reads = Arc::<Mutex<()>>::default();
        let own = reads.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                drop(own.blocking_lock());
                let _ = sender.send(serde_json::from_str(&line).unwrap());
            }
        });
        let mut editor = Self { host, to, lines, reads, updates: Vec::new(), next: 0 };
        editor.ask("initialize", &json!({ "protocolVersion": 1 })).await;
        editor
    }

    fn write(&mut self, message: &Value) {
        writeln!(self.to, "{message}").unwrap();
    }

    fn send(&mut self, method: &str, params: &Value) -> i64 {
        self.next += 1;
        self.write(&request(self.next, method, params));
        self.next
    }

    async fn answer(&mut self, id: i64) -> Value {
        loop {
            let message =
                tokio::time::timeout(HANG, self.lines.recv()).await.expect("no answer came").unwrap();
            if message["id"] == id {
                return message;
            }
            self.updates.push(message["params"]["update"].clone());
        }
    }

    async fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        self.answer(id).await
    }

    async fn begin(&mut self) -> String {
        let begun = self.ask("session/new", &json!({ "cwd": "/here", "mcpServers": [] })).await;
        begun["result"]["sessionId"].as_str().unwrap().to_owned()
    }

    async fn prompt(&mut self, session: &str) -> Value {
        let said = self.ask("session/prompt", &said(session)).await;
        said["result"]["stopReason"].clone()
    }

    async fn load(&mut self, session: &str) -> Value {
        let opening = json!({ "sessionId": session, "cwd": "/here", "mcpServers": [] });
        self.ask("session/load", &opening).await
    }
}

fn said(session: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "hi" }] })
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(HANG, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// Runs the other tasks, which all share the thread of the test.
async fn others_run() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

/// A session that cannot be loaded leads to an error, and nothing else changes: open sessions stay usable.
#[tokio::test]
async fn a_load_that_fails_leaves_what_is_open() {
    let mut editor = Editor::start().await;
    let (one, two) = (editor.begin().await, editor.begin().await);
    assert_eq!(editor.prompt(&one).await, "end_turn");
    assert_eq!(editor.load("unknown").await["error"]["code"], -32002);
    editor.host.is_broken.store(true, Ordering::SeqCst);
    let broken = editor.load(&one).await;
    assert!(broken["error"]["message"].as_str().unwrap().contains("can be read"), "{broken}");
    assert_eq!(editor.prompt(&two).await, "end_turn");
    editor.host.is_broken.store(false, Ordering::SeqCst);
    assert_eq!(editor.prompt(&one).await, "end_turn", "it is still there");
    assert_eq!(editor.host.most.load(Ordering::SeqCst), 1);
}

/// A closed session answers nothing, and can be loaded like any other stored session. No session is loaded twice
/// concurrently.
#[tokio::test]
async fn a_session_that_was_closed_is_loaded_again_and_none_twice() {
    let mut editor = Editor::start().await;
    let session = editor.begin().await;
    assert_eq!(editor.prompt(&session).await, "end_turn");
    let closed = editor.ask("session/close", &json!({ "sessionId": session })).await;
    assert!(closed["error"].is_null() && editor.host.loaded(&session) == 0, "{closed}");
    assert_eq!(editor.ask("session/prompt", &said(&session)).await["error"]["code"], -32002);
    for _ in 0..2 {
        let before = editor.updates.len();
        let loaded = editor.load(&session).await;
        assert!(loaded["error"].is_null(), "{loaded}");
        assert_eq!(editor.updates.len(), before + 1, "what was said is shown");
    }
    assert_eq!(editor.prompt(&session).await, "end_turn");
    assert_eq!((editor.host.loaded(&session), editor.host.most.load(Ordering::SeqCst)), (1, 1));
}

/// Loading takes seconds, and a cancelled prompt does not wait for it.
#[tokio::test]
async fn a_prompt_is_cancelled_while_its_program_loads() {
    let mut editor = Editor::start().await;
    let first = editor.begin().await;
    assert_eq!(editor.prompt(&first).await, "end_turn");
    for _ in 0..MAX_AWAKE {
        editor.begin().await;
    }
    assert_eq!(editor.host.loaded(&first), 0, "it is at rest");
    let host = editor.host.clone();
    let closed = host.gate.acquire().await.unwrap();
    let id = editor.send("session/prompt", &said(&first));
    until("it is being loaded", || host.waiting.load(Ordering::SeqCst) == 1).await;
    editor.write(&json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": first } }));
    assert_eq!(editor.answer(id).await["result"]["stopReason"], "cancelled");
    drop(closed);
    assert_eq!(editor.prompt(&first).await, "end_turn");
}

/// The limit on unread bytes of an editor applies to pictures, and a picture that no editor can show is mentioned.
#[tokio::test]
async fn large_pictures_are_shown_again_as_fast_as_they_are_read() {
    let mut editor = Editor::start().await;
    let mut attachments = vec![Attachment::new("image/png", vec![7; MAX_PICTURE]); 9];
    attachments.push(Attachment::new("image/png", vec![7; MAX_PICTURE + 1]));
    let held: usize = attachments.iter().map(|file| file.data.len()).sum();
    assert!(held > MAX_UNWRITTEN, "or it would say nothing");
    let prompt = Prompt { text: String::new(), attachments };
    editor.host.said.lock().insert("kept".into(), vec![Said::User(prompt)]);
    let paused = editor.reads.clone().lock_owned().await;
    let id = editor.send("session/load", &json!({ "sessionId": "kept", "cwd": "/here", "mcpServers": [] }));
    let host = editor.host.clone();
    until("it is loaded", || host.loaded("kept") == 1).await;
    // Without the wait, all of it would be shown.
    others_run().await;
    drop(paused);
    assert!(editor.answer(id).await["error"].is_null());
    let kinds: Vec<_> =
        editor.updates.iter().map(|update| update["content"]["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, [vec!["image"; 9], vec!["text"]].concat());
    let mention = editor.updates.last().unwrap()["content"]["text"].to_string();
    assert!(mention.contains("image/png"), "{mention}");
}

/// A session of an editor that reads nothing.
struct Crowd {
    sessions: Arc<Sessions>,
    /// Keeps all but the last session working.
    working: Vec<crate::session::Working>,
    all: Vec<Arc<Session>>,
}

/// Creates as many sessions as may be loaded; the last one replays its messages, which are not read.
async fn crowd(host: &Arc<Keeping>) -> (Crowd, io::PipeReader) {
    let (unread, output) = io::pipe().unwrap();
    let outbox = Outbox::start(output, Redactor::default(), CancellationToken::new()).unwrap();
    let client = Arc::new(Client::new(outbox.clone()));
    let opening = || Opening { id: None, folder: "/here".into(), servers: Vec::new(), left_out: Vec::new() };
    let sessions = Arc::<Sessions>::default();
    let mut all = Vec::new();
    for number in 0..MAX_AWAKE {
        let id = format!("s{number}");
        host.said.lock().insert(id.clone(), vec![Said::User("hi".into())]);
        let session = Arc::new(Session::new(&client, host.load(&id), opening()));
        sessions.add(&session);
        all.push(session);
    }
    // More than the queue of a replay holds.
    let updates = Updates::new(client.clone(), all[0].id.clone(), None);
    updates.agent_said(&"x".repeat(ROOM + 1));
    let last = all.last().unwrap().clone();
    tokio::spawn(async move { last.replay().await });
    tokio::task::yield_now().await;
    let working = all.iter().take(MAX_AWAKE - 1).map(|session| session.begin_work().unwrap()).collect();
    (Crowd { sessions, working, all }, unread)
}

/// A session that waits for a place gets it as soon as another session ends, and waits for a bounded time.
#[tokio::test]
async fn a_place_is_waited_for_and_not_for_ever() {
    let host = Arc::<Keeping>::default();
    let (crowd, _unread) = crowd(&host).await;
    let (sessions, own) = (crowd.sessions.clone(), host.clone());
    let waiting = tokio::spawn(async move { sessions.make_room(&Shared(own), None).await.map(drop) });
    others_run().await;
    assert!(!waiting.is_finished(), "it waits while the last session is only being shown");
    crowd.sessions.close(&crowd.all[0].id).await;
    let place = tokio::time::timeout(HANG, waiting).await.expect("it waits for ever").unwrap();
    assert!(place.is_ok(), "{place:?}");
    // All places are taken again.
    let client = Arc::new(Client::new(
        Outbox::start(io::sink(), Redactor::default(), CancellationToken::new()).unwrap(),
    ));
    let opening = Opening { id: None, folder: "/here".into(), servers: Vec::new(), left_out: Vec::new() };
    let further = Arc::new(Session::new(&client, host.load("further"), opening));
    crowd.sessions.add(&further);
    let _working = further.begin_work().unwrap();
    let refused = tokio::time::timeout(HANG, crowd.sessions.make_room(&Shared(host.clone()), None)).await;
    let error = refused.expect("it waits for ever").map(drop).unwrap_err();
    assert!(error.message.contains("sessions are active, which is the maximum"), "{error:?}");
    drop(crowd.working);
}
