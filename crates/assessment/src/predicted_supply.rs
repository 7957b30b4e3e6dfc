//! The CPU time that an answer takes a domain to get.

use tailbound_analysis::resolution::Deployment;
use tailbound_model::{ReservationServer, Service};

/// `PredictedSupply` is the CPU time that an answer takes a domain to get.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PredictedSupply {
    /// The back end guarantees it, within each period.
    Guaranteed {
        /// The rule.
        server: ReservationServer,
        /// The domains that may come before this one on its CPUs, so that a budget comes later in its period than
        /// without them.
        behind: Vec<String>,
        /// Whether several CPUs share the budget, of which requests that go one at a time use one.
        is_shared: bool,
    },
    /// A quota caps it, and no other domain of the description runs on its CPUs.
    Capped {
        /// The rule without what is saved up for bursts: the domain gets no less.
        server: ReservationServer,
        /// The rule with a whole burst in every period, if there is one: the domain gets no more.
        with_burst: Option<ReservationServer>,
    },
    /// Nothing is known of it, for this reason.
    Unknown(String),
}

impl PredictedSupply {
    /// The supply of a service's domain in a deployment.
    pub(crate) fn of(deployment: &Deployment, service: &Service) -> Self {
        let domain = service.domain.as_str();
        let resolved = deployment.reserved.get(domain);
        let Some(resolved) = resolved else {
            return Self::Unknown(NO_GUARANTEE.into());
        };
        let is_shared = resolved.shares_guarantee();
        if is_shared && !goes_one_at_a_time(service) {
            return Self::Unknown(SHARED_BUDGET.into());
        }
        let windows = resolved.interface.windows.len();
        if windows > 1 {
            return Self::Unknown(several_windows(windows));
        }
        if let Some(server) = resolved.server_of_one_thread() {
            let behind = deployment.ahead_of(domain).into_iter().map(str::to_owned);
            let behind = behind.collect();
            return Self::Guaranteed {
                server,
                behind,
                is_shared,
            };
        }
        let backend = resolved.backend;
        match (resolved.cap(), deployment.company_of(domain)) {
            (None, _) => Self::Unknown(NO_GUARANTEE.into()),
            (Some(_), Some(other)) => Self::Unknown(format!(
                "{backend} is a cap and guarantees no CPU time, and domain \"{other}\" runs on the same CPU; give it \
                 another CPU, or choose a back end that guarantees a budget"
            )),
            (Some(server), None) => Self::Capped {
                server,
                with_burst: resolved.cap_with_burst(),
            },
        }
    }
}

/// The assumption of an answer that leaves out what a quota saves up for bursts.
pub(crate) const BURST_LEFT_OUT: &str =
    "the quota saves up nothing for bursts: with its burst no request is answered later";

/// The assumption of an answer that gives a quota its whole burst in every period.
pub(crate) const BURST_ALWAYS_WHOLE: &str = "the quota has saved up its whole burst in every period: in truth no request is answered sooner";

/// The assumption of an answer for a domain that others may come before, if any may.
pub(crate) fn assumption_of_precedence(behind: &[String]) -> Option<String> {
    let names = behind.join(", ");
    (!behind.is_empty()).then(|| {
        format!(
            "the domain gets its budget as soon as it has work for it; {names} may come before it on its CPUs, and \
             responses are longer then"
        )
    })
}

/// Whether a service has one request at a time.
pub(crate) fn goes_one_at_a_time(service: &Service) -> bool {
    service.max_in_flight == Some(1)
}

/// The assumption of an answer for a service whose CPUs share a budget.
pub(crate) const ONE_THREAD: &str = "each request runs in one thread at a time, on one of the CPUs that share the budget, and never so long that it is \
     paused to stay clear of real-time throttling";

/// Why nothing is predicted for a service whose CPUs share a budget.
pub(crate) const SHARED_BUDGET: &str = "several CPUs share the budget of the domain, and how its threads divide the requests among them is not described; \
     write max_in_flight = 1 at the service if it has one request at a time, give the service a budget on one CPU, or measure with `tailbound run`";

/// Why nothing is predicted for a time partition with several windows in each frame. With one window it is, at a random
/// time, a periodic server whose budget comes at once; work that goes on in a later window is late in another way.
fn several_windows(windows: usize) -> String {
    format!(
        "the domain has {windows} windows in each frame, and the analysis of random arrivals knows one; `tailbound simulate` \
         answers for it"
    )
}

/// Why nothing is predicted for a domain without a guaranteed budget.
const NO_GUARANTEE: &str =
    "the back end guarantees the domain no CPU time, so no response time is bounded";
