//! The cache on disk: compiled code of components and the tools they list. Content-addressed, so an entry is right
//! or absent; safe under concurrent writers, because every file is written to a temporary name and renamed.
//!
//! **Compiled code is native code that haft itself executes.** No tool may therefore be able to write the
//! directory: [`Cache::open`] gets the paths that tools may write and refuses a directory below them, and refuses a
//! directory of another user. Every entry has a checksum against accidental damage, such as a truncated file.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wasmtime::component::Component;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::component::compile::Tier;
use crate::component::listing::Listing;
use crate::component::source::{Digest, Source, Stamp};
use haft_core::grant::{Reach, Root};

/// Maximum size in bytes of a cached listing: far above the limits of a plugin's list.
const MAX_RECORD: u64 = 8 << 20;

/// Usual maximum number of bytes of a record, read at once.
const USUAL_RECORD: usize = 4 << 10;

/// A directory with compiled code and listings, kept between runs.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    directory: PathBuf,
    /// The engine that compiled the code: other versions and settings make other code.
    engine: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CachedComponent {
    pub(crate) listing: Listing,
    pub(crate) code: CompiledCode,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CompiledCode {
    checksum: String,
    #[serde(default)]
    pub(crate) tier: Tier,
}

/// The digest of a file, valid while the file has this stamp.
#[derive(Serialize, Deserialize)]
struct CachedDigest {
    stamp: Stamp,
    digest: Digest,
}

impl Cache {
    /// Opens the cache in `directory`, and creates it if necessary. `engine` identifies the compiler.
    ///
    /// Fails if tools may write there (`writable`), or if the directory belongs to another user.
    pub(crate) fn open(directory: &Path, engine: String, writable: &[&Reach]) -> io::Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(directory)?;
        let root = Root::resolve(Path::new("/"), directory)?;
        if writable
            .iter()
            .any(|reach| reach.covers(&root) || reach.roots().iter().any(|own| root.contains(own)))
        {
            return Err(io::Error::other(
                "tools may write there; expected a directory that only haft writes",
            ));
        }
        let metadata = fs::metadata(root.real())?;
        let ours = metadata.uid() == rustix::process::geteuid().as_raw();
        if !ours || metadata.permissions().mode() & 0o022 != 0 {
            return Err(io::Error::other("other users may write there; expected a directory of mode 700"));
        }
        Ok(Self { directory: root.real().to_owned(), engine })
    }

    /// Returns the digest of a source; reads it only if it has changed since it was last seen.
    pub(crate) fn digest(&self, source: &Source) -> io::Result<Digest> {
        let (Some(path), Some(stamp)) = (source.path(), source.stamp()) else {
            return source.digest();
        };
        let record = format!("{}.seen", Digest::compute(path.as_os_str().as_encoded_bytes()).as_str());
        if let Some(seen) = self.read::<CachedDigest>(&record)
            && seen.stamp == stamp
        {
            return Ok(seen.digest);
        }
        let digest = source.digest()?;
        self.write_record(&record, &CachedDigest { stamp, digest: digest.clone() });
        Ok(digest)
    }

    pub(crate) fn lookup(&self, digest: &Digest) -> Option<CachedComponent> {
        self.read(&self.record(digest))
    }

    pub(crate) fn store_listing(&self, digest: &Digest, code: CompiledCode, listing: &Listing) {
        self.write_record(&self.record(digest), &CachedComponent { listing: listing.clone(), code });
    }

    /// Stores the code that the bytes with this digest were compiled to.
    pub(crate) fn store_code(&self, code: &[u8], compiled: &Digest, tier: Tier) -> io::Result<CompiledCode> {
        let code_record = CompiledCode { checksum: checksum_of(code), tier };
        self.write(&code_record.file(), code)?;
        self.write_record(&self.code_record(compiled, tier), &code_record);
        Ok(code_record)
    }

    pub(crate) fn code(&self, compiled: &Digest, tier: Tier) -> Option<CompiledCode> {
        self.read(&self.code_record(compiled, tier))
    }

    /// Removes code for which `better` exists. Processes that have loaded the code keep using it.
    pub(crate) fn remove_code(&self, compiled: &Digest, tier: Tier, better: &CompiledCode) {
        let worse = self.code(compiled, tier).filter(|code| code.checksum != better.checksum);
        let Some(code) = worse else { return };
        for name in [self.code_record(compiled, tier), code.file()] {
            let removed = fs::remove_file(self.directory.join(&name));
            removed.unwrap_or_else(|error| tracing::debug!(%error, name, "not removed from the cache"));
        }
    }

    fn code_record(&self, compiled: &Digest, tier: Tier) -> String {
        let suffix = match tier {
            Tier::Quick => "quick",
            Tier::Optimized => "code",
        };
        format!("{}-{}.{suffix}", compiled.as_str(), self.engine)
    }

    pub(crate) fn load(&self, engine: &wasmtime::Engine, code: &CompiledCode) -> Option<Component> {
        let path = self.directory.join(code.file());
        if File::open(&path).and_then(checksum_of_reader).ok()? != code.checksum {
            tracing::warn!(path = %path.display(), "compiled component is damaged; compiling it again");
            return None;
        }
        // SAFETY: wasmtime requires that the file be its own output, unmodified. Its directory is writable by this
        // user only and was granted to no tool (checked in `open`), its checksum matches (checked above), and no
        // process rewrites a file in place.
        #[expect(unsafe_code, reason = "see the comment above")]
        let component = unsafe { Component::deserialize_file(engine, &path) };
        component.inspect_err(|error| tracing::warn!(%error, "compiled component not loaded")).ok()
    }

    pub(crate) fn size(&self, code: &CompiledCode) -> Option<u64> {
        fs::metadata(self.directory.join(code.file())).ok().map(|metadata| metadata.len())
    }

    fn record(&self, digest: &Digest) -> String {
        format!("{}-{}.json", digest.as_str(), self.engine)
    }

    /// Returns a record: a line with the checksum of what follows, then JSON.
    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let mut bytes = Vec::with_capacity(USUAL_RECORD);
        let file = File::open(self.directory.join(name)).ok()?;
        file.take(MAX_RECORD).read_to_end(&mut bytes).ok()?;
        let newline = bytes.iter().position(|byte| *byte == b'\n')?;
        let (sum, json) = (bytes.get(..newline)?, bytes.get(newline + 1..)?);
        (sum == checksum_of(json).as_bytes()).then(|| serde_json::from_slice(json).ok()).flatten()
    }

    /// Writes a record; a failure costs only time.
    fn write_record(&self, name: &str, record: &impl Serialize) {
        let text = serde_json::to_string(record).map_err(io::Error::other);
        let text = text.map(|json| format!("{}\n{json}", checksum_of(json.as_bytes())));
        let written = text.and_then(|text| self.write(name, text.as_bytes()));
        if let Err(error) = written {
            tracing::warn!(%error, directory = %self.directory.display(), "cache not written");
        }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
        file.write_all(bytes)?;
        file.persist(self.directory.join(name))?;
        Ok(())
    }
}

impl CompiledCode {
    fn file(&self) -> String {
        format!("{}.cwasm", self.checksum)
    }
}

fn checksum_of(bytes: &[u8]) -> String {
    format!("{:032x}", xxh3_128(bytes))
}

/// Returns the checksum of a file, read in pieces: a mapped file would count as haft's memory.
fn checksum_of_reader(mut source: impl Read) -> io::Result<String> {
    let mut hasher = Xxh3::new();
    let mut piece = vec![0; 128 << 10];
    loop {
        match source.read(&mut piece)? {
            0 => return Ok(format!("{:032x}", hasher.digest128())),
            count => hasher.update(piece.get(..count).unwrap_or_default()),
        }
    }
}
