//! The bounds of what an editor can make haft hold or wait for.

use std::time::Duration;

/// Bytes of one message: a prompt with some pictures, in base64.
pub(crate) const MAX_LINE: usize = 16 << 20;

/// Messages that were read and not handled yet. An editor that sends more waits.
pub(crate) const QUEUE: usize = 16;

/// Requests that are under way at the same time: an editor with that many threads at work does not exist.
pub(crate) const MAX_REQUESTS: usize = 64;

/// Conversations whose program is loaded. A further one puts the one to rest that was idle for longest: each has
/// compiled plugins, processes kept ready and MCP servers.
pub(crate) const MAX_AWAKE: usize = 8;

/// Conversations that are known, at rest or not: a name and a folder each.
pub(crate) const MAX_KNOWN: usize = 1000;

/// Bytes that wait to be written. An editor that leaves more unread is taken for one that has hung.
pub(crate) const MAX_UNWRITTEN: usize = 32 << 20;

/// Bytes that wait to be written before what can wait does: the replay of a conversation, the next prompt.
pub(crate) const ROOM: usize = 1 << 20;

/// How long calls may take to end when the editor is gone: as long as a cancelled call of a tool may take.
pub(crate) const ENDING: Duration = Duration::from_secs(5);

/// How long the editor may take to read one more of the last messages.
pub(crate) const FLUSH: Duration = Duration::from_secs(1);

/// MCP servers of one session, with [`MAX_WORDS`] words and variables each.
pub(crate) const MAX_SERVERS: usize = 32;

/// Words of a command line, and variables, of one MCP server.
pub(crate) const MAX_WORDS: usize = 256;

/// Sessions of one page of a list.
pub(crate) const PAGE: usize = 50;
