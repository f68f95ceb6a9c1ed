//! `haft plugin publish`: checks a component or a package and pushes it to a registry. Content with errors is not
//! published, and an existing tag is replaced only on request.

use crate::cli::common::Common;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::json;

use super::check::component::{self, Checked};
use super::terminal::{Hinted, Terminal, rounded};
use super::{Exit, build};
use crate::cli::install_session::{InstallSession, with_hint};
use haft::program::FILE_NAME;
use haft_author::archive::Package;
use haft_author::pack;
use haft_core::report::Report;
use haft_manifest::{self as manifest, Manifest};
use haft_package::oci::{Content, OciError, Publication, Pushed, Reference, push};
use haft_plugin_host::inspect::Sections;

const ANNOTATION: &str = "org.opencontainers.image.";

#[derive(Debug, Args)]
#[command(after_help = "\
A component is pushed in the format of other registry clients; a folder with a program.toml is pushed as a \
package (the archive of `haft plugin pack`). haft uses the credentials that `docker login` or `podman login` \
stored.

Examples:
  haft plugin publish oci://ghcr.io/owner/words:1.0.0 words.wasm
  haft plugin publish oci://ghcr.io/owner/github:2.1.0 ./github")]
pub(super) struct Publish {
    /// The reference: `oci://REGISTRY/REPOSITORY:TAG`
    #[arg(value_name = "REFERENCE")]
    reference: String,
    /// A component, or a folder with a program.toml
    #[arg(value_name = "COMPONENT|FOLDER", default_value = ".")]
    what: PathBuf,
    /// Replace the content of the tag
    #[arg(long)]
    force: bool,
    /// Check everything and push nothing
    #[arg(long)]
    dry_run: bool,
}

/// The content to push, and its temporary folder.
struct Ready {
    publication: Publication,
    /// Contains an archive that was created for the push.
    _directory: tempfile::TempDir,
}

impl Publish {
    pub(super) async fn execute(self, common: &Common, terminal: Terminal) -> anyhow::Result<Exit> {
        let reference = self.reference()?;
        let InstallSession { context, .. } = InstallSession::open(common, terminal)?;
        let engine = context.engine()?;
        build::refuse_stale(&self.what, "publish")?;
        let ready = if self.what.is_dir() {
            self.package(engine, terminal).await?
        } else {
            self.component(engine, terminal).await?
        };
        let Some(ready) = ready else { return Ok(Exit::Program) };
        let size = std::fs::metadata(&ready.publication.file).map_or(0, |metadata| metadata.len());
        if self.dry_run {
            terminal
                .message(format_args!("would publish `{reference}` ({}); nothing was sent", rounded(size)));
            return Ok(Exit::Success);
        }
        let progress = terminal.progress();
        let pushing = push(&reference, &ready.publication, self.force, &context.access, &progress);
        let pushed = tokio::select! {
            pushed = pushing => pushed.map_err(|error: OciError| with_hint(error.hint().as_deref(), error))?,
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Interrupted),
        };
        report_pushed(&reference, &pushed, terminal)?;
        Ok(Exit::Success)
    }

    fn reference(&self) -> anyhow::Result<Reference> {
        let parsed = self.reference.parse::<Reference>();
        let reference = parsed.map_err(|error| with_hint(Some(&error.hint()), error))?;
        if reference.digest().is_some() {
            let message = format!("`{reference}` has a digest; publishing needs a tag");
            return Err(Hinted::new(message, "use a tag: `oci://REGISTRY/REPOSITORY:TAG`").into());
        }
        Ok(reference)
    }

    async fn component(
        &self,
        engine: &haft_plugin_host::Engine,
        terminal: Terminal,
    ) -> anyhow::Result<Option<Ready>> {
        let checked = component::check(&self.what, None, engine).await?;
        if !is_right(&checked, terminal) {
            return Ok(None);
        }
        let sections = &checked.sections;
        let inner = sections.program.as_deref().map(|text| Manifest::parse(text, Path::new(FILE_NAME)));
        let beside = self.what.with_file_name(FILE_NAME);
        let manifest = match inner.transpose()? {
            None if beside.is_file() => Manifest::load(&beside)?,
            inner => inner.unwrap_or_default(),
        };
        let names = |externs: &[haft_plugin_host::inspect::Extern]| {
            externs.iter().map(|one| one.name.clone()).collect::<Vec<_>>()
        };
        let publication = Publication {
            content: Content::Component,
            file: self.what.clone(),
            annotations: annotations(manifest.program.as_ref(), Some(sections)),
            imports: names(&sections.imports),
            exports: names(&sections.exports),
        };
        Ok(Some(Ready { publication, _directory: tempfile::tempdir()? }))
    }

    async fn package(
        &self,
        engine: &haft_plugin_host::Engine,
        terminal: Terminal,
    ) -> anyhow::Result<Option<Ready>> {
        build::refuse_no_package(&self.what)?;
        let manifest = Manifest::load(&self.what.join(FILE_NAME))?;
        for checked in component::of_program(&manifest, engine).await {
            if !is_right(&checked, terminal) {
                return Ok(None);
            }
        }
        let package = Package::collect(&self.what, &manifest)?;
        let directory = tempfile::tempdir().context("cannot create a temporary directory")?;
        let file = directory.path().join(format!("{}.tar.gz", package.name));
        pack::write(&file, &package.pack()?)?;
        let publication = Publication {
            content: Content::Archive,
            file,
            annotations: annotations(manifest.program.as_ref(), None),
            imports: Vec::new(),
            exports: Vec::new(),
        };
        Ok(Some(Ready { publication, _directory: directory }))
    }
}

/// Prints the findings, and returns whether the content can be published. Warnings do not prevent that.
fn is_right(checked: &Checked, terminal: Terminal) -> bool {
    let findings = &checked.findings;
    terminal.warn(&Report::new(findings.warnings.clone()));
    if findings.errors.is_empty() {
        return true;
    }
    terminal.report(&Report::new(findings.errors.clone()));
    terminal.hint("nothing was published; `haft check` shows the same problems");
    false
}

/// Returns the annotations that registries display, from program.toml or else from the component.
fn annotations(program: Option<&manifest::Program>, sections: Option<&Sections>) -> BTreeMap<String, String> {
    let label = |name: &str| {
        let labels = sections.into_iter().flat_map(|sections| &sections.labels);
        labels.into_iter().find(|(own, _)| own == name).map(|(_, text)| text.clone())
    };
    let of_program = |text: fn(&manifest::Program) -> Option<String>| program.and_then(text);
    let named = [
        ("title", of_program(|program| Some(program.name.to_string()))),
        ("version", of_program(|program| Some(program.version.to_string())).or_else(|| label("version"))),
        ("description", of_program(|program| program.description.clone()).or_else(|| label("description"))),
        (
            "authors",
            of_program(|program| (!program.authors.is_empty()).then(|| program.authors.join(", ")))
                .or_else(|| label("authors")),
        ),
        ("licenses", of_program(|program| program.license.clone()).or_else(|| label("licenses"))),
        ("source", label("source")),
        ("url", label("homepage")),
        ("revision", label("revision")),
    ];
    let some = named.into_iter().filter_map(|(name, text)| Some((format!("{ANNOTATION}{name}"), text?)));
    some.collect()
}

fn report_pushed(reference: &Reference, pushed: &Pushed, terminal: Terminal) -> anyhow::Result<()> {
    let pinned = reference.with_digest(pushed.digest.clone());
    if terminal.json {
        return terminal.json(&json!({
            "reference": reference.to_string(),
            "digest": pushed.digest.to_string(),
            "layer": pushed.layer.to_string(),
            "bytes": pushed.size,
            "was_there": pushed.was_there,
            "pinned": pinned.to_string(),
        }));
    }
    let verb = if pushed.was_there { "exists already" } else { "published" };
    terminal.message(format_args!("`{reference}` {verb} ({})", rounded(pushed.size)));
    terminal.data(&pushed.digest.to_string())?;
    terminal.message(format_args!(
        "next: `haft add {reference}`, or `haft add {pinned}` for exactly this content"
    ));
    Ok(())
}
