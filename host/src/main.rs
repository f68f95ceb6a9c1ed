//! haft
fn main() {}
