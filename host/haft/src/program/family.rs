//! The program.toml files of a program's agents, and of their agents, read with the program. Finds unusable files,
//! circles of agents, and the paths that the files name and that are closed to tools. Loads no program.

use std::path::{Path, PathBuf};

use super::grants::{closing, root};
use haft_core::grant::Grant;
use haft_core::report::{Problem, Report, Span};
use haft_core::secret::Redactor;
use haft_manifest::{AgentKind, AgentTool, Located, Manifest, Secrets};
use haft_package::lock_path;

/// The name of a program file.
pub const FILE_NAME: &str = "program.toml";

/// Maximum depth of agents that call each other: as many as a user can follow.
pub(super) const MAX_DEPTH: usize = 4;

/// Maximum number of direct and indirect agent programs: each is read at every start.
const MAX_PROGRAMS: usize = 64;

/// The agent programs of a program.
#[derive(Debug, Default)]
pub(super) struct Family {
    /// The files of the calling programs, and of the program itself.
    pub(super) chain: Vec<PathBuf>,
    /// The agent programs, and the program itself before the removal of parts: tools may not write the files that these
    /// name.
    pub(super) members: Vec<Manifest>,
    /// The files of the members, without links.
    seen: Vec<PathBuf>,
    /// The files of the members, by every path that names them.
    named: Vec<PathBuf>,
    /// Unusable agents of the program itself.
    broken: Vec<(Span, Problem)>,
}

impl Family {
    /// Reads the agent programs of `manifest`, whose calling programs are `above`. Fails for a circle of calls, or
    /// beyond the maximum depth.
    pub(super) fn read(manifest: &Manifest, above: &[PathBuf], home: &Path) -> Result<Self, Report> {
        let mut family = Self { chain: above.to_vec(), ..Self::default() };
        let mut chain = above.to_vec();
        family.visit(manifest, home, &mut chain)?;
        family.chain.extend(manifest.file().map(canonical));
        Ok(family)
    }

    fn visit(&mut self, manifest: &Manifest, home: &Path, chain: &mut Vec<PathBuf>) -> Result<(), Report> {
        chain.push(canonical(&manifest.path));
        for agent in manifest.agents.iter().filter(|agent| agent.enabled) {
            let AgentKind::Program(program) = &agent.kind else { continue };
            let path = file(manifest, program, home);
            let real = canonical(&path);
            self.named.push(path.clone());
            if let Some(why) = self.refusal(chain, &real) {
                let problem =
                    Problem::new(format!("agent `{}` cannot be called: {why}", agent.name.as_str()));
                return Err(manifest.report(vec![problem.at(program.span, "this program")]));
            }
            if self.seen.contains(&real) {
                continue;
            }
            self.seen.push(real);
            match Manifest::load(&path) {
                Ok(member) => {
                    self.visit(&member, home, chain)?;
                    self.members.push(member);
                }
                Err(report) if chain.len() == self.chain.len() + 1 => {
                    self.broken.push((program.span, unusable(agent, &path, &report)));
                }
                // A call of that agent reports the error.
                Err(_) => {}
            }
        }
        chain.pop();
        Ok(())
    }

    /// Returns the reason why `program` cannot be an agent of the last program in `chain`.
    fn refusal(&self, chain: &[PathBuf], program: &Path) -> Option<String> {
        let named = |chain: &[PathBuf]| {
            let names = chain.iter().map(PathBuf::as_path).chain([program]);
            names.map(|path| format!("`{}`", path.display())).collect::<Vec<_>>().join(" → ")
        };
        if let Some(at) = chain.iter().position(|own| own == program) {
            let circle = named(chain.get(at..).unwrap_or_default());
            return Some(format!("the programs call each other in a circle: {circle}"));
        }
        if chain.len() > MAX_DEPTH {
            return Some(format!("agents may call each other at most {MAX_DEPTH} deep: {}", named(chain)));
        }
        (self.seen.len() >= MAX_PROGRAMS)
            .then(|| format!("a program may have at most {MAX_PROGRAMS} agent programs"))
    }

    pub(super) fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.broken.iter().map(|(_, problem)| problem)
    }

    /// Returns the usable agents of `manifest`, the program itself.
    pub(super) fn agents<'m>(&self, manifest: &'m Manifest) -> impl Iterator<Item = &'m AgentTool> {
        let is_broken = |agent: &AgentTool| match &agent.kind {
            AgentKind::Program(program) => self.broken.iter().any(|(span, _)| *span == program.span),
            AgentKind::Part { .. } => false,
        };
        manifest.agents.iter().filter(move |agent| agent.enabled && !is_broken(agent))
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.seen.iter().flat_map(|file| [file.clone(), lock_path(file)]).collect()
    }

    /// Registers the secrets that the agent programs name with `redactor`, which redacts them from then on.
    pub(super) fn learn(&self, home: &Path, redactor: &Redactor) {
        self.members.iter().for_each(|member| Secrets::new(member, home, redactor).learn());
    }

    /// Returns a grant that only closes the files of the agents. A tool that could write these files would control
    /// prompts and models.
    pub(super) fn sealed(&self, home: &Path) -> anyhow::Result<Grant> {
        let mut grant = Grant::none();
        for file in self.named.iter().flat_map(|file| [file.clone(), lock_path(file)]) {
            // Fails for a program that haft may not look for: haft does not know which files such a program names.
            grant = grant.with_fixed(root(&file)?);
        }
        for member in &self.members {
            for (seal, path) in member.sealed(home) {
                grant = closing(grant, seal, &path)?;
            }
        }
        Ok(grant)
    }
}

/// Returns the program.toml that `program` names, by its file or its folder.
pub(super) fn file(manifest: &Manifest, program: &Located<PathBuf>, home: &Path) -> PathBuf {
    let path = manifest.resolve(&program.value, home);
    if path.is_dir() { path.join(FILE_NAME) } else { path }
}

pub(super) fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

fn unusable(agent: &AgentTool, path: &Path, report: &Report) -> Problem {
    let first = report.problems().first().map_or("it cannot be read", Problem::message);
    let text = format!("agent `{}` cannot be used: {first}", agent.name.as_str());
    let problem = Problem::new(text).at(agent.name.span, "left out");
    problem.hint(format!("run `haft check -p {}` to see each problem and its place", path.display()))
}
