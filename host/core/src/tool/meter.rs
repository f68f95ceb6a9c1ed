//! The usage of an agent's run and of the agents that it calls as tools, counted while they work, so that an
//! interrupted run is counted too. The meter stops no run; the code that asks a model checks the meter first.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::sync::Lock;
use crate::usage::{Cost, Usage};

/// Counts turns of models. Clones count together; the default counts nothing.
#[derive(Clone, Debug, Default)]
pub struct Meter(Option<Place>);

/// A run, and the agent of it whose turns are counted; `None`: the run's own turns.
#[derive(Clone, Debug)]
struct Place {
    run: Arc<Run>,
    agent: Option<String>,
}

#[derive(Debug)]
struct Run {
    /// The meter of the calling run.
    caller: Meter,
    most: Most,
    used: Lock<Used>,
}

/// The limits of a run; `None`: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Most {
    /// Dollars.
    pub cost: Option<Cost>,
    /// Tokens read and written.
    pub tokens: Option<u64>,
}

#[derive(Debug, Default)]
struct Used {
    /// The usage of the run itself and of its agents.
    all: AgentUse,
    agents: BTreeMap<String, AgentUse>,
}

/// The reason why a run may use no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsedUp {
    /// The limit is reached.
    Spent,
    /// The run has a budget in dollars, and the price of this model is unknown.
    Unpriced(String),
    /// The run has a budget in tokens, and a model reported none.
    Uncounted,
}

/// The usage of a run, or of one agent over all of its runs as a tool, including the agents that it called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AgentUse {
    /// The number of answers of models.
    pub turns: u32,
    /// Tokens and cost.
    #[serde(flatten)]
    pub usage: Usage,
    /// A model of the agent without a known price.
    #[serde(skip)]
    pub unpriced: Option<String>,
    /// Whether there were turns of which no tokens are known.
    #[serde(skip)]
    pub is_uncounted: bool,
}

impl Meter {
    /// Returns the meter of a run with the limits `most`, whose turns count for `caller` too.
    pub fn of_run(caller: &Self, most: Most) -> Self {
        let run = Run { caller: caller.clone(), most, used: Lock::default() };
        Self(Some(Place { run: Arc::new(run), agent: None }))
    }

    /// Returns the meter of a run of `agent`, which this run calls as a tool.
    #[must_use]
    pub fn of_agent(&self, agent: &str) -> Self {
        let place = |place: &Place| Place { run: place.run.clone(), agent: Some(agent.to_owned()) };
        Self(self.0.as_ref().map(place))
    }

    /// Counts a turn of `model`.
    pub fn turn(&self, model: &str, usage: Usage) {
        self.count(1, model, usage);
    }

    /// Counts model requests besides the turns.
    pub fn add(&self, model: &str, usage: Usage) {
        self.count(0, model, usage);
    }

    fn count(&self, turns: u32, model: &str, usage: Usage) {
        let Some(Place { run, agent }) = &self.0 else { return };
        let mut used = run.used.lock();
        used.all.count(turns, model, usage);
        if let Some(agent) = agent {
            used.agents.entry(agent.clone()).or_default().count(turns, model, usage);
        }
        drop(used);
        run.caller.count(turns, model, usage);
    }

    /// Returns the usage of the run and of the agents that it has called.
    pub fn all(&self) -> AgentUse {
        self.0.as_ref().map(|place| place.run.used.lock().all.clone()).unwrap_or_default()
    }

    /// Returns the usage of the agents that the run has called.
    pub fn agents(&self) -> BTreeMap<String, AgentUse> {
        self.0.as_ref().map(|place| place.run.used.lock().agents.clone()).unwrap_or_default()
    }

    /// Returns the reason why the run, or a run that contains it, has no budget left; `None` if it has. A run
    /// with uncounted usage does not continue.
    pub fn used_up(&self) -> Option<UsedUp> {
        let Place { run, .. } = self.0.as_ref()?;
        let own = run.used.lock().all.used_up(run.most);
        own.or_else(|| run.caller.used_up())
    }
}

impl AgentUse {
    fn count(&mut self, turns: u32, model: &str, usage: Usage) {
        self.turns = self.turns.saturating_add(turns);
        self.usage += usage;
        self.is_uncounted |= usage.total() == 0;
        if usage.cost.is_none() {
            self.unpriced.get_or_insert_with(|| model.to_owned());
        }
    }

    fn used_up(&self, most: Most) -> Option<UsedUp> {
        let is_spent = most.cost.is_some_and(|most| self.usage.cost.unwrap_or_default() >= most)
            || most.tokens.is_some_and(|most| self.usage.total() >= most);
        if is_spent {
            return Some(UsedUp::Spent);
        }
        let unpriced = self.unpriced.clone().filter(|_| most.cost.is_some()).map(UsedUp::Unpriced);
        unpriced.or_else(|| (most.tokens.is_some() && self.is_uncounted).then_some(UsedUp::Uncounted))
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
        assert!([&outer, &middle, &inner].iter().all(|meter| meter.used_up().is_none()));
        inner.turn("n", usage(40));
        assert!([&outer, &middle, &inner].iter().all(|meter| meter.used_up() == Some(UsedUp::Spent)));
        Meter::default().of_agent("a").turn("m", usage(1));
    }
    /// Uncounted usage ends a budget for all runs below it, and no other.
    #[test]
    fn what_is_not_known_uses_up_the_budget_that_it_is_for() {
        let priced = Usage { cost: Some(Cost::of_dollars(0.1)), ..usage(1) };
        let dollars = Most { cost: Some(Cost::of_dollars(1.0)), tokens: None };
        let outer = Meter::of_run(&Meter::default(), dollars);
        let inner = Meter::of_run(&outer.of_agent("a"), Most::default());
        inner.turn("m", priced);
        assert_eq!((outer.used_up(), inner.used_up()), (None, None));
        inner.turn("n", usage(1));
        let unpriced = Some(UsedUp::Unpriced("n".into()));
        assert_eq!((outer.used_up(), inner.used_up()), (unpriced.clone(), unpriced));

        let tokens = Most { cost: None, tokens: Some(100) };
        let outer = Meter::of_run(&Meter::default(), tokens);
        let inner = Meter::of_run(&outer.of_agent("a"), Most::default());
        inner.turn("n", usage(1));
        assert_eq!(inner.used_up(), None, "a price is not needed");
        inner.turn("n", usage(0));
        assert_eq!((outer.used_up(), inner.used_up()), (Some(UsedUp::Uncounted), Some(UsedUp::Uncounted)));
        inner.turn("n", usage(100));
        assert_eq!(inner.used_up(), Some(UsedUp::Spent));
        let free = Meter::of_run(&Meter::default(), Most::default());
        free.turn("n", usage(0));
        assert_eq!(free.used_up(), None);
    }
}
