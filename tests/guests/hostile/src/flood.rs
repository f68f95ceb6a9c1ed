//! Guests that flood every output of a guest.

use std::io::Write;

use haft_plugin::{Level, Output};

/// What is written at a time.
const LINE: &[u8; 64] = b"all work and no play makes a guest a very dull guest, they say.\n";

deed! {
    /// Answers with a text of so many bytes.
    FloodResult, "flood_result" { bytes: usize } |self, _context| {
        let mut text = Vec::new();
        text.try_reserve_exact(self.bytes)?;
        text.resize(self.bytes, b'x');
        Ok(String::from_utf8(text)?.into())
    }
}

deed! {
    /// Answers with so many empty pieces: small for the guest, large for a host that counts bytes only.
    FloodPieces, "flood_pieces" { count: usize } |self, _context| {
        Ok((0..self.count).fold(Output::default(), |output, _| output.with_text(String::new())))
    }
}

deed! {
    /// Writes so many bytes to stdout.
    FloodStdout, "flood_stdout" { bytes: u64 } |self, _context| {
        flood(&mut std::io::stdout(), self.bytes)
    }
}

deed! {
    /// Writes so many bytes to stderr.
    FloodStderr, "flood_stderr" { bytes: u64 } |self, _context| {
        flood(&mut std::io::stderr(), self.bytes)
    }
}

deed! {
    /// Calls the host's `progress` so many times, as fast as it can.
    FloodHost, "flood_host" { calls: u32 } |self, context| {
        for call in 0..self.calls {
            context.progress(f64::from(call), None, "");
        }
        Ok(format!("made {} calls", self.calls).into())
    }
}

deed! {
    /// Prints a text to stdout, and to stderr where told to.
    Print, "print" { text: String, stderr: Option<bool> } |self, _context| {
        if self.stderr == Some(true) {
            eprintln!("{}", self.text);
        } else {
            println!("{}", self.text);
        }
        Ok("printed".into())
    }
}

deed! {
    /// Logs so many lines of so many bytes each.
    Log, "log" { lines: u32, bytes: Option<usize> } |self, context| {
        let tail = "x".repeat(self.bytes.unwrap_or(0));
        for line in 1..=self.lines {
            context.log(Level::Info, format!("line {line} {tail}"));
        }
        Ok(format!("logged {} lines", self.lines).into())
    }
}

deed! {
    /// Answers with data that is no object, as no tool may.
    BadStructured, "bad_structured" {} |self, _context| {
        Output::from("the data of this answer is a number").with_structured(&42)
    }
}

fn flood(stream: &mut impl Write, bytes: u64) -> Result<Output, haft_plugin::Error> {
    let mut left = bytes;
    while left > 0 {
        let take = usize::try_from(left).unwrap_or(usize::MAX).min(LINE.len());
        stream.write_all(LINE.get(..take).unwrap_or(LINE))?;
        left -= take as u64;
    }
    stream.flush()?;
    Ok(format!("wrote {bytes} bytes").into())
}
