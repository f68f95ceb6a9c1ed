//! Where a command runs. [`process`] runs one to its end, [`service`] keeps one running, and
//! [`confine`] holds both to their grant; nothing else in the program starts a child. It refuses to
//! know what the command is for.

pub mod confine;
pub mod lookup;
pub mod process;
pub mod service;
pub mod start;

pub(crate) mod open_files;

mod capture;
