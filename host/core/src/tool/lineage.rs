//! Which agents a call came through, where an agent is itself a tool. Names them, and gives no right.

/// The agents that a call came through, the one that makes it last; none for calls of a person, a client, or the agent
/// that a person talks to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    agents: Vec<String>,
    /// The journal's id of the call that the last one answers.
    parent: Option<String>,
}

impl Lineage {
    /// How many agents the call came through.
    pub fn depth(&self) -> usize {
        self.agents.len()
    }

    /// All of them as one text, such as `reviewer/searcher`; `None` where there is none.
    pub fn path(&self) -> Option<String> {
        (!self.agents.is_empty()).then(|| self.agents.join("/"))
    }

    /// The journal's id of the call that the last agent answers; `None` also where no journal is kept.
    pub fn parent(&self) -> Option<&str> {
        self.parent.as_deref()
    }

    /// That of the calls of `agent`, which answers the call `parent` of the journal.
    #[must_use]
    pub fn within(&self, agent: &str, parent: Option<&str>) -> Self {
        let mut agents = self.agents.clone();
        agents.push(agent.to_owned());
        Self { agents, parent: parent.map(str::to_owned) }
    }
}
