//! What a host lets reservations have of a CPU.

use tailbound_model::{BackendKind, Cpu, Host, Precedence};
use tailbound_time::Fraction;

use super::RealTimeLimit;
use crate::interference::{HostInterference, InterferenceLoad};

/// What SCHED_FIFO threads may use of a CPU where throttling sets no bound: as the kernel's default, so
/// that the host stays alive.
const SHARE_WITHOUT_THROTTLING: (u64, u64) = (95, 100);

/// What the kernel's fair server keeps of a CPU from SCHED_DEADLINE: 50 ms a second by default.
const FAIR_SERVER_SHARE: (u64, u64) = (5, 100);

/// The kernel's throttling by default: 950 ms a second.
const USUAL_THROTTLING_US: (u64, u64) = (950_000, 1_000_000);

/// What a host lets reservations have of each of its CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostLimits {
    /// What real-time threads may use without being put aside by the kernel.
    pub real_time: RealTimeLimit,
    /// The share of a CPU that real-time threads may use by the kernel's throttling, as run time and period in
    /// microseconds; `None` if it is off.
    pub throttling_us: Option<(u64, u64)>,
    /// Whether the kernel has a fair server, which runs as SCHED_DEADLINE.
    pub has_fair_server: bool,
    /// The share of each CPU that groups behind servers of SCHED_DEADLINE may have together, as run time and period in
    /// microseconds; `None` if SCHED_DEADLINE's own bound is theirs.
    pub groups_us: Option<(u64, u64)>,
    /// Described interference, which takes a CPU before every reservation on it.
    pub interference: HostInterference,
}

impl Default for HostLimits {
    /// The kernel's defaults.
    fn default() -> Self {
        Self {
            real_time: RealTimeLimit::default(),
            throttling_us: Some(USUAL_THROTTLING_US),
            has_fair_server: true,
            groups_us: None,
            interference: HostInterference::default(),
        }
    }
}

impl HostLimits {
    /// The same beside the described interference of a host, as far as it has a bound; reading the description warns of
    /// the rest.
    #[must_use]
    pub fn with_interference(mut self, host: &Host) -> Self {
        self.interference
            .include(&HostInterference::described(host));
        self
    }

    /// The interference on a CPU.
    pub fn interference_on(&self, cpu: Cpu) -> InterferenceLoad {
        self.interference.on(cpu)
    }

    /// The share of a CPU that interference leaves, and the reason in words, if it is less than a bound.
    pub(super) fn left_by_interference(
        &self,
        cpu: Cpu,
        bound: Fraction,
    ) -> Option<(Fraction, String)> {
        let load = self.interference.on(cpu);
        let left = load.left();
        (left < bound).then(|| {
            let names = load.names().join(", ");
            (left, format!("interference takes the rest: {names}"))
        })
    }

    /// What reservations of one back end may use of a CPU together: `rt-group` runs as SCHED_FIFO, which
    /// throttling bounds; `ds-freeze` as well, and keeps 2 % clear of it; SCHED_DEADLINE shares it with the
    /// fair server, and what books every CPU has a bound of its own in it; caps may fill a CPU.
    pub fn bound(&self, kind: BackendKind) -> Fraction {
        let of_all = self.bound_of_precedence(kind);
        match self.bound_of_groups(kind) {
            Some((run_time, period)) => of_all.min(Fraction::new(run_time, period)),
            None => of_all,
        }
    }

    /// The bound of groups behind servers of SCHED_DEADLINE, if the back end makes those.
    fn bound_of_groups(&self, kind: BackendKind) -> Option<(u64, u64)> {
        let bound = self.groups_us.filter(|(_, period)| *period > 0);
        let has_servers = kind.precedence() == Precedence::Deadline;
        bound.filter(|_| has_servers && kind.traits().books_every_cpu)
    }

    fn bound_of_precedence(&self, kind: BackendKind) -> Fraction {
        let whole = Fraction::new(1, 1);
        let (run_time, period) = self.throttling_us.unwrap_or(SHARE_WITHOUT_THROTTLING);
        let share = Fraction::new(run_time, period).min(whole);
        let (kept, of) = FAIR_SERVER_SHARE;
        match kind.precedence() {
            Precedence::FairShare | Precedence::Hypervisor => whole,
            Precedence::Deadline if self.has_fair_server => {
                share.saturating_sub(Fraction::new(kept, of))
            }
            Precedence::Priority | Precedence::Window if kind.has_manager() => {
                Fraction::new(self.real_time.rate_per_mille(), 1_000)
            }
            Precedence::Deadline | Precedence::Priority | Precedence::Window => share,
        }
    }

    /// Why they may use no more.
    pub fn reason(&self, kind: BackendKind) -> String {
        if let Some((run_time, period)) = self.bound_of_groups(kind)
            && Fraction::new(run_time, period) <= self.bound_of_precedence(kind)
        {
            return format!("groups get {run_time} of {period} microseconds of every CPU together");
        }
        let reason = match self.throttling_us {
            Some((run_time, period)) => {
                format!("RT throttling: {run_time} of {period} microseconds")
            }
            None => "RT throttling is off; 5 % are left to the rest of the host".to_owned(),
        };
        match kind.precedence() {
            Precedence::FairShare | Precedence::Hypervisor => "a whole CPU".into(),
            Precedence::Deadline if self.has_fair_server => {
                format!("{reason}, less 5 % for the fair server")
            }
            Precedence::Priority | Precedence::Window if kind.has_manager() => {
                format!("{reason}; the manager keeps 2 % clear of it")
            }
            Precedence::Priority if kind.traits().books_every_cpu => {
                format!("{reason}, for the groups of all CPUs together")
            }
            Precedence::Deadline | Precedence::Priority | Precedence::Window => reason,
        }
    }
}
