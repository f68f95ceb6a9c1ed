//! Guests that crash. None returns an answer.

deed! {
    /// Panics with a message.
    Panic, "panic" { message: Option<String> } |self, _context| {
        panic!("{}", self.message.unwrap_or_else(|| "told to panic".into()))
    }
}

deed! {
    /// Writes so many bytes to stderr before it panics.
    TalkAndPanic, "talk_and_panic" { bytes: usize } |self, _context| {
        eprintln!("{}", "x".repeat(self.bytes));
        panic!("its last words")
    }
}

deed! {
    /// Exits the process with a code.
    Exit, "exit" { code: i32 } |self, _context| std::process::exit(self.code)
}

deed! {
    /// Aborts at once, without a word.
    Unreachable, "unreachable" {} |self, _context| std::process::abort()
}

deed! {
    /// Calls itself until the stack is used up.
    Recurse, "recurse" {} |self, _context| Ok(descend(1).to_string().into())
}

/// Cannot be turned into a loop: every level needs its own array after the one below returned.
#[expect(unconditional_recursion, reason = "the deed")]
fn descend(depth: u64) -> u64 {
    let level = std::hint::black_box([depth; 16]);
    let below = descend(depth + 1);
    std::hint::black_box(level).iter().sum::<u64>() + below
}
