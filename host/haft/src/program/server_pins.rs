//! The pins of the tools of a program's MCP servers. The user's consent is stored in haft's own state, keyed by
//! program, server and configuration, with the agreed tool definitions. program.lock has the digests for every
//! user of the folder, but is not consent: it only narrows the first list. Prompts nobody.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Program;
use super::dirs::{key_of, new_record, read_record};
use super::family::canonical;
use haft_mcp::client::{Server, ToolList};
use haft_mcp::pins::ToolPins;
use haft_package::{Lock, ServerPin};

/// Maximum number of bytes of a record: twice the limit of a list of tools, with the pins.
const MAX_RECORD: u64 = 16 << 20;

/// The user's agreement to one server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Agreed {
    /// The program, for people who read the file.
    program: PathBuf,
    server: String,
    /// The pins of the tools.
    pub pins: ToolPins,
    /// The agreed definitions of the tools, if known.
    pub tools: Vec<Value>,
}

/// The record of the user's agreement to one server of a program.
#[derive(Clone, Debug)]
pub struct PinRecord {
    program: PathBuf,
    server: String,
    configuration: String,
    file: PathBuf,
}

/// The first list of a server without agreement.
#[derive(Clone, Debug)]
pub struct FirstList {
    /// The server.
    pub server: Arc<Server>,
    record: PinRecord,
    agreed: Agreed,
}

impl PinRecord {
    /// Creates the record of `server` in the program at `program`, below `folder`.
    pub(super) fn new(folder: &Path, program: &Path, server: &Server) -> Self {
        let (name, configuration) = (server.config().name.clone(), server.config().configuration());
        let parts = [program.as_os_str().as_encoded_bytes(), name.as_bytes(), configuration.as_bytes()];
        let file = folder.join(format!("{}.json", key_of(parts)));
        Self { program: program.to_owned(), server: name, configuration, file }
    }

    /// Returns the agreement; `None` without a record.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn read(&self) -> io::Result<Option<Agreed>> {
        let text = read_record(&self.file, MAX_RECORD)?;
        Ok(text.map(|text| serde_json::from_slice(&text)).transpose()?)
    }

    /// Records that the user agreed to `listed`, and replaces the earlier agreement.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn agree(&self, listed: &ToolList) -> anyhow::Result<Agreed> {
        let agreed = self.agreement(ToolPins::of(&listed.sent), listed);
        let written = new_record(&self.file, &agreed).and_then(|new| Ok(new.persist(&self.file)?));
        written.map(|_| agreed).with_context(|| self.unwritable())
    }

    /// Records the first agreement. Returns the agreement of another haft process if that one came first.
    fn agree_first(&self, agreed: &Agreed) -> io::Result<Agreed> {
        match new_record(&self.file, agreed)?.persist_noclobber(&self.file) {
            Ok(_) => Ok(agreed.clone()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                Ok(self.read()?.unwrap_or_default())
            }
            Err(error) => Err(error.error),
        }
    }

    fn unwritable(&self) -> String {
        format!("cannot save your consent in `{}`", self.file.display())
    }

    fn agreement(&self, pins: ToolPins, listed: &ToolList) -> Agreed {
        let is_pinned = |tool: &&Value| ToolPins::of([*tool]).is_part_of(&pins);
        let tools = listed.sent.iter().filter(is_pinned).cloned().collect();
        Agreed { program: self.program.clone(), server: self.server.clone(), pins, tools }
    }

    /// Returns the list for the first agreement. Omits tools that differ from program.lock for this configuration,
    /// and tools that are only in program.lock.
    pub(super) fn first(self, server: &Arc<Server>, listed: &ToolList, lock: &Lock) -> FirstList {
        let pins = self.of_lock(lock).unwrap_or_else(|| ToolPins::of(&listed.sent));
        let mut agreed = self.agreement(pins, listed);
        agreed.pins = ToolPins::of(&agreed.tools);
        FirstList { server: server.clone(), record: self, agreed }
    }

    fn of_lock(&self, lock: &Lock) -> Option<ToolPins> {
        let pin = lock.server(&self.server, &self.configuration)?;
        // An invalid pin holds every tool back.
        Some(serde_json::to_value(&pin.tools).and_then(serde_json::from_value).unwrap_or_default())
    }

    /// Returns `pins` in the form of program.lock.
    ///
    /// # Errors
    /// No known one: pins are a map of texts.
    pub fn for_lock(&self, pins: &ToolPins) -> anyhow::Result<ServerPin> {
        let tools = serde_json::from_value(serde_json::to_value(pins)?)?;
        Ok(ServerPin { name: self.server.clone(), configuration: self.configuration.clone(), tools })
    }
}

impl Program {
    /// Returns the record of the user's agreement to `server` of this program.
    pub fn pin_record(&self, server: &Server) -> PinRecord {
        PinRecord::new(&self.dirs.pins(), &canonical(&self.manifest.path), server)
    }
}

impl FirstList {
    /// Returns the tools that wait for agreement, as the server sent them.
    pub fn tools(&self) -> &[Value] {
        &self.agreed.tools
    }

    /// Records the agreement, and pins the server's tools.
    ///
    /// # Errors
    /// The record cannot be written. This process uses the pins nevertheless.
    pub fn agree(&self) -> anyhow::Result<()> {
        let noted = self.record.agree_first(&self.agreed);
        let pins = noted.as_ref().map_or(&self.agreed.pins, |noted| &noted.pins);
        self.server.hold_to(Some(Arc::new(pins.clone())));
        noted.map(drop).with_context(|| self.record.unwritable())
    }

    /// Returns the completed agreement as one line for the user.
    pub fn line(&self) -> String {
        let (server, pinned) = (&self.record.server, self.agreed.pins.summary());
        format!(
            "MCP server `{server}`: {pinned} pinned; changed tools are held back until `haft update {server}`"
        )
    }
}
