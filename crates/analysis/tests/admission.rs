//! Admission of reservations, against simulations of the reservation servers.

use proptest::prelude::*;
use tailbound_analysis::admission::fixed_priority::{FixedPriorityServer, budget_response_ns};
use tailbound_analysis::admission::{
    AdmissionRefusal, HostLimits, Reserved, admit, pool, refusals_on,
};
use tailbound_analysis::interference::InterferenceLoad;
use tailbound_model::{
    BackendKind, BudgetScope, Cpu, Priority, ResourceInterface, ServerKind, Window,
};
use tailbound_time::{Duration, Fraction};

const CPU: Cpu = Cpu(0);

fn ms(value: u64) -> Duration {
    Duration::from_millis(value)
}

/// A reservation with what a description or a host would know of it.
#[derive(Clone, Debug)]
struct Owned {
    domain: String,
    backend: BackendKind,
    interface: ResourceInterface,
    server: Option<ServerKind>,
    on_common_grid: bool,
}

impl Owned {
    fn new(domain: &str, backend: BackendKind, budget_ms: u64, period_ms: u64, rank: u8) -> Self {
        Self {
            domain: domain.into(),
            backend,
            interface: ResourceInterface {
                budget: ms(budget_ms),
                period: ms(period_ms),
                priority: Priority(rank),
                cpus: [CPU].into(),
                budget_scope: BudgetScope::EachCpu,
                windows: Vec::new(),
                slack: Vec::new(),
            },
            server: backend.server_kind(),
            on_common_grid: backend.traits().fixed_grid,
        }
    }

    fn reserved(&self) -> Reserved<'_> {
        Reserved {
            domain: &self.domain,
            place: None,
            backend: self.backend,
            interface: &self.interface,
            server: self.server,
            on_common_grid: self.on_common_grid,
        }
    }

    fn period_ms(&self) -> u64 {
        self.interface.period.as_nanos() / ms(1).as_nanos()
    }

    fn budget_ms(&self) -> u64 {
        self.interface.budget.as_nanos() / ms(1).as_nanos()
    }
}

fn judged(all: &[Owned]) -> Vec<AdmissionRefusal> {
    let reserved: Vec<Reserved<'_>> = all.iter().map(Owned::reserved).collect();
    refusals_on(CPU, &[], &reserved, &HostLimits::default())
}

#[test]
fn reservations_on_one_grid_fit_where_scattered_ones_do_not() {
    for (high, low) in [((2, 5), (5, 10)), ((4, 10), (10, 20))] {
        let mut pair = [
            Owned::new("high", BackendKind::DsFreeze, high.0, high.1, 60),
            Owned::new("low", BackendKind::DsFreeze, low.0, low.1, 50),
        ];
        assert_eq!(judged(&pair), [], "{high:?} {low:?}");
        pair[0].on_common_grid = false;
        let refusals = judged(&pair);
        assert!(
            matches!(&refusals[..], [AdmissionRefusal::BudgetTooLate { domain, above, .. }]
                if domain == "low" && above == "high"),
            "{refusals:?}"
        );
        pair[0].server = Some(ServerKind::Periodic);
        assert_eq!(judged(&pair), [], "a periodic server has no jitter");
    }
}

#[test]
fn the_refusal_names_the_budget_that_would_fit() {
    let pair = [
        Owned::new("a", BackendKind::DsFreeze, 5, 10, 60),
        Owned::new("b", BackendKind::DsFreeze, 5, 10, 50),
    ];
    let refusals = judged(&pair);
    let AdmissionRefusal::TooMuch { domain, fits, .. } = &refusals[0] else {
        panic!("{refusals:?}");
    };
    assert_eq!(
        (domain.as_str(), *fits),
        ("b", Duration::from_micros(4_300))
    );
    let mut fitting = pair;
    fitting[1].interface.budget = *fits;
    assert_eq!(judged(&fitting), []);
    fitting[1].interface.budget = Duration::from_nanos(fits.as_nanos() + 1);
    assert_eq!(judged(&fitting).len(), 1);
}

#[test]
fn a_name_is_given_once_and_caps_take_nothing_from_guarantees() {
    let held = Owned::new("a", BackendKind::CfsQuota, 9, 10, 50);
    let limits = HostLimits::default();
    let twice = admit(&[held.reserved()], &[held.reserved()], &limits);
    assert_eq!(twice, Err(AdmissionRefusal::DuplicateDomain("a".into())));
    let guaranteed = Owned::new("b", BackendKind::RtGroup, 9, 10, 50);
    assert_eq!(
        admit(&[held.reserved()], &[guaranteed.reserved()], &limits),
        Ok(())
    );
    let cap = Owned::new("c", BackendKind::CfsQuota, 2, 10, 50);
    let refused = admit(&[guaranteed.reserved()], &[cap.reserved()], &limits);
    assert!(matches!(refused, Err(AdmissionRefusal::TooMuch { .. })));
}

#[test]
fn slack_meets_windows_of_partitions_above_it_alone() {
    let window = |offset_ms, length_ms| Window {
        offset: ms(offset_ms),
        length: ms(length_ms),
    };
    let mut donor = Owned::new("donor", BackendKind::TimePartitions, 4, 20, 60);
    donor.interface.windows = vec![window(0, 4)];
    let mut receiver = Owned::new("receiver", BackendKind::TimePartitions, 2, 20, 50);
    receiver.interface.windows = vec![window(4, 2)];
    receiver.interface.slack = vec![window(0, 4)];
    let mut pair = [donor, receiver];
    assert_eq!(judged(&pair), []);
    pair.reverse();
    assert_eq!(judged(&pair), []);
    for turned in [false, true] {
        let receiver = usize::from(turned);
        pair[receiver].interface.priority = Priority(60);
        let refusals = judged(&pair);
        assert!(
            matches!(&refusals[..], [AdmissionRefusal::WindowsOverlap { .. }]),
            "{refusals:?}"
        );
        pair[receiver].interface.priority = Priority(50);
        pair.reverse();
    }
}

#[test]
fn two_precedences_do_not_share_a_cpu() {
    let mixed = [
        Owned::new("a", BackendKind::Deadline, 1, 10, 50),
        Owned::new("b", BackendKind::RtGroup, 1, 10, 50),
    ];
    let refusals = judged(&mixed);
    assert!(matches!(
        &refusals[..],
        [AdmissionRefusal::MixedBackends { domain, other, .. }] if domain == "b" && other == "a"
    ));
}

#[test]
fn bandwidths_by_deadlines_are_compared_exactly() {
    let limits = HostLimits {
        throttling_us: Some((1_000_000, 1_000_000)),
        has_fair_server: false,
        ..HostLimits::default()
    };
    let third = |domain: &str, budget_ns| {
        let mut one = Owned::new(domain, BackendKind::Deadline, 1, 3_000, 50);
        one.interface.budget = Duration::from_nanos(budget_ns);
        one
    };
    let thirds = ["a", "b", "c"].map(|domain| third(domain, 1_000_000_000));
    let full: Vec<_> = thirds.iter().map(Owned::reserved).collect();
    assert_eq!(refusals_on(CPU, &[], &full, &limits), []);
    let more = third("c", 1_000_000_001);
    let over = [full[0], full[1], more.reserved()];
    assert_eq!(refusals_on(CPU, &[], &over, &limits).len(), 1);
}

#[test]
fn a_pool_is_judged_by_the_largest_and_the_sum() {
    // 3 x 3/5 <= 3 - 2 x 3/5.
    let three = vec![(ms(3), ms(5)); 3];
    assert_eq!(pool::fit(&three, 3), (Fraction::new(9, 5), Ok(())));
    let many = vec![(ms(5), ms(6)); 4];
    assert_eq!(pool::fit(&many, 3).1, Err(pool::Misfit::TooMuch));
    // Dhall and Liu: the sum is small, and the long one waits for the short ones.
    let mut waits = vec![(ms(1), ms(10)); 2];
    waits.push((ms(99), ms(100)));
    assert_eq!(pool::fit(&waits, 2).1, Err(pool::Misfit::NotShown));
    assert_eq!(pool::fit(&waits, 3).1, Ok(()));
}

/// A server in the simulation: its reservation, the phase of its replenishments, and the slots of a
/// millisecond in which it has work.
struct Server<'a> {
    reservation: &'a Owned,
    phase: u64,
    asks: Vec<bool>,
}

/// Whether each server, in each period in which it asks in every slot until it is done, spends its
/// budget; one CPU, by priority or by the next replenishment.
fn budgets_are_spent(servers: &[Server<'_>], by_priority: bool, slots: u64) -> Vec<bool> {
    let mut left: Vec<u64> = vec![0; servers.len()];
    let mut always: Vec<bool> = vec![false; servers.len()];
    let mut fine = vec![true; servers.len()];
    for slot in 0..slots {
        for (index, server) in servers.iter().enumerate() {
            if (slot + server.phase).is_multiple_of(server.reservation.period_ms()) {
                fine[index] &= !(always[index] && left[index] > 0);
                left[index] = server.reservation.budget_ms();
                always[index] = true;
            }
            if left[index] > 0 && !server.asks[slot as usize] {
                always[index] = false;
            }
        }
        let ready = (0..servers.len()).filter(|i| left[*i] > 0 && servers[*i].asks[slot as usize]);
        let next = ready.min_by_key(|index| {
            let one = &servers[*index];
            let period = one.reservation.period_ms();
            let deadline = period - (slot + one.phase) % period;
            let priority = u64::from(u8::MAX - one.reservation.interface.priority.0);
            (if by_priority { priority } else { deadline }, *index)
        });
        if let Some(next) = next {
            left[next] -= 1;
        }
    }
    fine
}

/// Up to `most` reservations of one precedence: whether by priority, and each with its back end.
fn small_reservations(most: usize) -> impl Strategy<Value = (bool, Vec<Owned>)> {
    let one = (1_u64..5, 4_u64..16, any::<bool>(), any::<bool>());
    let all = proptest::collection::vec(one, 1..=most);
    (any::<bool>(), all).prop_map(|(by_priority, all)| {
        let make =
            |(index, (budget, period, deferrable, on_grid)): (usize, (u64, u64, bool, bool))| {
                let backend = match (by_priority, on_grid) {
                    (true, true) => BackendKind::DsFreeze,
                    (true, false) => BackendKind::RtGroup,
                    (false, _) => BackendKind::Deadline,
                };
                let rank = 50 - index as u8;
                let mut made = Owned::new(&index.to_string(), backend, budget, period, rank);
                made.server = Some(match deferrable {
                    true => ServerKind::Deferrable,
                    false => ServerKind::Periodic,
                });
                made
            };
        (by_priority, all.into_iter().enumerate().map(make).collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 100_000, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn who_is_admitted_gets_its_budget_whatever_the_others_do(
        (by_priority, set) in small_reservations(4),
        numbers in proptest::collection::vec(0_u64..1_000, 97),
    ) {
        prop_assume!(judged(&set).is_empty());
        let mut numbers = numbers.iter().cycle();
        let mut number = |below: u64| numbers.next().unwrap() % below;
        let slots = 300;
        let servers: Vec<Server<'_>> = set.iter().map(|one| {
            // Periodic ones always ask; deferrable ones in stretches.
            let mut asks = Vec::new();
            let mut on = true;
            while asks.len() < slots as usize {
                let length = if on { 1 + number(20) } else { number(12) };
                asks.extend(std::iter::repeat_n(on || one.server == Some(ServerKind::Periodic), length as usize));
                on = !on;
            }
            let phase = if one.on_common_grid { 0 } else { number(one.period_ms()) };
            Server { reservation: one, phase, asks }
        }).collect();
        let fine = budgets_are_spent(&servers, by_priority, slots);
        prop_assert!(fine.iter().all(|fine| *fine), "{set:?} {fine:?}");
    }

    #[test]
    fn below_one_deferrable_server_the_response_is_exact(
        above in (1_u64..6, 2_u64..14), below in (1_u64..8, 2_u64..30),
    ) {
        prop_assume!(above.0 <= above.1 && below.0 <= below.1);
        let pair = [
            Owned::new("a", BackendKind::RtGroup, above.0, above.1, 9),
            Owned::new("b", BackendKind::RtGroup, below.0, below.1, 1),
        ];
        let servers = pair.each_ref().map(|one| FixedPriorityServer {
            budget_ns: one.budget_ms(),
            period_ns: one.period_ms(),
            priority: one.interface.priority.0,
            jitter_ns: one.period_ms() - one.budget_ms(),
            on_common_grid: false,
        });
        let in_time = budget_response_ns(&servers, 1, None, &InterferenceLoad::default()) <= below.1;
        // a waits until it has just its budget's time left, and b is replenished right then.
        let wait = above.1 - above.0;
        let slots = 30 * 14;
        let a = Server {
            reservation: &pair[0],
            phase: 0,
            asks: (0..slots).map(|slot| slot >= wait).collect(),
        };
        let b = Server {
            reservation: &pair[1],
            phase: (below.1 - wait % below.1) % below.1,
            asks: vec![true; slots as usize],
        };
        prop_assert_eq!(in_time, budgets_are_spent(&[a, b], true, slots)[1]);
    }
}

/// The kernel books the bandwidth of a group on every CPU, whichever the domain runs on.
#[test]
fn groups_are_booked_on_every_cpu() {
    let limits = HostLimits::default();
    let group = |domain: &str, budget_ms, cpu: u32| {
        let mut one = Owned::new(domain, BackendKind::Hcbs, budget_ms, 100, 50);
        one.interface.cpus = [Cpu(cpu)].into();
        one
    };
    let mut thread = group("thread", 50, 1);
    thread.backend = BackendKind::Deadline;
    let [first, second, third] = [("a", 50, 0), ("b", 40, 2), ("c", 41, 2)]
        .map(|(name, budget_ms, cpu)| group(name, budget_ms, cpu));
    let too_much = |active: &[&Owned], asked: &Owned| {
        let active: Vec<_> = active.iter().map(|one| one.reserved()).collect();
        let refused = admit(&active, &[asked.reserved()], &limits);
        matches!(refused, Err(AdmissionRefusal::TooMuch { .. }))
    };
    assert!(!too_much(&[&first], &second));
    assert!(too_much(&[&first], &third));
    assert!(too_much(&[&thread], &third));
    assert!(too_much(&[&third], &thread));
    // Its threads do not run there, so that priorities are left alone.
    let mut frozen = group("frozen", 90, 1);
    frozen.backend = BackendKind::DsFreeze;
    frozen.server = frozen.backend.server_kind();
    assert!(!too_much(&[&first], &frozen));
    assert!(!too_much(&[&frozen], &first));
    // Groups of cgroup v1 are booked everywhere, too, beside each other and beside no single threads.
    let legacy = |mut one: Owned| {
        one.backend = BackendKind::RtGroup;
        one.server = one.backend.server_kind();
        one
    };
    let [fits, too_large] = [45, 46].map(|budget_ms| legacy(group("d", budget_ms, 2)));
    let legacy = legacy(group("e", 50, 0));
    assert!(!too_much(&[&legacy, &first, &frozen], &fits));
    assert!(too_much(&[&legacy], &too_large));
    let bounded = HostLimits {
        groups_us: Some((50_000, 100_000)),
        ..limits
    };
    let both = [first.reserved(), second.reserved()];
    assert!(admit(&[], &both[..1], &bounded).is_ok());
    assert!(admit(&both[..1], &both[1..], &bounded).is_err());
}
