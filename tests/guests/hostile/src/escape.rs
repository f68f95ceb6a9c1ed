//! Guests that attack closed paths: by repeated attempts while another process changes files, and by handles that
//! they opened before.

use std::ffi::{CString, c_char, c_int, c_long};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use haft_plugin::Error;

/// How long a guest waits for somebody else; more than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(20);

deed! {
    /// Adds to the end of a file that is there.
    Append, "append" { path: String, text: String } |self, _context| {
        OpenOptions::new().append(true).open(&self.path)?.write_all(self.text.as_bytes())?;
        Ok("done".into())
    }
}

deed! {
    /// Makes a file longer or shorter.
    Resize, "resize" { path: String, bytes: u64 } |self, _context| {
        OpenOptions::new().write(true).open(&self.path)?.set_len(self.bytes)?;
        Ok("done".into())
    }
}

deed! {
    /// Reads a file again and again, until a file `stop` is there, and lists the different contents.
    ReadAgain, "read_again" { path: String, stop: String } |self, _context| {
        let mut seen = std::collections::BTreeSet::new();
        let begun = Instant::now();
        while fs::symlink_metadata(&self.stop).is_err() && begun.elapsed() < PATIENCE {
            if let Ok(text) = fs::read_to_string(&self.path) {
                seen.insert(text);
            }
        }
        Ok(seen.into_iter().collect::<Vec<_>>().join("\n").into())
    }
}

deed! {
    /// Writes a file again and again, until a file `stop` is there, and says how often it could.
    WriteAgain, "write_again" { path: String, text: String, stop: String } |self, _context| {
        let (mut written, begun) = (0, Instant::now());
        while fs::symlink_metadata(&self.stop).is_err() && begun.elapsed() < PATIENCE {
            written += u32::from(fs::write(&self.path, &self.text).is_ok());
        }
        Ok(format!("written {written} times").into())
    }
}

deed! {
    /// Opens a directory, makes a file `ready`, waits for a file `go`, and then reads `name` below what
    /// it opened, or writes `text` to it.
    Hold, "hold" { directory: String, ready: String, go: String, name: String, text: Option<String> } |self, _context| {
        let directory = File::open(&self.directory)?;
        fs::write(&self.ready, "")?;
        wait_for(Path::new(&self.go))?;
        if let Some(text) = self.text {
            open_below(&directory, &self.name, O_WRONLY)?.write_all(text.as_bytes())?;
            return Ok("done".into());
        }
        let mut text = String::new();
        open_below(&directory, &self.name, O_RDONLY)?.read_to_string(&mut text)?;
        Ok(text.into())
    }
}

deed! {
    /// Says of whatever a path leads to that it was changed in 1970; of a link itself where told to.
    Touch, "touch" { path: String, link: Option<bool> } |self, _context| {
        touch(&self.path, self.link == Some(true))?;
        Ok("done".into())
    }
}

fn wait_for(path: &Path) -> Result<(), Error> {
    let begun = Instant::now();
    while fs::symlink_metadata(path).is_err() {
        if begun.elapsed() > PATIENCE {
            return Err(Error::failed(format!("`{}` never came", path.display())));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Bits of `open` in the C library of WASI.
const O_RDONLY: c_int = 0x0400_0000;
const O_WRONLY: c_int = 0x1000_0000;

/// `std` has this for WASI only in its unstable part, so the C library is asked itself.
#[expect(unsafe_code, reason = "one call of the C library, and the descriptor is nobody else's")]
fn open_below(directory: &File, path: &str, flags: c_int) -> std::io::Result<File> {
    unsafe extern "C" {
        fn openat(directory: c_int, path: *const c_char, flags: c_int, ...) -> c_int;
    }
    let path = CString::new(path)?;
    // SAFETY: a C string, valid for the length of the call, and it is not kept.
    let descriptor = unsafe { openat(directory.as_raw_fd(), path.as_ptr(), flags) };
    if descriptor < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: it was opened just now, so nobody else has it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// A time as the C library of WASI has it.
#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: c_long,
}

/// Where relative paths start from, and "not what a link leads to", in the C library of WASI.
const AT_FDCWD: c_int = -2;
const AT_SYMLINK_NOFOLLOW: c_int = 1;

/// `std` sets the times of open files only.
#[expect(unsafe_code, reason = "one call of the C library; all it is given lives until it is back")]
fn touch(path: &str, link: bool) -> std::io::Result<()> {
    unsafe extern "C" {
        fn utimensat(start: c_int, path: *const c_char, times: *const Timespec, flags: c_int) -> c_int;
    }
    let path = CString::new(path)?;
    let times = [Timespec { seconds: 1, nanoseconds: 0 }, Timespec { seconds: 0, nanoseconds: 0 }];
    let flags = if link { AT_SYMLINK_NOFOLLOW } else { 0 };
    // SAFETY: a C string and two times, valid for the length of the call, and it keeps neither.
    if unsafe { utimensat(AT_FDCWD, path.as_ptr(), times.as_ptr(), flags) } == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}
