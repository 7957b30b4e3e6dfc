//! What is asked of the modes of a host over the control socket, and what comes back.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tailbound_control::{Client, ClientError, Refusal, SubsystemRequest};

use crate::contradictions::Contradiction;
use crate::manager::journal::Fate;
use crate::manager::{AdditionError, ModeError, Report, State};
use crate::table::ModeTable;
use crate::triggers::TriggerStatus;

/// The name under which the daemon serves modes.
pub const SUBSYSTEM: &str = "modes";

/// `ModesRequest` is what the modes of a host can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "request", deny_unknown_fields)]
pub enum ModesRequest {
    /// Know these modes from now on, in place of others: the system is in the initial one, whose
    /// reservations are active. Agents may connect then.
    Load {
        /// The modes.
        table: Box<ModeTable>,
        /// Where they are from.
        #[serde(default)]
        description: Option<RunningDescription>,
    },
    /// Know more modes: those of the table that are not known yet. All else in it is as it was.
    Add {
        /// All modes.
        table: Box<ModeTable>,
        /// Where they are from.
        description: Option<RunningDescription>,
    },
    /// Where the modes are from.
    Description {},
    /// Change to another mode, and answer when that has ended.
    Set {
        /// Which.
        mode: String,
    },
    /// Which modes there are, and what holds.
    State {},
}

/// `ModesResponse` is the answer to a [`ModesRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "response", deny_unknown_fields)]
pub enum ModesResponse {
    /// To `load`.
    Loaded {
        /// Where agents connect.
        socket: PathBuf,
    },
    /// To `add`: the modes are known.
    Added {},
    /// To `description`: nothing if no modes are loaded, or nothing was told.
    Description {
        /// What they are from.
        description: Option<RunningDescription>,
    },
    /// To `set`: what came of it, which may be that the system is in its old mode.
    Set {
        /// The transition.
        report: Box<Report>,
    },
    /// To `state`.
    State {
        /// What is known of modes; nothing if none are loaded.
        modes: Option<Box<ModesStatus>>,
    },
}

impl SubsystemRequest for ModesRequest {
    const SUBSYSTEM: &'static str = SUBSYSTEM;
    type Response = ModesResponse;

    fn is_open_to_everyone(&self) -> bool {
        matches!(self, Self::State {})
    }

    fn changes_something(&self) -> bool {
        match self {
            Self::Load { .. } | Self::Add { .. } | Self::Set { .. } => true,
            Self::Description {} | Self::State {} => false,
        }
    }
}

/// The modes of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModesStatus {
    /// The modes, by name, and how they are changed.
    pub table: ModeTable,
    /// What holds.
    pub state: State,
    /// The domains whose agents are connected.
    pub agents: Vec<String>,
    /// Where agents connect.
    pub socket: PathBuf,
    /// What came of the last transition.
    pub last: Option<Report>,
    /// What asks for modes, and when it did.
    pub triggers: Vec<TriggerStatus>,
    /// What became of a change in which another daemon died, if this one has made its reservations
    /// again.
    pub resumed: Option<Fate>,
    /// Tasks that run though their agents say that they are stopped.
    pub contradictions: Vec<Contradiction>,
}

/// The description that modes are from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunningDescription {
    /// Its file, absolute; what it names is beside it.
    pub file: PathBuf,
    /// What it says, with what was added since.
    pub text: String,
}

/// `ModesSummary` is what `status` says of modes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModesSummary {
    /// The mode that holds.
    pub mode: String,
    /// All modes.
    pub modes: Vec<String>,
    /// The domains that have agents, and whether each is connected.
    pub agents: std::collections::BTreeMap<String, bool>,
    /// Tasks that run though their agents say that they are stopped.
    pub contradictions: usize,
}

impl From<&ModesStatus> for ModesSummary {
    fn from(status: &ModesStatus) -> Self {
        let domains = status.state.domains.keys();
        let with_agents = domains.filter(|domain| status.table.agent_place(domain).is_some());
        let agents = with_agents.map(|domain| (domain.clone(), status.agents.contains(domain)));
        Self {
            mode: status.state.mode.clone(),
            modes: status
                .table
                .names()
                .into_iter()
                .map(str::to_owned)
                .collect(),
            agents: agents.collect(),
            contradictions: status.contradictions.len(),
        }
    }
}

/// `ModesRefusal` says why the daemon does not do with modes what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case", tag = "refusal", deny_unknown_fields)]
pub enum ModesRefusal {
    /// There are none.
    #[error("no modes are known; `tailbound apply` a description that has some")]
    NoneKnown {},
    /// They are known no more.
    #[error("the modes were unloaded meanwhile")]
    Unloaded {},
    /// A change lasts longer than anybody waits for it.
    #[error("the change has not ended in time; see `tailbound mode list`")]
    Unfinished {},
    /// There is no mode of that name.
    #[error("{why}")]
    Unknown {
        /// The name.
        mode: String,
        /// Which there are.
        why: String,
    },
    /// The mode cannot be changed to, or not by whoever asked.
    #[error("{why}")]
    Unreachable {
        /// The mode.
        mode: String,
        /// What stands against it.
        why: String,
    },
    /// Another request has taken the place of this one.
    #[error("{why}")]
    Replaced {
        /// Which ones do.
        why: String,
    },
    /// More modes do not fit those that are known.
    #[error("{why}")]
    Addition {
        /// What stands against them.
        why: String,
    },
    /// The modes of a table are not known in place of those that are.
    #[error("{why}")]
    OthersKnown {
        /// What is known, and what can be done.
        why: String,
    },
    /// What a mode says is not in force.
    #[error("{why}")]
    NotInForce {
        /// The mode.
        mode: String,
        /// The domain.
        domain: String,
        /// What holds in place of it.
        why: String,
    },
    /// Only modes change this reservation: the next transition would start from what no longer holds.
    #[error(
        "the reservation of \"{domain}\" is changed by modes; use `tailbound mode set`, or add a mode by \
         `tailbound mode add`"
    )]
    ChangedByModes {
        /// Its domain.
        domain: String,
    },
    /// Agents cannot be listened to.
    #[error("{why}")]
    NoListener {
        /// Where, and why.
        why: String,
    },
}

impl ModesRefusal {
    /// The refusal in an error of the client, if modes are what refused.
    pub fn of(error: &ClientError) -> Option<Self> {
        error.refusal()?.reason_as()
    }
}

impl From<ModesRefusal> for Refusal {
    fn from(refusal: ModesRefusal) -> Self {
        Self::of_subsystem(&refusal)
    }
}

impl From<ModeError> for ModesRefusal {
    fn from(error: ModeError) -> Self {
        let why = error.to_string();
        match error {
            ModeError::Unknown { mode, .. } => Self::Unknown { mode, why },
            ModeError::NotAllowed { mode, .. } | ModeError::Infeasible { mode, .. } => {
                Self::Unreachable { mode, why }
            }
            ModeError::Replaced => Self::Replaced { why },
        }
    }
}

impl From<AdditionError> for ModesRefusal {
    fn from(error: AdditionError) -> Self {
        let why = error.to_string();
        Self::Addition { why }
    }
}

/// `ModesClient` is a [`Client`] that asks for modes.
pub trait ModesClient {
    /// Makes the daemon know modes, whose initial one is in force, with the description that they are
    /// from, so that others can be added to it; where agents connect then.
    ///
    /// # Errors
    /// If the initial mode is not in force, or the daemon cannot be asked.
    fn load_modes(
        &mut self,
        table: ModeTable,
        description: Option<RunningDescription>,
    ) -> Result<PathBuf, ClientError>;

    /// Makes the daemon know those modes of a table that it does not know yet.
    ///
    /// # Errors
    /// If all else in it is not as it is known, a new mode cannot be changed to or from, or the daemon
    /// cannot be asked.
    fn add_modes(
        &mut self,
        table: ModeTable,
        description: Option<RunningDescription>,
    ) -> Result<(), ClientError>;

    /// The description that the modes are from; nothing if none are loaded, or it was not told.
    ///
    /// # Errors
    /// If the daemon cannot be asked.
    fn modes_description(&mut self) -> Result<Option<RunningDescription>, ClientError>;

    /// Changes to another mode; what came of it.
    ///
    /// # Errors
    /// If there is none of that name, or the daemon cannot be asked.
    fn set_mode(&mut self, mode: &str) -> Result<Report, ClientError>;

    /// Which modes there are, and what holds; nothing if none are loaded.
    ///
    /// # Errors
    /// If the daemon cannot be asked.
    fn modes(&mut self) -> Result<Option<ModesStatus>, ClientError>;
}

/// An answer to something else than what was asked.
fn astray(response: &ModesResponse) -> ClientError {
    let json = serde_json::to_string(response).unwrap_or_default();
    ClientError::Nonsense(json.chars().take(120).collect())
}

impl ModesClient for Client {
    fn load_modes(
        &mut self,
        table: ModeTable,
        description: Option<RunningDescription>,
    ) -> Result<PathBuf, ClientError> {
        let table = Box::new(table);
        match self.ask_subsystem(&ModesRequest::Load { table, description })? {
            ModesResponse::Loaded { socket } => Ok(socket),
            other => Err(astray(&other)),
        }
    }

    fn add_modes(
        &mut self,
        table: ModeTable,
        description: Option<RunningDescription>,
    ) -> Result<(), ClientError> {
        let table = Box::new(table);
        match self.ask_subsystem(&ModesRequest::Add { table, description })? {
            ModesResponse::Added {} => Ok(()),
            other => Err(astray(&other)),
        }
    }

    fn modes_description(&mut self) -> Result<Option<RunningDescription>, ClientError> {
        match self.ask_subsystem(&ModesRequest::Description {})? {
            ModesResponse::Description { description } => Ok(description),
            other => Err(astray(&other)),
        }
    }

    fn set_mode(&mut self, mode: &str) -> Result<Report, ClientError> {
        let mode = mode.to_owned();
        match self.ask_subsystem(&ModesRequest::Set { mode })? {
            ModesResponse::Set { report } => Ok(*report),
            other => Err(astray(&other)),
        }
    }

    fn modes(&mut self) -> Result<Option<ModesStatus>, ClientError> {
        match self.ask_subsystem(&ModesRequest::State {})? {
            ModesResponse::State { modes } => Ok(modes.map(|modes| *modes)),
            other => Err(astray(&other)),
        }
    }
}
