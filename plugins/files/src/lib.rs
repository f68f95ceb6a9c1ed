//! The file tools: `read`, `write` and `edit`, one file each. They see only granted directories and check no
//! rights; the host refuses accesses.

mod edit;
mod in_place;
mod near;
mod newlines;
mod page;
mod problem;
mod read;
mod replace;
mod replacement;
mod survey;
mod target;
mod windows;
mod write;

use self::edit::Edit;
use self::read::Read;
use self::write::Write;

haft_plugin::export!(Read, Write, Edit);

#[cfg(test)]
mod tests;
