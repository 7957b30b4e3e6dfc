//! What is shown, as data.

use serde::{Serialize, Serializer};
use tailbound_control::{DaemonStatus, ReservationStatus};
use tailbound_time::Duration;

/// `StatusSample` is the status of the daemon at one look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusSample {
    /// What the daemon says.
    pub status: DaemonStatus,
    /// What its subsystems say, in lines.
    pub sections: Vec<String>,
}

/// `TopView` is what is shown at one look. Shares and counts of the last interval are differences to the look
/// before it; at the first look they count from the begin of each reservation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TopView {
    /// A row for each reservation, in the order in which they were applied.
    pub reservations: Vec<ReservationRow>,
    /// What the reservations meet of the host.
    pub noise: ManagerNoise,
    /// What subsystems say, in lines.
    pub subsystems: Vec<String>,
    /// Whether a process guards the daemon.
    pub guarded: bool,
}

/// `ReservationRow` is one reservation. What nobody counts for its back end is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReservationRow {
    /// The domain.
    pub domain: String,
    /// What enforces it.
    pub backend: String,
    /// The CPUs.
    pub cpus: String,
    /// CPU time for each period.
    #[serde(serialize_with = "nanoseconds")]
    pub budget_ns: Duration,
    /// The distance of replenishments.
    #[serde(serialize_with = "nanoseconds")]
    pub period_ns: Duration,
    /// The share of the budgets that was used: 1 is all.
    pub use_share: Option<f64>,
    /// Periods of the interval in which the budget ran out.
    pub depletions: Option<u64>,
    /// The same since the reservation began.
    pub depletions_total: Option<u64>,
    /// By how much 1 budget of 100 is overrun, at least.
    #[serde(serialize_with = "some_nanoseconds")]
    pub overrun_p99_ns: Option<Duration>,
    /// The most by which a budget was overrun.
    #[serde(serialize_with = "some_nanoseconds")]
    pub overrun_largest_ns: Option<Duration>,
    /// Whether it holds for anybody.
    pub state: String,
}

/// `ManagerNoise` is what the host did to the managers of budgets since the reservations began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ManagerNoise {
    /// How late 1 wake-up of 100 is at least, for the manager to which that happens most.
    #[serde(serialize_with = "some_nanoseconds")]
    pub lateness_p99_ns: Option<Duration>,
    /// Grid points that passed unserved because the host held a manager up.
    pub skipped: u64,
    /// Periods in which the host stood still.
    pub stalled: u64,
    /// How long domains were stopped although they had budget, clear of real-time throttling.
    #[serde(serialize_with = "nanoseconds")]
    pub held_ns: Duration,
}

/// Writes a length as an integer, as all JSON of the command line has it.
fn nanoseconds<S: Serializer>(length: &Duration, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_u64(length.as_nanos())
}

fn some_nanoseconds<S: Serializer>(length: &Option<Duration>, out: S) -> Result<S::Ok, S::Error> {
    length.map(Duration::as_nanos).serialize(out)
}

impl TopView {
    /// What a sample shows beside the one before it.
    pub fn of(before: Option<&StatusSample>, now: &StatusSample) -> Self {
        let reservations = now.status.reservations.iter();
        Self {
            reservations: reservations
                .map(|one| ReservationRow::of(before.and_then(|sample| same(sample, one)), one))
                .collect(),
            noise: ManagerNoise::of(&now.status),
            subsystems: now.sections.clone(),
            guarded: now.status.watchdog.pid.is_some(),
        }
    }
}

/// The reservation at an earlier look, unless another one of its name took its place meanwhile.
fn same<'a>(before: &'a StatusSample, now: &ReservationStatus) -> Option<&'a ReservationStatus> {
    let is_it = |one: &&ReservationStatus| {
        one.enforced.domain == now.enforced.domain && one.origin == now.origin
    };
    before.status.reservations.iter().find(is_it)
}

impl ReservationRow {
    fn of(before: Option<&ReservationStatus>, now: &ReservationStatus) -> Self {
        let enforced = &now.enforced;
        let ledger = enforced.ledger.as_ref();
        let earlier = before.and_then(|one| one.enforced.ledger.as_ref());
        let cpus: Vec<String> = enforced
            .interface
            .cpus
            .iter()
            .map(ToString::to_string)
            .collect();
        let since = |earlier: Option<Duration>, now: Duration| {
            now.saturating_sub(earlier.unwrap_or(Duration::ZERO))
        };
        let use_share = ledger.and_then(|ledger| {
            let reserved = since(earlier.map(|one| one.reserved), ledger.reserved);
            let used = since(earlier.map(|one| one.consumed), ledger.consumed);
            (reserved > Duration::ZERO).then(|| used.as_nanos() as f64 / reserved.as_nanos() as f64)
        });
        let depletions_total = ledger.map(|ledger| ledger.depletions);
        let depletions_before = earlier.map_or(0, |ledger| ledger.depletions);
        Self {
            domain: enforced.domain.clone(),
            backend: enforced.backend.to_string(),
            cpus: cpus.join(","),
            budget_ns: enforced.interface.budget,
            period_ns: enforced.interface.period,
            use_share,
            depletions: depletions_total.map(|total| total.saturating_sub(depletions_before)),
            depletions_total,
            overrun_p99_ns: ledger.and_then(|ledger| ledger.overrun_p99),
            overrun_largest_ns: ledger.map(|ledger| ledger.largest_overrun),
            state: now.presence.in_words(),
        }
    }
}

impl ManagerNoise {
    fn of(status: &DaemonStatus) -> Self {
        let reservations = status.reservations.iter();
        let ledgers = reservations.filter_map(|one| one.enforced.ledger.as_ref());
        ledgers.fold(Self::default(), |noise, ledger| Self {
            lateness_p99_ns: noise.lateness_p99_ns.max(ledger.lateness_p99),
            skipped: noise.skipped + ledger.skipped,
            stalled: noise.stalled + ledger.stalled_periods,
            held_ns: noise.held_ns.saturating_add(ledger.held),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use tailbound_control::{HeldBy, WatchdogStatus};
    use tailbound_enforcement::{DomainStatus, LedgerSummary, Target};
    use tailbound_model::{BackendKind, BudgetScope, Cpu, Priority, ResourceInterface};

    use super::*;

    /// A host with one reservation of 4 ms every 10 ms that has had so many periods, and used so much.
    pub(crate) fn sample(periods: u64, used_ms: u64, depletions: u64) -> StatusSample {
        let ledger = LedgerSummary {
            periods,
            depletions,
            skipped: 1,
            consumed: Duration::from_millis(used_ms),
            reserved: Duration::from_millis(4 * periods),
            largest_overrun: Duration::from_micros(80),
            overrun_p99: Some(Duration::from_micros(50)),
            lateness_p99: Some(Duration::from_micros(30)),
            ..LedgerSummary::default()
        };
        let worker = ReservationStatus {
            enforced: DomainStatus {
                domain: "worker".into(),
                target: Target::Processes(vec![7]),
                interface: ResourceInterface {
                    budget: Duration::from_millis(4),
                    period: Duration::from_millis(10),
                    priority: Priority(50),
                    cpus: [Cpu(1)].into(),
                    budget_scope: BudgetScope::EachCpu,
                    windows: Vec::new(),
                    slack: Vec::new(),
                },
                backend: BackendKind::DsFreeze,
                options: Default::default(),
                interference: Default::default(),
                threads: 3,
                ledger: Some(ledger),
                audit: None,
            },
            held_by: HeldBy::Nobody,
            origin: None,
            presence: Default::default(),
            dropped: Vec::new(),
        };
        StatusSample {
            status: DaemonStatus {
                release: "0".into(),
                pid: 1,
                reservations: vec![worker],
                connections: 1,
                watchdog: WatchdogStatus {
                    pid: Some(2),
                    ..WatchdogStatus::default()
                },
                recovered: Default::default(),
                ended: Vec::new(),
                subsystems: Default::default(),
            },
            sections: vec!["mode run of rest, run".into()],
        }
    }

    #[test]
    fn use_is_that_of_the_last_interval() {
        let (before, now) = (sample(100, 100, 5), sample(200, 400, 45));
        let first = TopView::of(None, &before);
        assert_eq!(first.reservations[0].use_share, Some(0.25));
        assert_eq!(first.reservations[0].depletions, Some(5));
        let second = TopView::of(Some(&before), &now);
        assert_eq!(second.reservations[0].use_share, Some(0.75));
        assert_eq!(second.reservations[0].depletions, Some(40));
        assert_eq!(second.reservations[0].depletions_total, Some(45));
        assert_eq!(
            second.noise.lateness_p99_ns,
            Some(Duration::from_micros(30))
        );
        assert_eq!(second.noise.skipped, 1);
    }

    #[test]
    fn an_interval_without_a_period_has_no_share() {
        let before = sample(100, 100, 5);
        let view = TopView::of(Some(&before), &before);
        assert_eq!(view.reservations[0].use_share, None);
        assert_eq!(view.reservations[0].depletions, Some(0));
    }

    #[test]
    fn another_reservation_of_the_same_name_counts_from_its_own_begin() {
        let mut before = sample(100, 100, 5);
        let origin = tailbound_control::Origin {
            number: 1,
            peer: tailbound_control::Peer::daemon(),
        };
        before.status.reservations[0].origin = Some(origin);
        let view = TopView::of(Some(&before), &sample(10, 30, 7));
        assert_eq!(view.reservations[0].use_share, Some(0.75));
        assert_eq!(view.reservations[0].depletions, Some(7));
    }

    #[test]
    fn what_nobody_counts_is_none() {
        let mut one = sample(1, 1, 1);
        one.status.reservations[0].enforced.ledger = None;
        let view = TopView::of(None, &one);
        let row = &view.reservations[0];
        assert_eq!((row.use_share, row.depletions), (None, None));
        assert_eq!(view.noise, ManagerNoise::default());
    }
}
