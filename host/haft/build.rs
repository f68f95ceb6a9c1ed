//! Compresses the built-in components, which would else be a twentieth of haft. They are read only to be compiled, once.
//! What was recorded of their tools goes along as it is: it is read at every start.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> Result<(), Box<dyn Error>> {
    let (own, out) = (std::env::var("CARGO_MANIFEST_DIR")?, std::env::var("OUT_DIR")?);
    let built = Path::new(&own).join("built");
    println!("cargo::rerun-if-changed={}", built.display());
    for entry in fs::read_dir(built)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "wasm") {
            let name = path.file_name().ok_or("a file has a name")?.to_string_lossy();
            compress(&path, &Path::new(&out).join(format!("{name}.gz")))?;
            copy_record(&path.with_extension("json"), &Path::new(&out).join(format!("{name}.json")))?;
        }
    }
    Ok(())
}

/// The record of a component that was added just now may not have been made yet: `plugins/build` makes it with haft.
fn copy_record(from: &Path, to: &Path) -> io::Result<()> {
    match fs::read(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::write(to, ""),
        record => fs::write(to, record?),
    }
}

fn compress(from: &Path, to: &Path) -> io::Result<()> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    io::copy(&mut File::open(from)?, &mut packed)?;
    File::create(to)?.write_all(&packed.finish()?)
}
