//! From one mode to another without a deadline missed: protocols of one CPU, or of one reservation,
//! under preemptive fixed priorities, and what they guarantee.
//!
//! A mode is a set of sporadic tasks with deadlines up to their periods. At the *mode-change
//! request* the system is told to go from the old mode to the new one. A task is
//!
//! - *completed*, if only the old mode has it: its last job is finished, and no other is released;
//! - *unchanged*, if both modes have it with the same parameters and the same rank;
//! - *new*, if only the new mode has it;
//! - *changed*, if both have it and something differs: its old version is completed, its new one new.
//!
//! Nothing is aborted. What is released up to and at the request belongs to the old mode.
//!
//! # The theorem behind all protocols
//!
//! An *idle instant* is one at which everything that was released before it has been done.
//!
//! *Let both modes be schedulable by themselves. If there is an idle instant e, at the request or
//! after it, such that before e only tasks of the old mode release jobs, and from e on only tasks
//! of the new mode do, then no deadline is missed. Jobs released before e take at most their
//! response time in the old mode, the others at most that in the new one.*
//!
//! Proof. A job released before e is done by e. Until then there were releases of the old mode only,
//! some of them left out; sporadic tasks may leave any out, so that this is a pattern which the old
//! mode alone may show, and its response times hold. A job released at e or later finds nothing left
//! from before e, so that its busy window (the time since the last instant at which nothing of its
//! rank or above was left to do) begins at e or later, and holds jobs of the new mode only. ∎
//!
//! The protocols differ in how they make sure of e: the [idle time protocol](idle_time) waits for
//! it; [the others](minimum_single_offset) count the time until it must have come. That the response
//! times in the two modes are bounds in the transition, too, is why no other analysis is needed; and
//! how old and new tasks rank among each other never matters.
//!
//! # Reservations
//!
//! All of this holds on a reservation, with its [supply bound](crate::interfaces::SupplyBound) in place of the CPU:
//! that bound holds for every window in which there is work, and no busy window reaches across e.
//! So the reservation may change, too, at an instant at which nothing is left to do
//! ([`Supplies::Changing`]). The pointwise minimum of two supply bounds would be no bound for a
//! window with a change inside: it may meet the longest gap of the one and then that of the other.
//!
//! Where it changes before e or after it, [`Supplies::Covering`] says what windows of the old and of the new
//! mode get with the change inside:
//!
//! - On *one grid* of periods, a deferrable server that goes from one budget to the other at a replenishment
//!   gives at least the smaller one in every period. Let the larger budget be in force whenever only the tasks
//!   of its mode are there to need it: a reservation grows before the request, and shrinks after the new tasks
//!   have started. Then each mode has its own supply bound in its windows.
//! - In *any* change at an instant g, a window has what the old bound gives for its part before g, and what the
//!   new bound gives for its part after g: the least sum over all g ([`AcrossChange`]). A reservation that grows
//!   before the request gives this to windows of the old mode, and one that shrinks after the new tasks have
//!   started to those of the new mode.
//!
//! docs/concepts/mode-change-protocols.md compares the protocols.

mod across_change;
mod busy_window;
mod description;
pub mod idle_time;
pub mod maximum_period_offset;
pub mod minimum_single_offset;
mod outcome;
mod pair;

use crate::AnalysisError;

pub use across_change::AcrossChange;
pub use description::tasks_of_mode;
pub use outcome::{
    ModeChangeProtocol, NewModeStart, NoTransition, ProtocolGuarantee, SafeTransition,
    TaskInTransition, TaskKind,
};
pub use pair::{ModePair, ModeTask, Supplies};

/// What each protocol guarantees for the change from `old` to `new`: the idle time protocol, the
/// maximum-period offset protocol, and the minimum single offset protocol without and with
/// periodicity, in this order.
///
/// # Errors
/// As of [`ModePair::new`], and [`AnalysisError::TooManySteps`]. That a protocol cannot be used is
/// no error: its [`ProtocolGuarantee::transition`] says why.
pub fn transition_protocols(
    old: &[ModeTask],
    new: &[ModeTask],
    supplies: Supplies<'_>,
) -> Result<Vec<ProtocolGuarantee>, AnalysisError> {
    let pair = ModePair::new(old, new, supplies)?;
    Ok(vec![
        idle_time::idle_time(&pair)?,
        maximum_period_offset::maximum_period_offset(&pair)?,
        minimum_single_offset::without_periodicity(&pair)?,
        minimum_single_offset::with_periodicity(&pair)?,
    ])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::slice::from_ref;

    use proptest::prelude::*;
    use tailbound_time::Duration;

    use super::*;
    use crate::SporadicTask;
    use crate::interfaces::{DedicatedCpu, PeriodicSupply, SupplyBound};
    use crate::schedulability::PriorityOrder;
    use crate::schedulability::response_time::response_times;

    fn ns(value: u64) -> Duration {
        Duration::from_nanos(value)
    }

    fn mode_task(name: &str, rank: u64, numbers: (u64, u64, u64)) -> ModeTask {
        let (execution, period, deadline) = numbers;
        ModeTask {
            name: name.into(),
            rank,
            task: SporadicTask::new(ns(execution), ns(period), ns(deadline)).unwrap(),
        }
    }

    fn on_cpu(old: &[ModeTask], new: &[ModeTask]) -> Vec<ProtocolGuarantee> {
        transition_protocols(old, new, Supplies::Same(&DedicatedCpu)).unwrap()
    }

    fn latencies(changes: &[ProtocolGuarantee]) -> Vec<u64> {
        let bound = |one: &ProtocolGuarantee| one.transition.as_ref().unwrap().latency_bound;
        changes.iter().map(|one| bound(one).as_nanos()).collect()
    }

    #[test]
    fn each_kind_of_task_has_the_responses_of_its_modes() {
        let stays = mode_task("stays", 1, (2, 10, 10));
        let old = [
            mode_task("goes", 0, (1, 5, 5)),
            stays.clone(),
            mode_task("turns", 2, (3, 20, 20)),
        ];
        let new = [
            stays,
            mode_task("turns", 2, (1, 20, 20)),
            mode_task("comes", 0, (3, 8, 8)),
        ];
        let changes = on_cpu(&old, &new);
        assert_eq!(latencies(&changes), [7, 20, 6, 6]);
        let tasks = &changes[0].transition.as_ref().unwrap().tasks;
        let responses: Vec<_> = tasks
            .iter()
            .map(|one| {
                (
                    one.name.as_str(),
                    one.kind,
                    one.old_response,
                    one.new_response,
                )
            })
            .collect();
        let some = |value| Some(ns(value));
        assert_eq!(
            responses,
            [
                ("goes", TaskKind::Completed, some(1), None),
                ("stays", TaskKind::Unchanged, some(3), some(5)),
                ("turns", TaskKind::Changed, some(7), some(6)),
                ("comes", TaskKind::New, None, some(3)),
            ]
        );
    }

    #[test]
    fn a_mode_that_misses_by_itself_is_named() {
        let good = [mode_task("a", 0, (2, 4, 4))];
        let bad = [mode_task("b", 0, (2, 4, 4)), mode_task("c", 1, (3, 8, 6))];
        let tasks = vec!["c".to_owned()];
        for one in on_cpu(&bad, &good) {
            let tasks = tasks.clone();
            assert_eq!(one.transition, Err(NoTransition::OldModeMisses { tasks }));
            assert!(!one.schedulable());
        }
        for one in on_cpu(&good, &bad) {
            let tasks = tasks.clone();
            assert_eq!(one.transition, Err(NoTransition::NewModeMisses { tasks }));
        }
    }

    #[test]
    fn empty_modes_wait_for_nothing() {
        let some = [mode_task("a", 0, (2, 4, 4))];
        assert_eq!(latencies(&on_cpu(&[], &some)), [0, 0, 0, 0]);
        assert_eq!(latencies(&on_cpu(&[], &[])), [0, 0, 0, 0]);
        assert_eq!(latencies(&on_cpu(&some, &[])), [2, 4, 2, 2]);
        // Nothing is completed, so that with periodicity nothing has to wait.
        assert_eq!(latencies(&on_cpu(&some, &some)), [2, 4, 2, 0]);
    }

    #[test]
    fn a_task_with_another_rank_has_changed() {
        let old = [mode_task("a", 0, (2, 8, 8)), mode_task("b", 1, (2, 8, 8))];
        let new = [mode_task("a", 2, (2, 8, 8)), mode_task("b", 1, (2, 8, 8))];
        let changes = on_cpu(&old, &new);
        let tasks = &changes[0].transition.as_ref().unwrap().tasks;
        assert_eq!(tasks[0].kind, TaskKind::Changed);
        assert_eq!(tasks[1].kind, TaskKind::Unchanged);
    }

    #[test]
    fn what_is_not_analysed_is_refused() {
        let refused = |old: &[ModeTask]| {
            matches!(
                ModePair::new(old, &[], Supplies::Same(&DedicatedCpu)),
                Err(AnalysisError::Invalid { .. })
            )
        };
        let good = mode_task("a", 0, (2, 8, 8));
        assert!(!refused(from_ref(&good)));
        assert!(refused(&[good.clone(), good.clone()]));
        assert!(refused(&[mode_task("a", 0, (2, 8, 9))]));
        let task = good.task.with_jitter(ns(1)).unwrap();
        assert!(refused(&[ModeTask { task, ..good }]));
    }

    #[test]
    fn extremes_are_no_overflow_and_no_loop() {
        let long = 1 << 60;
        let tiny = mode_task("tiny", 0, (1, 2, 2));
        let huge = mode_task("huge", 1, (1 << 58, long, long));
        let old = [tiny, huge.clone()];
        let refusal = transition_protocols(&old, &[], Supplies::Same(&DedicatedCpu));
        assert!(matches!(refusal, Err(AnalysisError::TooManySteps { .. })));
        let all = mode_task("all", 0, (long, long, long));
        assert_eq!(
            latencies(&on_cpu(from_ref(&all), from_ref(&huge))),
            [long; 4]
        );
        let slow = PeriodicSupply::somewhere(ns(1), ns(1 << 50)).unwrap();
        let changes = transition_protocols(&[huge], &[all], Supplies::Same(&slow)).unwrap();
        assert!(changes.iter().all(|one| !one.schedulable()));
    }

    fn any_mode() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
        let one = (1_u64..8, 5_u64..40, 0_u64..12);
        let one = one.prop_map(|(c, t, less)| (c.min(t), t, t.saturating_sub(less).max(c.min(t))));
        prop::collection::vec(one, 0..5)
    }

    fn named(mode: &[(u64, u64, u64)], mark: &str) -> Vec<ModeTask> {
        let numbered = (0..).zip(mode);
        numbered
            .map(|(rank, one)| mode_task(&format!("{mark}{rank}"), rank, *one))
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3_000))]

        /// Response times are those of the classic analysis; the wait for an idle instant is that of
        /// the lowest priority, and every other bound lies in order around it.
        #[test]
        fn bounds_are_in_order(old in any_mode(), new in any_mode(), kept in 0_usize..4) {
            let mut new = named(&new, "n");
            let mut old = named(&old, "o");
            for one in &mut old {
                one.rank += 10;
            }
            new.extend(old.iter().take(kept).cloned());
            let changes = on_cpu(&old, &new);
            let classic = |mode: &[ModeTask]| {
                let tasks: Vec<SporadicTask> = mode.iter().map(|one| one.task).collect();
                response_times(&tasks, &PriorityOrder::as_given(tasks.len()), &[]).unwrap()
            };
            let (before, after) = (classic(&old), classic(&new));
            prop_assert_eq!(changes[0].schedulable(), before.schedulable() && after.schedulable());
            if !changes[0].schedulable() {
                return Ok(());
            }
            for change in &changes {
                let tasks = &change.transition.as_ref().unwrap().tasks;
                for (one, classic) in tasks.iter().zip(&before.tasks) {
                    prop_assert_eq!(one.old_response, classic.response_time.ok());
                }
            }
            let lowest = before.tasks.last().map_or(0, |one| one.response_time.unwrap().as_nanos());
            let latencies = latencies(&changes);
            let [idle, period_ns, without, with] = latencies[..] else {
                return Err(TestCaseError::fail("four protocols"));
            };
            prop_assert_eq!(idle, lowest);
            prop_assert!(with <= idle && without <= idle && idle <= period_ns);
            prop_assert!(without <= with || kept >= old.len());
        }

        /// With less supply, nothing comes sooner, and a reservation that is the whole CPU is the CPU.
        #[test]
        fn less_supply_takes_longer(old in any_mode(), new in any_mode(), gap in 0_u64..6) {
            let (old, new) = (named(&old, "o"), named(&new, "n"));
            let of = |rest_ns: u64| -> Box<dyn SupplyBound> {
                Box::new(PeriodicSupply::deferrable(ns(6), ns(6 + rest_ns), ns(0)).unwrap())
            };
            let cpu = on_cpu(&old, &new);
            let whole = transition_protocols(&old, &new, Supplies::Same(&*of(0))).unwrap();
            prop_assert_eq!(&cpu, &whole);
            let part = transition_protocols(&old, &new, Supplies::Same(&*of(gap))).unwrap();
            for (cpu, part) in cpu.iter().zip(&part) {
                if let Ok(part) = &part.transition {
                    let cpu = cpu.transition.as_ref().unwrap();
                    prop_assert!(part.latency_bound >= cpu.latency_bound);
                    prop_assert!(part.old_done_bound >= cpu.old_done_bound);
                }
            }
        }
    }
}
