//! What a run of an agent has used, and what the agents have that it calls as tools, counted while they work: a run that
//! is stopped in the middle has cost what it has cost. It stops nothing itself; whoever asks models looks at it first.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::sync::Lock;
use crate::usage::{Cost, Usage};

/// Where turns of models are counted. Clones count together; by default nothing is.
#[derive(Clone, Debug, Default)]
pub struct Meter(Option<Place>);

/// A run, and the agent of it whose turns these are; its own where there is none.
#[derive(Clone, Debug)]
struct Place {
    run: Arc<Run>,
    agent: Option<String>,
}

#[derive(Debug)]
struct Run {
    /// Where the run itself is counted.
    caller: Meter,
    most: Most,
    used: Lock<Used>,
}

/// What a run may use; `None`: no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Most {
    /// Dollars.
    pub cost: Option<Cost>,
    /// Tokens read and written.
    pub tokens: Option<u64>,
}

#[derive(Debug, Default)]
struct Used {
    all: Usage,
    agents: BTreeMap<String, AgentUse>,
}

/// What one agent has used, over all of its runs as a tool, with the agents that it called itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AgentUse {
    /// How often models answered.
    pub turns: u32,
    /// Tokens and cost.
    #[serde(flatten)]
    pub usage: Usage,
    /// A model of it whose price is not known.
    #[serde(skip)]
    pub unpriced: Option<String>,
    /// Whether there were turns of which no tokens are known.
    #[serde(skip)]
    pub is_uncounted: bool,
}

impl Meter {
    /// One for a run that may use `most`, and whose turns count for `caller` too.
    pub fn of_run(caller: &Self, most: Most) -> Self {
        let run = Run { caller: caller.clone(), most, used: Lock::default() };
        Self(Some(Place { run: Arc::new(run), agent: None }))
    }

    /// One for a run of `agent`, which this run calls as a tool.
    #[must_use]
    pub fn of_agent(&self, agent: &str) -> Self {
        let place = |place: &Place| Place { run: place.run.clone(), agent: Some(agent.to_owned()) };
        Self(self.0.as_ref().map(place))
    }

    /// Counts a turn of `model`.
    pub fn turn(&self, model: &str, usage: Usage) {
        self.count(1, model, usage);
    }

    /// Counts what was asked besides the turns.
    pub fn add(&self, model: &str, usage: Usage) {
        self.count(0, model, usage);
    }

    fn count(&self, turns: u32, model: &str, usage: Usage) {
        let Some(Place { run, agent }) = &self.0 else { return };
        let mut used = run.used.lock();
        used.all += usage;
        if let Some(agent) = agent {
            let own = used.agents.entry(agent.clone()).or_default();
            own.turns = own.turns.saturating_add(turns);
            own.usage += usage;
            own.is_uncounted |= usage.total() == 0;
            if usage.cost.is_none() {
                own.unpriced.get_or_insert_with(|| model.to_owned());
            }
        }
        drop(used);
        run.caller.count(turns, model, usage);
    }

    /// What the agents have used that the run has called.
    pub fn agents(&self) -> BTreeMap<String, AgentUse> {
        self.0.as_ref().map(|place| place.run.used.lock().agents.clone()).unwrap_or_default()
    }

    /// Whether the run, or one that it is a part of, has used what it may.
    pub fn is_used_up(&self) -> bool {
        let Some(Place { run, .. }) = &self.0 else { return false };
        let used = run.used.lock().all;
        let is_spent = run.most.cost.is_some_and(|most| used.cost.unwrap_or_default() >= most);
        is_spent || run.most.tokens.is_some_and(|most| used.total() >= most) || run.caller.is_used_up()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(tokens: u64) -> Usage {
        Usage { input: tokens, ..Usage::default() }
    }

    #[test]
    fn a_turn_counts_for_everybody_above_it() {
        let outer = Meter::of_run(&Meter::default(), Most { tokens: Some(100), cost: None });
        let middle = Meter::of_run(&outer.of_agent("a"), Most::default());
        let inner = Meter::of_run(&middle.of_agent("b"), Most::default());
        outer.turn("m", usage(10));
        middle.turn("m", usage(20));
        inner.turn("n", usage(30));
        let turns = |meter: &Meter| meter.agents().into_iter().map(|(name, own)| (name, own.turns)).collect();
        let all: [Vec<(String, u32)>; 3] = [&outer, &middle, &inner].map(turns);
        assert_eq!(all, [vec![("a".into(), 2)], vec![("b".into(), 1)], vec![]]);
        assert_eq!(outer.agents()["a"].usage.total(), 50);
        assert_eq!(middle.agents()["b"].unpriced.as_deref(), Some("n"));
        assert!([&outer, &middle, &inner].iter().all(|meter| !meter.is_used_up()));
        inner.turn("n", usage(40));
        assert!([&outer, &middle, &inner].iter().all(|meter| meter.is_used_up()));
        Meter::default().of_agent("a").turn("m", usage(1));
    }
}
