//! The modes of a host: what holds for each domain in each of them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tailbound_model::{AgentLink, AgentListeners, AgentPlace, RequestsMeanwhile, TaskProcesses};
use tailbound_time::Duration;

use crate::transition::{DomainMode, Options};
use crate::triggers::ModeTrigger;

/// Who switches the tasks of a domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentEntry {
    /// Where it runs.
    pub place: AgentPlace,
    /// The global modes that it may ask for.
    pub may_request: BTreeSet<String>,
    /// What the domain falls back to if it does not answer.
    pub fallback: Option<DomainMode>,
}

/// How modes are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// In which order, and so on.
    pub options: Options,
    /// What becomes of requests that come meanwhile.
    pub requests: RequestsMeanwhile,
    /// The longest boost.
    pub longest_boost: Duration,
    /// From the begin of a change to that of the next one, at least: what switching costs a domain is
    /// reserved once in that time.
    pub least_gap: Duration,
}

/// The modes of a host, the thesis's global mode table (section 2.3.1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeTable {
    initial: String,
    modes: BTreeMap<String, BTreeMap<String, DomainMode>>,
    agents: BTreeMap<String, AgentEntry>,
    settings: Settings,
    #[serde(default)]
    links: BTreeMap<String, AgentLink>,
    #[serde(default)]
    listeners: AgentListeners,
    #[serde(default)]
    triggers: Vec<ModeTrigger>,
    #[serde(default)]
    offsets: Vec<StartOffset>,
    #[serde(default)]
    seen: SeenTasks,
}

/// What runs tasks on the host, by domain and task.
pub type SeenTasks = BTreeMap<String, BTreeMap<String, TaskProcesses>>;

/// How long the new tasks of a domain wait in a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartOffset {
    /// The mode before.
    pub from: String,
    /// The mode after.
    pub to: String,
    /// The domain.
    pub domain: String,
    /// From the stop of its old tasks to the start of its new ones.
    pub offset: Duration,
}

/// Why there is no table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// There is no initial mode.
    #[error("the initial mode `{0}` is none of the modes")]
    NoInitial(String),
    /// A mode says nothing of a domain that others know.
    #[error("mode `{mode}` has no reservation for domain \"{domain}\", and other modes have one")]
    Incomplete {
        /// The mode.
        mode: String,
        /// The domain.
        domain: String,
    },
}

impl ModeTable {
    /// A table of global modes, each with the local mode of every domain.
    ///
    /// # Errors
    /// If the initial mode is none of them, or one knows other domains than the others.
    pub fn new(
        initial: String,
        modes: BTreeMap<String, BTreeMap<String, DomainMode>>,
        agents: BTreeMap<String, AgentEntry>,
        settings: Settings,
    ) -> Result<Self, TableError> {
        if !modes.contains_key(&initial) {
            return Err(TableError::NoInitial(initial));
        }
        let domains: BTreeSet<&String> = modes.values().flat_map(BTreeMap::keys).collect();
        for (mode, locals) in &modes {
            if let Some(domain) = domains.iter().find(|domain| !locals.contains_key(**domain)) {
                return Err(TableError::Incomplete {
                    mode: mode.clone(),
                    domain: (**domain).clone(),
                });
            }
        }
        Ok(Self {
            initial,
            modes,
            agents,
            settings,
            links: BTreeMap::new(),
            listeners: AgentListeners::default(),
            triggers: Vec::new(),
            offsets: Vec::new(),
            seen: SeenTasks::new(),
        })
    }

    /// The same, where agents are reached in these ways; those that are not named by the Unix socket.
    #[must_use]
    pub fn reached(self, links: BTreeMap<String, AgentLink>, listeners: AgentListeners) -> Self {
        Self {
            links,
            listeners,
            ..self
        }
    }

    /// How agents are reached that do not use the Unix socket.
    pub fn links(&self) -> &BTreeMap<String, AgentLink> {
        &self.links
    }

    /// Where the host listens beside its Unix socket.
    pub fn listeners(&self) -> &AgentListeners {
        &self.listeners
    }

    /// The same with what asks for its modes.
    #[must_use]
    pub fn with_triggers(mut self, triggers: Vec<ModeTrigger>) -> Self {
        self.triggers = triggers;
        self
    }

    /// The same with waits of new tasks.
    #[must_use]
    pub fn with_offsets(mut self, offsets: Vec<StartOffset>) -> Self {
        self.offsets = offsets;
        self
    }

    /// The same where the host sees what runs these tasks.
    #[must_use]
    pub fn with_seen(mut self, seen: SeenTasks) -> Self {
        self.seen = seen;
        self
    }

    /// What runs tasks on the host.
    pub fn seen(&self) -> &SeenTasks {
        &self.seen
    }

    /// The longest period of a domain in any mode, or in its fallback.
    pub fn longest_period(&self, domain: &str) -> Duration {
        let locals = self.modes.values().filter_map(|locals| locals.get(domain));
        let all = locals.chain(self.fallback(domain));
        all.map(|local| local.interface.period)
            .max()
            .unwrap_or_default()
    }

    /// How long the new tasks of a domain wait in a change; from a mixture of modes, in which what is left
    /// may be of any of them, as long as in the change that takes longest.
    pub fn offset(&self, from: Option<&str>, to: &str, domain: &str) -> Duration {
        let Some(from) = from else {
            return self.longest_offset(domain);
        };
        let of_it = |one: &&StartOffset| one.domain == domain && one.to == to && one.from == from;
        let offsets = self.offsets.iter().filter(of_it).map(|one| one.offset);
        offsets.max().unwrap_or_default()
    }

    /// The longest that new tasks of a domain wait in any change: so long after their stop, nothing is left of
    /// the tasks of any mode.
    pub fn longest_offset(&self, domain: &str) -> Duration {
        let of_it = self.offsets.iter().filter(|one| one.domain == domain);
        of_it.map(|one| one.offset).max().unwrap_or_default()
    }

    /// What asks for the modes.
    pub fn triggers(&self) -> &[ModeTrigger] {
        &self.triggers
    }

    /// The mode that the system starts in.
    pub fn initial(&self) -> &str {
        &self.initial
    }

    /// The modes by name, each with the local mode of every domain.
    pub fn modes(&self) -> &BTreeMap<String, BTreeMap<String, DomainMode>> {
        &self.modes
    }

    /// The names of all modes.
    pub fn names(&self) -> Vec<&str> {
        self.modes.keys().map(String::as_str).collect()
    }

    /// What holds for each domain in a mode.
    pub fn mode(&self, name: &str) -> Option<&BTreeMap<String, DomainMode>> {
        self.modes.get(name)
    }

    /// How transitions are carried out.
    pub fn options(&self) -> Options {
        self.settings.options
    }

    /// Other options for later transitions.
    pub fn set_options(&mut self, options: Options) {
        self.settings.options = options;
    }

    /// What becomes of requests that come meanwhile.
    pub fn requests(&self) -> RequestsMeanwhile {
        self.settings.requests
    }

    /// The longest boost.
    pub fn longest_boost(&self) -> Duration {
        self.settings.longest_boost
    }

    /// From the begin of a change to that of the next one, at least.
    pub fn least_gap(&self) -> Duration {
        self.settings.least_gap
    }

    /// Where the agent of a domain runs, if it has one.
    pub fn agent_place(&self, domain: &str) -> Option<AgentPlace> {
        self.agents.get(domain).map(|agent| agent.place)
    }

    /// What a domain falls back to.
    pub fn fallback(&self, domain: &str) -> Option<&DomainMode> {
        self.agents.get(domain)?.fallback.as_ref()
    }

    /// Whether the agent of a domain may ask for a mode.
    pub fn may_request(&self, domain: &str, mode: &str) -> bool {
        let agent = self.agents.get(domain);
        agent.is_some_and(|agent| agent.may_request.contains(mode))
    }

    /// The modes that this table has and another one has not, if all else in them is the same.
    ///
    /// # Errors
    /// What differs.
    pub fn added_to(&self, before: &Self) -> Result<Vec<&str>, String> {
        if self.initial != before.initial {
            return Err("the initial mode".into());
        }
        if self.settings != before.settings {
            return Err("[mode_changes]".into());
        }
        if self.agents != before.agents {
            return Err("an agent".into());
        }
        if self.seen != before.seen {
            return Err("what runs the tasks of an agent".into());
        }
        for (name, locals) in &before.modes {
            if self.modes.get(name) != Some(locals) {
                return Err(format!("mode `{name}`"));
            }
            let of_it = |one: &&ModeTrigger| one.mode == *name;
            let (ours, theirs) = (self.triggers.iter(), before.triggers.iter());
            if !ours.filter(of_it).eq(theirs.filter(of_it)) {
                return Err(format!("a trigger of mode `{name}`"));
            }
        }
        let added = self
            .modes
            .keys()
            .filter(|name| !before.modes.contains_key(*name));
        Ok(added.map(String::as_str).collect())
    }

    /// All tasks that a domain has in any mode, or in its fallback.
    pub fn all_tasks(&self, domain: &str) -> BTreeSet<String> {
        let locals = self.modes.values().filter_map(|locals| locals.get(domain));
        let all = locals.chain(self.fallback(domain));
        all.flat_map(|local| local.tasks.iter().cloned()).collect()
    }
}
