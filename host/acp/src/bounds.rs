//! The limits of memory and time that an editor can make haft use.

use std::time::Duration;

/// The maximum size of a message in bytes: a prompt with some pictures, in base64.
pub(crate) const MAX_LINE: usize = 16 << 20;

/// The maximum number of messages that are read and not yet handled. An editor that sends more waits.
pub(crate) const QUEUE: usize = 16;

/// The maximum number of concurrent requests: more than any editor has threads at work.
pub(crate) const MAX_REQUESTS: usize = 64;

/// The maximum number of conversations with a loaded program. A further conversation unloads the one with the
/// longest idle time: each has compiled plugins, prepared processes and MCP servers.
pub(crate) const MAX_AWAKE: usize = 8;

/// The maximum number of known conversations, loaded or not: a name and a folder each.
pub(crate) const MAX_KNOWN: usize = 1000;

/// The maximum number of unwritten bytes. An editor that leaves more unread is considered hung.
pub(crate) const MAX_UNWRITTEN: usize = 32 << 20;

/// The maximum number of waiting bytes before deferrable output waits too: the replay of a conversation, the next
/// prompt.
pub(crate) const ROOM: usize = 1 << 20;

/// Time limit for the end of calls after the editor disconnects: that of a cancelled call of a tool.
pub(crate) const ENDING: Duration = Duration::from_secs(5);

/// Time limit for the editor to read one more of the last messages.
pub(crate) const FLUSH: Duration = Duration::from_secs(1);

/// The maximum number of MCP servers of a session, with [`MAX_WORDS`] words and variables each.
pub(crate) const MAX_SERVERS: usize = 32;

/// The maximum number of words of a command line, and of variables, of an MCP server.
pub(crate) const MAX_WORDS: usize = 256;

/// The number of sessions on a page of a list.
pub(crate) const PAGE: usize = 50;
