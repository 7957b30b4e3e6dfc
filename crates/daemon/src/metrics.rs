//! The daemon's state as Prometheus text.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text};
use prometheus_client::registry::Registry;

use tailbound_enforcement::ds_freeze::WindowTotals;
use tailbound_enforcement::{AuditSummary, DroppedDatagrams, LedgerSummary};

use tailbound_control::Presence;
use tailbound_control::protocol::{DaemonStatus, ReservationStatus};
use tailbound_subsystem::metrics::MetricKind;

use crate::service::Counters;

/// A metric of one number per reservation: name, type, help, and where the number comes from.
type PerReservation = (
    &'static str,
    MetricKind,
    &'static str,
    fn(&ReservationStatus) -> Option<f64>,
);

const PER_RESERVATION: [PerReservation; 31] = [
    (
        "tailbound_reservation_in_force",
        MetricKind::Gauge,
        "Whether it holds for anybody: 0 while it waits for members.",
        |one| Some(f64::from(one.presence == Presence::InForce)),
    ),
    (
        "tailbound_reservation_budget_seconds",
        MetricKind::Gauge,
        "CPU time per period on each CPU of the reservation.",
        |one| Some(one.enforced.interface.budget.as_secs_f64()),
    ),
    (
        "tailbound_reservation_period_seconds",
        MetricKind::Gauge,
        "Distance between replenishments.",
        |one| Some(one.enforced.interface.period.as_secs_f64()),
    ),
    (
        "tailbound_reservation_threads",
        MetricKind::Gauge,
        "Threads of the domain that are alive.",
        |one| Some(one.enforced.threads as f64),
    ),
    (
        "tailbound_periods",
        MetricKind::Counter,
        "Periods that have ended.",
        |one| ledger(one).map(|ledger| ledger.periods as f64),
    ),
    (
        "tailbound_depletions",
        MetricKind::Counter,
        "Periods in which the budget ran out and the domain was stopped.",
        |one| ledger(one).map(|ledger| ledger.depletions as f64),
    ),
    (
        "tailbound_consumed_seconds",
        MetricKind::Counter,
        "CPU time used.",
        |one| ledger(one).map(|ledger| ledger.consumed.as_secs_f64()),
    ),
    (
        "tailbound_reserved_seconds",
        MetricKind::Counter,
        "The budgets of the periods that have ended.",
        |one| ledger(one).map(|ledger| ledger.reserved.as_secs_f64()),
    ),
    (
        "tailbound_periods_skipped",
        MetricKind::Counter,
        "Grid points that passed unserved because the host held the manager up.",
        |one| ledger(one).map(|ledger| ledger.skipped as f64),
    ),
    (
        "tailbound_manager_wake_ups",
        MetricKind::Counter,
        "How often a manager woke up for the domain.",
        |one| ledger(one).map(|ledger| ledger.wake_ups as f64),
    ),
    (
        "tailbound_manager_failures",
        MetricKind::Counter,
        "Freezes, thaws and readings that the kernel refused.",
        |one| ledger(one).map(|ledger| ledger.failures as f64),
    ),
    (
        "tailbound_overrun_largest_seconds",
        MetricKind::Gauge,
        "The most by which a budget was overrun since the reservation began.",
        |one| ledger(one).map(|ledger| ledger.largest_overrun.as_secs_f64()),
    ),
    (
        "tailbound_switch_longest_seconds",
        MetricKind::Gauge,
        "The longest that the kernel took to stop the domain or to let it go on.",
        |one| ledger(one).map(|ledger| ledger.longest_switch.as_secs_f64()),
    ),
    (
        "tailbound_forgiven_seconds",
        MetricKind::Counter,
        "Overruns that are not paid back, since the host held the manager up meanwhile.",
        |one| ledger(one).map(|ledger| ledger.forgiven.as_secs_f64()),
    ),
    (
        "tailbound_held_seconds",
        MetricKind::Counter,
        "How long the domain was stopped although it had budget, clear of real-time throttling.",
        |one| ledger(one).map(|ledger| ledger.held.as_secs_f64()),
    ),
    (
        "tailbound_boosts",
        MetricKind::Counter,
        "How often the domain was boosted for a message to its agent.",
        |one| ledger(one).map(|ledger| ledger.boosts as f64),
    ),
    (
        "tailbound_boosted_seconds",
        MetricKind::Counter,
        "CPU time used under boosts, which came from no budget.",
        |one| ledger(one).map(|ledger| ledger.boosted.as_secs_f64()),
    ),
    (
        "tailbound_windows_late_by_host",
        MetricKind::Counter,
        "Begins and ends of windows that came 1 ms or more late since the manager's sleep ended late.",
        |one| windows(one).map(|windows| windows.late_by_host.edges as f64),
    ),
    (
        "tailbound_windows_late_by_partition",
        MetricKind::Counter,
        "Begins and ends of windows that came 1 ms or more late since stopping other partitions took long.",
        |one| windows(one).map(|windows| windows.late_by_partition.edges as f64),
    ),
    (
        "tailbound_windows_late_by_manager",
        MetricKind::Counter,
        "Begins and ends of windows that came 1 ms or more late since the manager was at work otherwise.",
        |one| windows(one).map(|windows| windows.late_by_manager.edges as f64),
    ),
    (
        "tailbound_window_start_worst_seconds",
        MetricKind::Gauge,
        "The longest delay of the begin of a window.",
        |one| windows(one).map(|windows| windows.worst_start.as_secs_f64()),
    ),
    (
        "tailbound_windows_overrun",
        MetricKind::Counter,
        "Windows after which the partition used more CPU time than tolerated, although it was told to stop.",
        |one| windows(one).map(|windows| windows.overruns as f64),
    ),
    (
        "tailbound_window_run_on_longest_seconds",
        MetricKind::Gauge,
        "The longest CPU time used between two windows, after the partition was told to stop.",
        |one| windows(one).map(|windows| windows.longest_run_on.as_secs_f64()),
    ),
    (
        "tailbound_slack_used_seconds",
        MetricKind::Counter,
        "CPU time that the partition used in windows of others, while those left it.",
        |one| windows(one).map(|windows| windows.slack_used.as_secs_f64()),
    ),
    (
        "tailbound_audit_entered",
        MetricKind::Counter,
        "Processes that a runtime put into the container later, and that were taken in.",
        |one| audit(one).map(|audit| audit.entered as f64),
    ),
    (
        "tailbound_audit_adopted",
        MetricKind::Counter,
        "Threads that came later and got the domain's policy.",
        |one| audit(one).map(|audit| audit.adopted as f64),
    ),
    (
        "tailbound_audit_brought_back",
        MetricKind::Counter,
        "Threads that were brought back to the domain's CPUs.",
        |one| audit(one).map(|audit| audit.brought_back as f64),
    ),
    (
        "tailbound_audit_set_back",
        MetricKind::Counter,
        "Threads above the domain's priority, or ready to pass theirs on, that were set back.",
        |one| audit(one).map(|audit| audit.set_back as f64),
    ),
    (
        "tailbound_audit_demoted",
        MetricKind::Counter,
        "Threads that left the domain's groups, or its CPUs again and again, and lost its priority.",
        |one| audit(one).map(|audit| audit.demoted as f64),
    ),
    (
        "tailbound_audit_failures",
        MetricKind::Counter,
        "Corrections of members that were refused.",
        |one| audit(one).map(|audit| audit.failures as f64),
    ),
    (
        "tailbound_audit_interval_seconds",
        MetricKind::Gauge,
        "The time between two looks at the domain's members.",
        |one| audit(one).map(|audit| audit.interval.as_secs_f64()),
    ),
];

fn audit(one: &ReservationStatus) -> Option<&AuditSummary> {
    one.enforced.audit.as_ref()
}

fn ledger(one: &ReservationStatus) -> Option<&LedgerSummary> {
    one.enforced.ledger.as_ref()
}

fn windows(one: &ReservationStatus) -> Option<&WindowTotals> {
    ledger(one)?.windows.as_ref()
}

/// A count since the daemon started: name, help, and which one it is.
type Counted = (&'static str, &'static str, fn(&Counters) -> &AtomicU64);

const COUNTED: [Counted; 5] = [
    ("tailbound_connections", "Connections taken.", |counters| {
        &counters.connections
    }),
    (
        "tailbound_connections_refused",
        "Connections refused because there were too many.",
        |counters| &counters.connections_refused,
    ),
    (
        "tailbound_requests",
        "Requests answered, refusals included.",
        |counters| &counters.requests,
    ),
    ("tailbound_refusals", "Requests refused.", |counters| {
        &counters.refusals
    }),
    (
        "tailbound_bad_frames",
        "Connections closed for a malformed frame or for being too slow.",
        |counters| &counters.bad_frames,
    ),
];

/// A metric of one number for the whole daemon: name, type, help, and where the number comes from.
type OfDaemon = (
    &'static str,
    MetricKind,
    &'static str,
    fn(&DaemonStatus) -> f64,
);

const OF_DAEMON: [OfDaemon; 4] = [
    (
        "tailbound_reservations",
        MetricKind::Gauge,
        "Active reservations.",
        |status| status.reservations.len() as f64,
    ),
    (
        "tailbound_watchdog_up",
        MetricKind::Gauge,
        "Whether a watchdog runs.",
        |status| f64::from(u8::from(status.watchdog.pid.is_some())),
    ),
    (
        "tailbound_watchdog_restarts",
        MetricKind::Counter,
        "Watchdogs started because the one before died.",
        |status| status.watchdog.restarts as f64,
    ),
    (
        "tailbound_connections",
        MetricKind::Gauge,
        "Open connections.",
        |status| status.connections as f64,
    ),
];

/// The name and the help of the count of datagrams that the kernel has dropped.
const DROPPED: (&str, &str) = (
    "tailbound_topic_datagrams_dropped",
    "Datagrams that the kernel has dropped before they reached a subscriber, by topic and reason.",
);

/// `DaemonMetrics` is what the metrics say of the daemon and its reservations at one instant.
#[derive(Debug)]
struct DaemonMetrics {
    status: DaemonStatus,
    /// In the order of [`COUNTED`].
    counts: [u64; COUNTED.len()],
}

impl Collector for DaemonMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, kind, help, number) in OF_DAEMON {
            kind.encode(&mut encoder, (name, help), [([], number(&self.status))])?;
        }
        for ((name, help, _), count) in COUNTED.iter().zip(self.counts) {
            MetricKind::Counter.encode(&mut encoder, (name, help), [([], count as f64)])?;
        }
        for (name, kind, help, number) in PER_RESERVATION {
            let reservations = self.status.reservations.iter();
            let samples = reservations.filter_map(|one| {
                let labels = [("domain", one.enforced.domain.as_str())];
                Some((labels, number(one)?))
            });
            kind.encode(&mut encoder, (name, help), samples)?;
        }
        self.encode_dropped(&mut encoder)
    }
}

impl DaemonMetrics {
    /// What the kernel has dropped, by domain, topic and reason.
    fn encode_dropped(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let reservations = self.status.reservations.iter();
        let topics = reservations.flat_map(|one| {
            let domain = one.enforced.domain.as_str();
            one.dropped.iter().map(move |topic| (domain, topic))
        });
        let samples = topics.flat_map(|(domain, topic)| {
            let counted = DroppedDatagrams::REASONS.into_iter().zip(topic.by_reason());
            counted.map(move |(reason, count)| {
                let labels = [
                    ("domain", domain),
                    ("topic", topic.topic.as_str()),
                    ("reason", reason),
                ];
                (labels, count as f64)
            })
        });
        MetricKind::Counter.encode(encoder, DROPPED, samples)
    }
}

/// The text, in Prometheus' format version 0.0.4: the daemon's own metrics, and those of its subsystems.
pub fn render(
    status: DaemonStatus,
    counters: &Counters,
    subsystems: impl IntoIterator<Item = Box<dyn Collector>>,
) -> String {
    let counts = COUNTED.map(|(_, _, counter)| counter(counters).load(Ordering::Relaxed));
    let mut registry = Registry::default();
    registry.register_collector(Box::new(DaemonMetrics { status, counts }));
    for collector in subsystems {
        registry.register_collector(collector);
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = prometheus_text::encode(&mut text, &registry);
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use tailbound_enforcement::{DomainStatus, Target};
    use tailbound_model::{
        BackendKind, BackendOptions, BudgetScope, Cpu, Priority, ResourceInterface,
    };
    use tailbound_time::Duration;

    use super::*;
    use tailbound_control::protocol::HeldBy;

    fn dropped() -> Vec<DroppedDatagrams> {
        vec![DroppedDatagrams {
            topic: "image".into(),
            beyond_sender: 12,
            ..DroppedDatagrams::default()
        }]
    }

    fn status() -> DaemonStatus {
        DaemonStatus {
            release: "0".into(),
            pid: 1,
            reservations: vec![ReservationStatus {
                enforced: DomainStatus {
                    domain: "we\"ird\\name".into(),
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
                    options: BackendOptions::default(),
                    interference: Default::default(),
                    threads: 3,
                    ledger: Some(LedgerSummary {
                        periods: 12,
                        consumed: Duration::from_millis(48),
                        depletions: 5,
                        largest_overrun: Duration::from_micros(9),
                        windows: Some(WindowTotals {
                            worst_start: Duration::from_millis(3),
                            slack_used: Duration::from_millis(70),
                            ..WindowTotals::default()
                        }),
                        ..LedgerSummary::default()
                    }),
                    audit: Some(AuditSummary {
                        brought_back: 3,
                        ..AuditSummary::default()
                    }),
                },
                held_by: HeldBy::Nobody,
                origin: None,
                presence: Default::default(),
                dropped: dropped(),
            }],
            connections: 2,
            watchdog: tailbound_control::WatchdogStatus {
                pid: Some(9),
                restarts: 1,
                ..Default::default()
            },
            recovered: Default::default(),
            ended: Vec::new(),
            subsystems: Default::default(),
        }
    }

    #[test]
    fn every_sample_has_a_name_with_help_and_type_and_a_number() {
        let text = render(status(), &Counters::default(), []);
        let mut samples = 0;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, number) = line.rsplit_once(' ').unwrap();
            number.parse::<f64>().unwrap();
            let bare = name.split('{').next().unwrap();
            assert!(text.contains(&format!("# HELP {bare} ")), "{bare}");
            assert!(text.contains(&format!("# TYPE {bare} ")), "{bare}");
            samples += 1;
        }
        let of_topic = DroppedDatagrams::REASONS.len();
        let expected = OF_DAEMON.len() + COUNTED.len() + PER_RESERVATION.len() + of_topic;
        assert_eq!(samples, expected);
        assert_eq!(expected, 4 + 5 + 31 + 3);
    }

    #[test]
    fn values_are_in_base_units_and_labels_are_escaped() {
        let text = render(status(), &Counters::default(), []);
        assert!(
            text.contains(
                "tailbound_reservation_budget_seconds{domain=\"we\\\"ird\\\\name\"} 0.004\n"
            ),
            "{text}"
        );
        assert!(text.contains("tailbound_depletions_total{domain=\"we\\\"ird\\\\name\"} 5\n"));
        assert!(
            text.contains("tailbound_audit_brought_back_total{domain=\"we\\\"ird\\\\name\"} 3\n")
        );
        assert!(text.contains("tailbound_watchdog_restarts_total 1\n"));
        let worst = "tailbound_window_start_worst_seconds{domain=\"we\\\"ird\\\\name\"} 0.003\n";
        assert!(text.contains(worst), "{text}");
        let slack = "tailbound_slack_used_seconds_total{domain=\"we\\\"ird\\\\name\"} 0.07\n";
        assert!(text.contains(slack), "{text}");
        let dropped = "topic=\"image\",reason=\"beyond-sender\"} 12\n";
        assert!(text.contains(dropped), "{text}");
    }
}
