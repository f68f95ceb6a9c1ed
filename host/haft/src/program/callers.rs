//! `[[serve.callers]]`: what there is for each caller of a program that is served over HTTP. Each has a list of tools of
//! its own, whose grants are narrowed once, when the program is read, and not at each call.

use haft_callers::{JwtRule, KeySource, Proof, Rule};
use haft_core::report::Problem;
use haft_core::tool::Toolbox;
use haft_manifest::{CallerProof, CallerTable, JwtTable, KeysAt};

use super::Program;
use super::grants::Grants;

/// What there is for a caller.
pub(super) struct View {
    pub(super) name: String,
    pub(super) toolbox: Toolbox,
}

/// What there is of `served` for each caller, and what is left out that its `tools` name.
pub(super) fn views(program: &Program, served: &Toolbox) -> anyhow::Result<(Vec<View>, Vec<Problem>)> {
    let (mut views, mut problems) = (Vec::new(), Vec::new());
    let mut grants = Grants::new(&program.manifest, &program.dirs, &[])?;
    for caller in &program.manifest.serve.callers {
        let grant = caller.grant.as_ref().map(|table| grants.table(&table.value)).transpose()?;
        let tools = &caller.tools.value;
        let toolbox = match &grant {
            None => served.select(tools, None),
            Some(grant) => {
                let (bound, unbound) = served.bound_by(tools, grant);
                problems.extend(left_out(caller, &unbound));
                bound
            }
        };
        views.push(View { name: caller.name.as_str().to_owned(), toolbox });
    }
    problems.extend(grants.problems);
    Ok((views, problems))
}

fn left_out(caller: &CallerTable, unbound: &[String]) -> Option<Problem> {
    let named = unbound.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let text = format!("caller `{}` does not get {named}", caller.name.as_str());
    let span = caller.grant.as_ref().map_or(caller.tools.span, |grant| grant.span);
    let problem = Problem::new(text)
        .warning()
        .at(span, "it acts with other rights: those of a server, a target or a worker");
    (!unbound.is_empty()).then(|| problem.hint("a caller without a `grant` may have such tools"))
}

/// The callers, with their tokens read.
pub(super) async fn rules(program: &Program) -> anyhow::Result<Vec<Rule>> {
    let mut rules = Vec::new();
    for caller in &program.manifest.serve.callers {
        let proof = match &caller.proof {
            CallerProof::Token(source) => {
                let token = program.secrets().read(source).await;
                Proof::Token(token.map_err(|error| of_caller(caller, &error))?)
            }
            CallerProof::Jwt(jwt) => Proof::Jwt(jwt_rule(program, jwt)),
        };
        let (calls_per_minute, calls_at_once) = (caller.calls_per_minute, caller.calls_at_once);
        rules.push(Rule { name: caller.name.as_str().to_owned(), proof, calls_per_minute, calls_at_once });
    }
    Ok(rules)
}

fn of_caller(caller: &CallerTable, error: &haft_manifest::SecretError) -> anyhow::Error {
    let hint = error.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    anyhow::anyhow!("the token of caller `{}` cannot be had: {error}{hint}", caller.name.as_str())
}

fn jwt_rule(program: &Program, jwt: &JwtTable) -> JwtRule {
    let keys = match &jwt.keys {
        KeysAt::Url(url) => KeySource::Url(url.clone()),
        KeysAt::File(path) => KeySource::File(program.manifest.resolve(path, &program.dirs.home)),
    };
    JwtRule {
        issuer: jwt.issuer.clone(),
        audience: jwt.audience.clone(),
        keys,
        algorithms: jwt.algorithms.clone(),
        subjects: jwt.subjects.clone(),
        scopes: jwt.scopes.clone(),
    }
}
