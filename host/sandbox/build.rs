//! Computes a digest of the confinement sources, by which haft identifies its helper program: a helper of an
//! earlier build or of an interrupted upgrade is not used.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The sources of the helper that affect its behaviour.
const FOLDERS: &[&str] = &["src/confine", "src/selftest"];

fn main() -> io::Result<()> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        println!("cargo::rerun-if-changed={folder}");
        walk(Path::new(folder), &mut files)?;
    }
    files.sort();
    let mut digest = 0xcbf2_9ce4_8422_2325;
    for file in files {
        digest = add(digest, &fs::read(file)?);
    }
    println!("cargo::rustc-env=HAFT_CONFINE_SOURCES={digest:x}");
    Ok(())
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { walk(&path, files)? } else { files.push(path) }
    }
    Ok(())
}

/// Adds bytes to an FNV-1a digest. Not cryptographic: it detects mistakes, not attacks.
fn add(digest: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(digest, |digest, byte| (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
