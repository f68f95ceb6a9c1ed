//! Workers on other machines, where the program meets any: whether the server lets this user do what is needed, and who is
//! there. Calls nothing.

use serde::Serialize;

use super::page::{Line, Mark};
use haft::program::Program;
use haft_nats::{Health, WorkerHealth};

/// What was found.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Workers {
    /// The program meets none.
    None,
    /// The server cannot be used; why.
    Unusable(String),
    /// What it knows.
    Found(Health),
}

impl Workers {
    pub(super) async fn gather(program: Option<&Program>) -> Self {
        let Some(gate) = program.and_then(|program| program.placement.gate()) else { return Self::None };
        match gate.health().await {
            Ok(health) => Self::Found(health),
            Err(error) => Self::Unusable(error.to_string()),
        }
    }

    pub(super) fn is_usable(&self) -> bool {
        !matches!(self, Self::Unusable(_)) && !matches!(self, Self::Found(health) if health.claims.is_err())
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        match self {
            Self::None => Vec::new(),
            Self::Unusable(why) => vec![Line::new(Mark::Bad, "NATS", why)],
            Self::Found(health) => of_health(health),
        }
    }
}

fn of_health(health: &Health) -> Vec<Line> {
    let program = format!("{}, program `{}` {}", health.server, health.program, health.digest);
    let claims = match &health.claims {
        Ok(()) => {
            Line::new(Mark::Good, "claims", "a call that may change anything is claimed before it runs")
        }
        Err(why) => Line::new(Mark::Bad, "claims", why).more(["only calls that read can be made"]),
    };
    let none = health.workers.is_empty().then(|| {
        let text = "none is there that runs this program with this program.lock: `haft work` starts one";
        Line::new(Mark::Warning, "workers", text)
    });
    let workers = health.workers.iter().map(of_worker);
    [Line::new(Mark::Good, "NATS", program), claims].into_iter().chain(none).chain(workers).collect()
}

fn of_worker(worker: &WorkerHealth) -> Line {
    let labels = worker.labels.join(", ");
    let labels = if labels.is_empty() { "without labels" } else { &labels };
    let text = format!(
        "{labels}, {} of {} places in use, has {}",
        worker.busy,
        worker.places,
        worker.tools.join(", ")
    );
    Line::new(Mark::Good, &worker.name, text)
}
