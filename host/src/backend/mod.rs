//! Where a command runs. [`process`] is the only place of the program that starts a child, and
//! it takes a grant for every one. It refuses to know what the command is for.

pub mod lookup;
pub mod process;

mod capture;
mod tree;
