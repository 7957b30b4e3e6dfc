//! Requests for divisions over the control socket, and their answers.

use serde::{Deserialize, Serialize};
use tailbound_balance::BalancePlan;
use tailbound_control::{Client, ClientError, Refusal, SubsystemRequest};

use crate::division_state::{DivisionState, PassedInterval};

/// The name under which the daemon serves divisions.
pub const SUBSYSTEM: &str = "balance";

/// `BalanceRequest` is what can be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "request", deny_unknown_fields)]
pub enum BalanceRequest {
    /// Divide from now on among applications whose reservations have the budgets of the first division.
    Begin {
        /// The name of the description.
        name: String,
        /// The table and the domains.
        plan: Box<BalancePlan>,
    },
    /// The state of a division, and the latest intervals.
    State {
        /// Its number.
        number: u64,
        /// The number of the last interval that the asker has.
        after: u64,
    },
}

/// `BalanceResponse` is the answer to a [`BalanceRequest`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "response", deny_unknown_fields)]
pub enum BalanceResponse {
    /// To `begin`.
    Begun {
        /// The state at the start.
        state: Box<DivisionState>,
    },
    /// To `state`; nothing if the division has ended.
    State {
        /// The division as it is now.
        division: Option<Box<DivisionView>>,
    },
}

/// `DivisionView` is a division as a client sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DivisionView {
    /// The state.
    pub state: DivisionState,
    /// The intervals since those that the client has, as far as they are kept.
    pub passed: Vec<PassedInterval>,
}

impl SubsystemRequest for BalanceRequest {
    const SUBSYSTEM: &'static str = SUBSYSTEM;
    type Response = BalanceResponse;

    fn is_open_to_everyone(&self) -> bool {
        matches!(self, Self::State { .. })
    }

    fn changes_something(&self) -> bool {
        matches!(self, Self::Begin { .. })
    }
}

/// `BalanceSummary` is what `status` says of divisions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BalanceSummary {
    /// All that are under way.
    pub divisions: Vec<DivisionState>,
}

/// `BalanceRefusal` says why the daemon does not divide, or does not let somebody else change what it divides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case", tag = "refusal", deny_unknown_fields)]
pub enum BalanceRefusal {
    /// The plan makes no division.
    #[error("the table [balance] makes no division: {why}")]
    Unusable {
        /// The fault of the plan.
        why: String,
    },
    /// A domain has no reservation whose budget could be changed.
    #[error("the domain \"{domain}\" has no reservation to divide")]
    NotReserved {
        /// The domain.
        domain: String,
    },
    /// A domain takes part in another division already.
    #[error(
        "\"{domain}\" takes part in the division \"{name}\" already; `tailbound revert` ends that"
    )]
    DividedAlready {
        /// The domain.
        domain: String,
        /// The name of the other division.
        name: String,
    },
    /// Only the manager changes this budget: the next interval would change it back.
    #[error(
        "the budget of \"{domain}\" follows matching values; `tailbound revert` ends the division"
    )]
    ChangedByManager {
        /// The domain.
        domain: String,
    },
}

impl From<BalanceRefusal> for Refusal {
    fn from(refusal: BalanceRefusal) -> Self {
        Self::of_subsystem(&refusal)
    }
}

/// `BalanceClient` is a [`Client`] that asks for divisions.
pub trait BalanceClient {
    /// Has the daemon divide among applications whose reservations have the budgets of the first division.
    ///
    /// # Errors
    /// Why it does not, or that it cannot be asked.
    fn begin_division(
        &mut self,
        name: &str,
        plan: BalancePlan,
    ) -> Result<DivisionState, ClientError>;

    /// A division, with its intervals after the one with the number `after`; none if it has ended.
    ///
    /// # Errors
    /// If the daemon cannot be asked.
    fn division(&mut self, number: u64, after: u64) -> Result<Option<DivisionView>, ClientError>;
}

/// An answer to something else than what was asked.
fn astray(response: &BalanceResponse) -> ClientError {
    let json = serde_json::to_string(response).unwrap_or_default();
    ClientError::Nonsense(json.chars().take(120).collect())
}

impl BalanceClient for Client {
    fn begin_division(
        &mut self,
        name: &str,
        plan: BalancePlan,
    ) -> Result<DivisionState, ClientError> {
        let plan = Box::new(plan.without_models());
        let name = name.to_owned();
        match self.ask_subsystem(&BalanceRequest::Begin { name, plan })? {
            BalanceResponse::Begun { state } => Ok(*state),
            other => Err(astray(&other)),
        }
    }

    fn division(&mut self, number: u64, after: u64) -> Result<Option<DivisionView>, ClientError> {
        match self.ask_subsystem(&BalanceRequest::State { number, after })? {
            BalanceResponse::State { division } => Ok(division.map(|division| *division)),
            other => Err(astray(&other)),
        }
    }
}
