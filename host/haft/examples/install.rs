//! Installs a package from an embedding program: adds a package's folder to the program.toml of the current
//! directory, after the user has read the disclosure and agreed. `cargo run --example install -- ./github` asks, a
//! following `--yes` agrees.

#![expect(clippy::print_stdout, reason = "a program of its own, which prints what it likes")]

use std::io::Write;
use std::path::Path;

use async_trait::async_trait;
use haft::package::{
    Addition, Consent, Decision, Installed, PackageSource, Project, Proposal, Request, Store,
};
use haft::program::{InstallContext, Options};

/// Prints what there is to agree to and reads the answer.
pub struct Ask {
    /// Agree without a question.
    pub yes: bool,
}

#[async_trait]
impl Consent for Ask {
    async fn decide(&self, proposal: &Proposal<'_>) -> anyhow::Result<Decision> {
        print_proposal(proposal);
        if self.yes || answers_yes()? {
            Ok(Decision::Install(rights(&proposal.candidate.offered.requests)))
        } else {
            Ok(Decision::Decline)
        }
    }
}

/// Prints the disclosure, and the requests. The text comes from a third party: control characters are not printed.
fn print_proposal(proposal: &Proposal<'_>) {
    let candidate = proposal.candidate;
    println!("{} from {}", candidate.offered.name, candidate.source);
    for item in &candidate.disclosure.items {
        println!("  {:?} {:?}, {} bytes", item.kind, item.name, item.size);
        for line in item.text.iter().flat_map(|text| text.lines()) {
            println!("    {}", line.escape_debug());
        }
    }
    for request in proposal.more {
        println!("  asks to {} {:?}", request.what(), request.detail());
    }
}

fn answers_yes() -> std::io::Result<bool> {
    print!("Install it? [y/N] ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(answer.trim() == "y")
}

/// Returns the requests that program.toml can grant, to a package as a whole and not to single plugins.
fn rights(requests: &[Request]) -> Vec<Request> {
    let right = |request: &Request| match request {
        Request::Right(_, right) => Some(Request::Right(None, right.clone())),
        _ => None,
    };
    requests.iter().filter_map(right).collect()
}

/// Installs the package in `folder` into `program`, or another version of it; `None` where `consent` declined, or where it is
/// there. Its content is kept in `store`, or
/// in the store of this machine's user.
pub async fn install(
    program: &Path,
    folder: &Path,
    store: Option<Store>,
    consent: &dyn Consent,
) -> Result<Option<Installed>, Box<dyn std::error::Error>> {
    let project = Project::open(program)?;
    let mut context = InstallContext::new(&Options::default(), &project.manifest)?;
    context.store = store.unwrap_or(context.store);
    // A relative path would start from the program's folder.
    let source = PackageSource::Path(std::path::absolute(folder)?);
    Ok(context.installer(&project).add(Addition::new(source), consent).await?.installed())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (folder, yes) = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [folder] => (Path::new(folder).to_owned(), false),
        [folder, "--yes"] => (Path::new(folder).to_owned(), true),
        _ => return Err("expected the folder of a package, and `--yes` where nobody is to be asked".into()),
    };
    match install(Path::new("program.toml"), &folder, None, &Ask { yes }).await? {
        Some(installed) => println!("installed `{}` {}", installed.pin.name, installed.pin.kept),
        None => println!("nothing was changed"),
    }
    Ok(())
}
