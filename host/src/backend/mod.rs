//! Where a command runs. [`process`] runs one and [`confine`] holds it to its grant; nothing else
//! in the program starts a child. It refuses to know what the command is for.

pub mod confine;
pub mod lookup;
pub mod process;

pub(crate) mod open_files;

mod capture;
