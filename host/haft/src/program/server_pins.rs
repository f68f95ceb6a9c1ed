//! What the tools of a program's MCP servers are held to. A person's consent is kept in haft's own state, for the place of
//! the program, the server and what configures it, with the tools as they were; program.lock has the digests for everybody
//! who uses the folder, and is nobody's consent: it only narrows the first list. Asks nobody.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::Program;
use super::dirs::create_private;
use super::family::canonical;
use haft_core::encoding::hex;
use haft_mcp::client::{Server, ToolList};
use haft_mcp::pins::ToolPins;
use haft_package::{Lock, ServerPin};

/// Bytes of a record: a list of tools, which has half as many, and its pins.
const MAX_RECORD: u64 = 16 << 20;

/// What a person agreed to of one server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Agreed {
    /// For people who look at the file.
    program: PathBuf,
    server: String,
    /// What the tools are held to.
    pub pins: ToolPins,
    /// The tools as they were, as far as they are known.
    pub tools: Vec<Value>,
}

/// Where it is recorded what a person agreed to of one server of a program.
#[derive(Clone, Debug)]
pub struct PinRecord {
    program: PathBuf,
    server: String,
    configuration: String,
    file: PathBuf,
}

/// A server that nobody agreed to yet, and that has said which tools it has.
#[derive(Clone, Debug)]
pub struct FirstList {
    /// The server.
    pub server: Arc<Server>,
    record: PinRecord,
    agreed: Agreed,
}

impl PinRecord {
    /// Of `server` in the program at `program`; records are in `folder`.
    pub(super) fn new(folder: &Path, program: &Path, server: &Server) -> Self {
        let (name, configuration) = (server.config().name.clone(), server.config().configuration());
        let parts = [program.as_os_str().as_encoded_bytes(), name.as_bytes(), configuration.as_bytes()];
        let digest =
            parts.into_iter().fold(Sha256::new(), |digest, part| digest.chain_update(part).chain_update([0]));
        let file = folder.join(format!("{}.json", hex(&digest.finalize())));
        Self { program: program.to_owned(), server: name, configuration, file }
    }

    /// What was agreed to.
    ///
    /// # Errors
    /// The record is there and cannot be read.
    pub fn read(&self) -> io::Result<Option<Agreed>> {
        let file = match std::fs::File::open(&self.file) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = Vec::new();
        file.take(MAX_RECORD).read_to_end(&mut text)?;
        Ok(Some(serde_json::from_slice(&text)?))
    }

    /// Notes down that a person agreed to `listed`, instead of what was agreed to before.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn agree(&self, listed: &ToolList) -> anyhow::Result<Agreed> {
        let agreed = self.agreement(ToolPins::of(&listed.sent), listed);
        let written = self.temporary(&agreed).and_then(|new| Ok(new.persist(&self.file)?));
        written.map(|_| agreed).with_context(|| self.unwritable())
    }

    /// The same where nothing was agreed to before; gives what another haft recorded meanwhile, if one did.
    fn agree_first(&self, agreed: &Agreed) -> io::Result<Agreed> {
        match self.temporary(agreed)?.persist_noclobber(&self.file) {
            Ok(_) => Ok(agreed.clone()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                Ok(self.read()?.unwrap_or_default())
            }
            Err(error) => Err(error.error),
        }
    }

    fn temporary(&self, agreed: &Agreed) -> io::Result<tempfile::NamedTempFile> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        create_private(folder)?;
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer(&mut new, agreed)?;
        new.flush()?;
        new.as_file().sync_all()?;
        Ok(new)
    }

    fn unwritable(&self) -> String {
        format!("cannot save your consent in `{}`", self.file.display())
    }

    fn agreement(&self, pins: ToolPins, listed: &ToolList) -> Agreed {
        let is_pinned = |tool: &&Value| ToolPins::of([*tool]).is_part_of(&pins);
        let tools = listed.sent.iter().filter(is_pinned).cloned().collect();
        Agreed { program: self.program.clone(), server: self.server.clone(), pins, tools }
    }

    /// What is to be agreed to first: the list, without what program.lock has otherwise for this configuration. What the
    /// lock alone has was shown to nobody.
    pub(super) fn first(self, server: &Arc<Server>, listed: &ToolList, lock: &Lock) -> FirstList {
        let pins = self.of_lock(lock).unwrap_or_else(|| ToolPins::of(&listed.sent));
        let mut agreed = self.agreement(pins, listed);
        agreed.pins = ToolPins::of(&agreed.tools);
        FirstList { server: server.clone(), record: self, agreed }
    }

    fn of_lock(&self, lock: &Lock) -> Option<ToolPins> {
        let pin = lock.server(&self.server, &self.configuration)?;
        // What is no pin holds every tool back.
        Some(serde_json::to_value(&pin.tools).and_then(serde_json::from_value).unwrap_or_default())
    }

    /// `pins` as program.lock has them.
    ///
    /// # Errors
    /// None that was seen: pins are a map of texts.
    pub fn for_lock(&self, pins: &ToolPins) -> anyhow::Result<ServerPin> {
        let tools = serde_json::from_value(serde_json::to_value(pins)?)?;
        Ok(ServerPin { name: self.server.clone(), configuration: self.configuration.clone(), tools })
    }
}

impl Program {
    /// Where it is recorded what a person agreed to of `server`, which is one of this program.
    pub fn pin_record(&self, server: &Server) -> PinRecord {
        PinRecord::new(&self.dirs.pins(), &canonical(&self.manifest.path), server)
    }
}

impl FirstList {
    /// What there is to agree to, as the server sent it.
    pub fn tools(&self) -> &[Value] {
        &self.agreed.tools
    }

    /// Notes down that this is what was agreed to, and holds the server to it.
    ///
    /// # Errors
    /// It cannot be written. The server is held to it all the same, as long as this process runs.
    pub fn agree(&self) -> anyhow::Result<()> {
        let noted = self.record.agree_first(&self.agreed);
        let pins = noted.as_ref().map_or(&self.agreed.pins, |noted| &noted.pins);
        self.server.hold_to(Some(Arc::new(pins.clone())));
        noted.map(drop).with_context(|| self.record.unwritable())
    }

    /// What was done, in one line.
    pub fn line(&self) -> String {
        let (server, count) = (&self.record.server, self.agreed.pins.names().len());
        let tools = if count == 1 { "tool" } else { "tools" };
        format!(
            "MCP server `{server}`: {count} {tools} pinned; changed tools are held back until `haft update \
             {server}`"
        )
    }
}
