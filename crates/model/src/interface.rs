//! Resource interfaces: how much of which CPUs a domain may use, how often, and before whom.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_time::{Duration, nanoseconds};

use crate::host::Window;
use crate::schema::is_default;

/// A logical CPU by the kernel's number.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Cpu(#[schemars(range(max = 8191))] pub u32);

impl fmt::Display for Cpu {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

/// A set of logical CPUs.
pub type CpuSet = BTreeSet<Cpu>;

/// A fixed priority within a host: the higher number runs first; 1 to 90, so that the managers of
/// the reservations (98) stay above every domain.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Priority(#[schemars(range(min = 1, max = 90))] pub u8);

impl Priority {
    /// The lowest priority of a domain.
    pub const LOWEST: Self = Self(1);
    /// The highest priority of a domain.
    pub const HIGHEST: Self = Self(90);
}

/// A share of a CPU, as the exact ratio budget / period.
#[derive(Clone, Copy, Debug)]
pub struct Bandwidth {
    budget: Duration,
    period: Duration,
}

impl Bandwidth {
    /// The share `budget / period`; `None` if the period is zero.
    pub fn new(budget: Duration, period: Duration) -> Option<Self> {
        (!period.is_zero()).then_some(Self { budget, period })
    }

    /// The share as a float, for printing and statistics; verdicts compare exactly.
    pub fn as_f64(self) -> f64 {
        self.budget.as_nanos() as f64 / self.period.as_nanos() as f64
    }

    /// Numerator and denominator, in nanoseconds.
    pub fn as_ratio(self) -> (u64, u64) {
        (self.budget.as_nanos(), self.period.as_nanos())
    }
}

impl PartialEq for Bandwidth {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Bandwidth {}

impl PartialOrd for Bandwidth {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bandwidth {
    fn cmp(&self, other: &Self) -> Ordering {
        let product =
            |a: Duration, b: Duration| u128::from(a.as_nanos()) * u128::from(b.as_nanos());
        product(self.budget, other.period).cmp(&product(other.budget, self.period))
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&format!("{:.1}%", self.as_f64() * 100.0))
    }
}

/// The CPUs that one budget is for, where a reservation has several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BudgetScope {
    /// Each CPU has a budget of its own.
    #[default]
    EachCpu,
    /// All CPUs share one budget, which any number of them may spend at the same time: the multiprocessor periodic
    /// resource (Easwaran, Shin and Lee 2009).
    AllCpus,
}

impl BudgetScope {
    /// The name in descriptions and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EachCpu => "each-cpu",
            Self::AllCpus => "all-cpus",
        }
    }
}

impl fmt::Display for BudgetScope {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// What a domain gets: `budget` of CPU time every `period`, at a fixed `priority`, on `cpus`.
///
/// The thesis's resource interface (B, P, R) (section 3.1.2), with the CPUs named.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResourceInterface {
    /// CPU time per period; above zero, at most [`ResourceInterface::longest_budget`].
    pub budget: Duration,
    /// The distance between replenishments.
    pub period: Duration,
    /// The fixed priority; the higher number runs first.
    pub priority: Priority,
    /// The CPUs it holds on; never empty.
    pub cpus: CpuSet,
    /// Whether each of the CPUs has this budget, or all of them together.
    #[serde(default, skip_serializing_if = "is_default")]
    pub budget_scope: BudgetScope,
    /// The windows of each period in which the budget is given, and nowhere else: those of a time partition, whose
    /// period is the major frame and whose budget is the sum of the windows. Without any, the budget is for any time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
    /// The windows of other time partitions in which this one may run while they leave CPU time. No part of the budget comes
    /// from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slack: Vec<Window>,
}

/// The form of a resource interface in machine output, in integers of nanoseconds; the description has units.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ResourceInterface")]
pub struct InterfaceInNanoseconds {
    #[serde(rename = "budget_ns", with = "nanoseconds")]
    budget: Duration,
    #[serde(rename = "period_ns", with = "nanoseconds")]
    period: Duration,
    priority: Priority,
    cpus: CpuSet,
    #[serde(default, skip_serializing_if = "is_default")]
    budget_scope: BudgetScope,
    #[serde(
        rename = "windows_ns",
        default,
        skip_serializing_if = "Vec::is_empty",
        with = "windows_in_nanoseconds"
    )]
    windows: Vec<Window>,
    #[serde(
        rename = "slack_ns",
        default,
        skip_serializing_if = "Vec::is_empty",
        with = "windows_in_nanoseconds"
    )]
    slack: Vec<Window>,
}

/// Windows in machine output: pairs of offset and length in integers of nanoseconds.
mod windows_in_nanoseconds {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tailbound_time::Duration;

    use crate::Window;

    pub(super) fn serialize<S: Serializer>(windows: &[Window], out: S) -> Result<S::Ok, S::Error> {
        let pairs = windows.iter();
        let pairs = pairs.map(|window| [window.offset.as_nanos(), window.length.as_nanos()]);
        pairs.collect::<Vec<_>>().serialize(out)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(input: D) -> Result<Vec<Window>, D::Error> {
        let pairs = Vec::<[u64; 2]>::deserialize(input)?.into_iter();
        let windows = pairs.map(|[offset, length]| Window {
            offset: Duration::from_nanos(offset),
            length: Duration::from_nanos(length),
        });
        Ok(windows.collect())
    }
}

impl ResourceInterface {
    /// That of a back end without budgets, to which budget and period say nothing: a whole CPU.
    pub fn without_budget(priority: Priority, cpus: CpuSet) -> Self {
        let whole = Duration::from_secs(1);
        Self {
            budget: whole,
            period: whole,
            priority,
            cpus,
            budget_scope: BudgetScope::EachCpu,
            windows: Vec::new(),
            slack: Vec::new(),
        }
    }

    /// Whether several CPUs have one budget together.
    pub fn shares_budget(&self) -> bool {
        self.budget_scope == BudgetScope::AllCpus && self.cpus.len() > 1
    }

    /// The longest budget that the period can hold: as often the period as CPUs may spend the budget at the same time.
    pub fn longest_budget(&self) -> Duration {
        longest_budget(self.period, &self.cpus, self.budget_scope)
    }

    /// The most of the budget that one of the CPUs may give in a period.
    pub fn budget_on_one_cpu(&self) -> Duration {
        self.budget.min(self.period)
    }

    /// The exact share of each of its CPUs, at most.
    ///
    /// # Panics
    /// If the period is zero, which validation of a description rules out.
    pub fn bandwidth(&self) -> Bandwidth {
        match Bandwidth::new(self.budget_on_one_cpu(), self.period) {
            Some(bandwidth) => bandwidth,
            None => panic!("a resource interface has a period above zero"),
        }
    }
}

/// The longest budget of a reservation on `cpus` whose budget has this scope.
pub(crate) fn longest_budget(period: Duration, cpus: &CpuSet, scope: BudgetScope) -> Duration {
    let at_once = match scope {
        BudgetScope::EachCpu => 1,
        BudgetScope::AllCpus => cpus.len().max(1) as u64,
    };
    period.checked_mul(at_once).unwrap_or(Duration::MAX)
}

/// Hundredths of a whole CPU, signed: what is added to or taken from a bandwidth.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct PercentagePoints(#[schemars(range(min = -100, max = 100))] pub f64);

/// A share of a whole, in percent: from 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Percent(#[schemars(range(min = 0, max = 100))] pub f64);

impl fmt::Display for Percent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&format!("{}%", self.0))
    }
}

/// A percentile: above 0 and below 100.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Percentile(
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 100))] pub f64,
);

impl Percentile {
    /// The probability, between 0 and 1.
    pub fn probability(self) -> f64 {
        self.0 / 100.0
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&format!("p{}", self.0))
    }
}

/// The rule by which a reservation spends and regains its budget: what analysis and simulation
/// need to know of a back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum ReservationServer {
    /// Keeps its budget while idle; full again at every grid point (thesis, section 4.1).
    Deferrable {
        /// CPU time per period.
        budget: Duration,
        /// The distance between replenishments.
        period: Duration,
    },
    /// The budget passes at the start of the period whether used or not.
    Periodic {
        /// CPU time per period.
        budget: Duration,
        /// The distance between replenishments.
        period: Duration,
    },
    /// Gets its budget at the start of a period if there is work, and loses it as soon as there is
    /// none.
    Polling {
        /// CPU time per period.
        budget: Duration,
        /// The distance between replenishments.
        period: Duration,
    },
    /// SCHED_DEADLINE's hard constant-bandwidth server, with its wake-up rule.
    ConstantBandwidth {
        /// CPU time per period.
        budget: Duration,
        /// The distance between replenishments.
        period: Duration,
    },
    /// A rule for which only simulation answers.
    Simulated {
        /// The rule.
        rule: ServerKind,
        /// CPU time per period.
        budget: Duration,
        /// The period of the rule.
        period: Duration,
    },
    /// A CPU of its own.
    Dedicated,
}

impl ReservationServer {
    /// The rule; `None` for a CPU of its own.
    pub fn kind(self) -> Option<ServerKind> {
        match self {
            Self::Deferrable { .. } => Some(ServerKind::Deferrable),
            Self::Periodic { .. } => Some(ServerKind::Periodic),
            Self::Polling { .. } => Some(ServerKind::Polling),
            Self::ConstantBandwidth { .. } => Some(ServerKind::ConstantBandwidth),
            Self::Simulated { rule, .. } => Some(rule),
            Self::Dedicated => None,
        }
    }

    /// The server as work on it finds it: a budget of the whole period is a CPU of its own, under every rule that gives
    /// the budget whenever there is work. On a polling server, work that comes to an idle server waits for the next
    /// period all the same.
    #[must_use]
    pub fn in_effect(self) -> Self {
        match self {
            Self::Deferrable { budget, period }
            | Self::Periodic { budget, period }
            | Self::ConstantBandwidth { budget, period }
                if budget == period && !budget.is_zero() =>
            {
                Self::Dedicated
            }
            limited => limited,
        }
    }

    /// The same rule and period with another budget; a CPU of its own has none.
    #[must_use]
    pub fn with_budget(self, budget: Duration) -> Self {
        match self {
            Self::Deferrable { period, .. } => Self::Deferrable { budget, period },
            Self::Periodic { period, .. } => Self::Periodic { budget, period },
            Self::Polling { period, .. } => Self::Polling { budget, period },
            Self::ConstantBandwidth { period, .. } => Self::ConstantBandwidth { budget, period },
            Self::Simulated { rule, period, .. } => Self::Simulated {
                rule,
                budget,
                period,
            },
            Self::Dedicated => Self::Dedicated,
        }
    }

    /// Budget and period; `None` for a CPU of its own.
    pub fn budget_and_period(self) -> Option<(Duration, Duration)> {
        match self {
            Self::Deferrable { budget, period }
            | Self::Periodic { budget, period }
            | Self::Polling { budget, period }
            | Self::ConstantBandwidth { budget, period }
            | Self::Simulated { budget, period, .. } => Some((budget, period)),
            Self::Dedicated => None,
        }
    }
}

/// What becomes of a reservation whose domain has no members any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhenEmpty {
    /// It is released within seconds, so that its CPU time is there for others.
    Release,
    /// It stays booked, and is put in force again for members that come later, under the same cgroup.
    Keep,
}

/// The rules of reservation servers that have a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ServerKind {
    /// Keeps its budget while idle; full again at every grid point.
    Deferrable,
    /// The budget passes at the start of the period whether used or not.
    Periodic,
    /// Gets its budget at the start of a period if there is work, and loses it as soon as there is
    /// none. No back end enforces it; analysis and simulation know it.
    Polling,
    /// SCHED_DEADLINE's hard constant-bandwidth server, with its wake-up rule.
    ConstantBandwidth,
    /// What was used from an activation on comes back one period after the activation, with the
    /// flaws of the POSIX rule corrected. No back end enforces it; only simulation knows it.
    Sporadic,
    /// The sporadic server to the letter of POSIX (SCHED_SPORADIC). No back end enforces it; only
    /// simulation knows it.
    PosixSporadic,
    /// The constant-bandwidth server that gets a new budget and a later deadline at once. No back
    /// end enforces it; only simulation knows it.
    SoftConstantBandwidth,
    /// Keeps its budget while idle, and at a grid point what is left of it, up to one more budget:
    /// Linux's CFS bandwidth control with a burst as long as the quota. No back end enforces it under
    /// this name; only simulation knows it.
    Burstable,
}

impl ServerKind {
    /// A server of this kind.
    pub fn with(self, budget: Duration, period: Duration) -> ReservationServer {
        match self {
            Self::Deferrable => ReservationServer::Deferrable { budget, period },
            Self::Periodic => ReservationServer::Periodic { budget, period },
            Self::Polling => ReservationServer::Polling { budget, period },
            Self::ConstantBandwidth => ReservationServer::ConstantBandwidth { budget, period },
            rule => ReservationServer::Simulated {
                rule,
                budget,
                period,
            },
        }
    }

    /// The row of this rule in the table of the questions that are answered for it.
    pub const fn answers(self) -> ServerAnswers {
        use ServerAnswers as Row;
        //                                                    analysed, limit, deadline, left
        match self {
            Self::Deferrable => Row::new("deferrable", [true, true, true, true]),
            Self::Periodic => Row::new("periodic", [true, true, true, false]),
            Self::Polling => Row::new("polling", [true, true, true, false]),
            Self::ConstantBandwidth => Row::new("constant-bandwidth", [true, true, true, true]),
            Self::Sporadic => Row::new("sporadic", [false, true, false, false]),
            Self::PosixSporadic => Row::new("posix-sporadic", [false, false, false, false]),
            Self::SoftConstantBandwidth => {
                Row::new("soft-constant-bandwidth", [false, false, true, true])
            }
            Self::Burstable => Row::new("burstable", [false, false, true, false]),
        }
    }
}

impl fmt::Display for ServerKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.answers().name)
    }
}

/// The questions that are answered for a rule of reservations, beyond its simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerAnswers {
    /// The name of the rule in descriptions and messages.
    pub name: &'static str,
    /// Whether response times and least budgets are calculated; otherwise they are simulated only.
    pub analysed: bool,
    /// Whether no period gets more than its budget, so that those below the reservation have a bound.
    pub is_limit: bool,
    /// Whether it has a deadline for an order of reservations by deadlines.
    pub has_deadline: bool,
    /// Whether traces show what is left of its budget; otherwise what was used, since the budget also
    /// changes in ways that no call tells.
    pub shows_left: bool,
}

impl ServerAnswers {
    const fn new(name: &'static str, answers: [bool; 4]) -> Self {
        let [analysed, is_limit, has_deadline, shows_left] = answers;
        Self {
            name,
            analysed,
            is_limit,
            has_deadline,
            shows_left,
        }
    }
}
