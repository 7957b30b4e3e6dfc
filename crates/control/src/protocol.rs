//! What is said over the control socket: one request, one answer, in turn.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tailbound_enforcement::{
    AdmissionError, AdmissionRefusal, DomainStatus, DroppedDatagrams, EnforcementError,
    LedgerSummary, Plan, Recovery, ReservationRequest,
};
use tailbound_linux::HostCapabilities;
use tailbound_model::{ResourceInterface, WhenEmpty};

use crate::origin::{EarlyEnding, Origin};
use crate::presence::Presence;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "request", deny_unknown_fields)]
pub enum ControlRequest {
    /// Who is there?
    Hello {
        /// The client's name and release, for the daemon's log.
        client: String,
    },
    /// What would be changed by these reservations; changes nothing.
    Plan {
        /// The reservations.
        requests: Vec<ReservationRequest>,
    },
    /// Make all of these reservations, or none.
    Apply {
        /// The reservations.
        requests: Vec<ReservationRequest>,
        /// How long they live.
        lease: Lease,
        /// What becomes of those without members, where that is not the default.
        #[serde(default)]
        when_empty: BTreeMap<String, WhenEmpty>,
    },
    /// Change budget, period or priority of an active reservation.
    Change {
        /// The domain.
        domain: String,
        /// What it gets from now on.
        interface: ResourceInterface,
    },
    /// The host as the daemon found it when it started.
    Host {},
    /// Take reservations back.
    Revert {
        /// Which ones.
        selection: Selection,
    },
    /// What is enforced, by whom, and how the watchdog is.
    Status {},
    /// What the managers have seen of each domain.
    Ledger {},
    /// The same and more as Prometheus text.
    Metrics {},
    /// What one subsystem is asked.
    Subsystem {
        /// Its name.
        name: String,
        /// The request, as the subsystem reads it.
        body: Value,
    },
    /// Take everything back and end.
    Shutdown {},
}

impl ControlRequest {
    /// Whether any user may ask for it: it changes nothing and costs little. What a subsystem opens to
    /// everyone the subsystem declares itself.
    pub fn is_open_to_everyone(&self) -> bool {
        matches!(
            self,
            Self::Hello { .. } | Self::Status {} | Self::Ledger {} | Self::Metrics {}
        )
    }
}

/// How long a reservation lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lease {
    /// Until it is reverted or the daemon ends.
    Persistent,
    /// Until the connection that asked for it ends, for whatever reason.
    Connection,
}

/// Which reservations to take back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selection {
    /// That of one domain.
    Domain(String),
    /// Those of some domains, the last first.
    Domains(Vec<String>),
    /// All of them, whoever asked for them.
    All,
}

/// What the daemon answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "response")]
pub enum Response {
    /// To `hello`.
    Hello {
        /// The daemon's release.
        release: String,
        /// The daemon's process.
        pid: u32,
    },
    /// To `plan`.
    Planned {
        /// One plan per request.
        plans: Vec<Plan>,
    },
    /// To `apply`.
    Applied {
        /// What was done, one plan per request.
        plans: Vec<Plan>,
    },
    /// To `change`.
    Changed {
        /// What was done.
        plan: Box<Plan>,
    },
    /// To `host`.
    Host {
        /// What reservations are planned with.
        host: Box<HostCapabilities>,
    },
    /// To `revert`.
    Reverted {
        /// The domains whose reservations were taken back.
        domains: Vec<String>,
    },
    /// To `status`.
    Status {
        /// The state of the daemon.
        status: Box<DaemonStatus>,
    },
    /// To `ledger`.
    Ledger {
        /// By domain; those without a manager are left out.
        domains: BTreeMap<String, LedgerSummary>,
    },
    /// To `metrics`.
    Metrics {
        /// In Prometheus' text format, version 0.0.4.
        text: String,
    },
    /// To `subsystem`.
    Subsystem {
        /// The answer, as the subsystem writes it.
        body: Value,
    },
    /// To `shutdown`: everything has been taken back, the daemon ends.
    ShuttingDown {},
    /// To anything: no.
    Refused {
        /// Why.
        refusal: Refusal,
    },
}

/// The state of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonStatus {
    /// The daemon's release.
    pub release: String,
    /// The daemon's process.
    pub pid: u32,
    /// The active reservations, in the order in which they were applied.
    pub reservations: Vec<ReservationStatus>,
    /// Open connections, that of the asker included.
    pub connections: usize,
    /// The process that takes everything back if the daemon dies.
    pub watchdog: WatchdogStatus,
    /// What was found and taken back when the daemon started.
    pub recovered: Recovery,
    /// The latest reservations that ended before whoever asked for them wanted it.
    pub ended: Vec<EarlyEnding>,
    /// What the subsystems that have something to say, say of themselves, by their names.
    #[serde(default)]
    pub subsystems: BTreeMap<String, Value>,
}

/// One active reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationStatus {
    /// What is enforced.
    #[serde(flatten)]
    pub enforced: DomainStatus,
    /// Who answers for it.
    pub held_by: HeldBy,
    /// Whom it comes from; nothing if the one who asked for it did not get it whole.
    pub origin: Option<Origin>,
    /// Whether it holds for anybody.
    pub presence: Presence,
    /// What the kernel has dropped of each topic whose contract it enforces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<DroppedDatagrams>,
}

/// Who answers for a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeldBy {
    /// Nobody: it stays until it is reverted.
    Nobody,
    /// A connection that is open.
    Connection,
    /// The daemon, which could not take it back yet and keeps trying.
    Daemon,
}

/// The process that takes everything back if the daemon dies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchdogStatus {
    /// Its process; none before the first reservation, or for the moment between the death of one
    /// and the start of the next.
    pub pid: Option<u32>,
    /// How it is scheduled: `SCHED_FIFO 99`, or why not.
    pub scheduling: String,
    /// How many were started because the one before died.
    pub restarts: u64,
    /// Why the last one did not start, if it did not.
    pub failure: Option<String>,
}

/// Why the daemon does not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What kind of reason it is, for programs.
    pub kind: RefusalKind,
    /// What is wrong and what would be right, for people.
    pub message: String,
    /// The same for programs, where a subsystem refuses and says more than the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<Value>>,
}

/// What kind of reason a refusal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// Too little CPU time is left, or what is asked for makes no sense.
    Admission,
    /// A domain of that name holds a reservation already.
    Duplicate,
    /// The host lacks what the back end needs.
    MissingRequirement,
    /// The target does not suit, or is gone.
    Target,
    /// The kernel refused a change, or a manager did not start; nothing was changed.
    Kernel,
    /// No domain of that name holds a reservation.
    NotActive,
    /// A subsystem says no; [`Refusal::reason`] has its own type.
    Subsystem,
    /// Something could not be put back.
    NotRestored,
    /// The journal cannot be written.
    Journal,
    /// No watchdog could be started, and nothing is enforced without one.
    Unprotected,
    /// The user may not ask for this.
    NotPermitted,
    /// The frame or its JSON is wrong, or the client was too slow to send it.
    BadRequest,
    /// The client speaks another version of the protocol.
    Version,
    /// Too many connections.
    Busy,
    /// The daemon is about to end.
    ShuttingDown,
    /// The connection has ended.
    NotConnected,
}

impl Selection {
    /// Whether a domain is named.
    pub fn includes(&self, domain: &str) -> bool {
        match self {
            Self::All => true,
            Self::Domain(one) => one == domain,
            Self::Domains(some) => some.iter().any(|one| one == domain),
        }
    }
}

impl Refusal {
    /// A refusal for the reason told.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            reason: None,
        }
    }

    /// The refusal of a subsystem, which reaches the client as the type that it is.
    pub fn of_subsystem<E: std::error::Error + Serialize>(error: &E) -> Self {
        Self {
            kind: RefusalKind::Subsystem,
            message: error.to_string(),
            reason: serde_json::to_value(error).ok().map(Box::new),
        }
    }

    /// The reason in the type of the subsystem that refused; none if it is another one's.
    pub fn reason_as<E: DeserializeOwned>(&self) -> Option<E> {
        let reason = self.reason.as_deref()?.clone();
        serde_json::from_value(reason).ok()
    }

    /// The refusal of everything once the daemon is about to end.
    pub fn shutting_down() -> Self {
        Self::new(
            RefusalKind::ShuttingDown,
            "tailboundd is about to end; ask again, and a new one will be started",
        )
    }

    /// One refusal for several, of the kind of the first; `None` for none.
    pub fn join(refusals: Vec<Self>) -> Option<Self> {
        let kind = refusals.first()?.kind;
        let messages: Vec<String> = refusals.into_iter().map(|one| one.message).collect();
        Some(Self::new(kind, messages.join("; ")))
    }
}

impl From<EnforcementError> for Refusal {
    fn from(error: EnforcementError) -> Self {
        let kind = match &error {
            EnforcementError::Missing { .. } => RefusalKind::MissingRequirement,
            EnforcementError::Refused(AdmissionError::NoRoom(
                AdmissionRefusal::DuplicateDomain(_) | AdmissionRefusal::DuplicateElsewhere { .. },
            )) => RefusalKind::Duplicate,
            EnforcementError::NotRoot { .. } | EnforcementError::NotRootOfHost => {
                RefusalKind::MissingRequirement
            }
            EnforcementError::Refused(_) => RefusalKind::Admission,
            EnforcementError::Unplannable(_) => RefusalKind::Target,
            EnforcementError::NotActive { .. } => RefusalKind::NotActive,
            EnforcementError::NotRestored { .. } => RefusalKind::NotRestored,
            EnforcementError::Journal { .. }
            | EnforcementError::NoRoom { .. }
            | EnforcementError::HostBusy { .. }
            | EnforcementError::Registry { .. } => RefusalKind::Journal,
            EnforcementError::Stranger { .. } => RefusalKind::Admission,
            _ => RefusalKind::Kernel,
        };
        Self::new(kind, error.to_string())
    }
}
