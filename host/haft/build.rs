//! Compresses the built-in components, which would otherwise be a twentieth of haft's size. A component is read
//! only to compile it, once. The records of its tools are embedded uncompressed, since every start reads them.

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

/// Copies the record of a component. A new component may have none yet: `plugins/build` makes it with haft.
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
