//! Calls that no simulation makes, and names that nobody would choose: every sink lives through them,
//! and what it writes can be read.

use proptest::prelude::*;
use tailbound_simulator::hierarchy::{
    Completion, HierarchyPlan, Job, Piece, Rule, ServerKind, Sink,
};
use tailbound_simulator::traces::{JobTable, ScheduleTrace, ScheduleWindow, Setting, Tee};

use super::audit::Audit;
use super::wire;
use crate::plans::{level, ns, reservation, task};

#[derive(Clone, Debug)]
enum Call {
    Completed(Completion),
    Released(Job),
    Ran(Piece),
    Overhead(usize, u64, u64),
    RanOut(usize, u64),
    Replenished(usize, u64),
}

/// Instants near the start, and near the end of all time.
fn instant() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..200, (u64::MAX - 50)..=u64::MAX]
}

fn call() -> impl Strategy<Value = Call> {
    let index = || prop_oneof![0_usize..6, Just(usize::MAX)];
    let number = || prop_oneof![0_u64..4, Just(u64::MAX)];
    prop_oneof![
        (index(), number(), instant(), instant()).prop_map(|(task, number, release, end)| {
            Call::Completed(Completion {
                task,
                number,
                release,
                end,
            })
        }),
        (index(), number(), instant(), number()).prop_map(|(task, number, release, work)| {
            Call::Released(Job {
                delay_ns: 0,
                task,
                number,
                release,
                work,
            })
        }),
        (
            (index(), number(), index(), index()),
            any::<bool>(),
            instant(),
            0_u64..60
        )
            .prop_map(
                |((task, number, cpu, reservation), boosted, from, length)| {
                    Call::Ran(Piece {
                        task,
                        number,
                        cpu,
                        from,
                        until: from.saturating_add(length),
                        reservation,
                        boosted,
                    })
                }
            ),
        (index(), instant(), instant())
            .prop_map(|(cpu, from, until)| { Call::Overhead(cpu, from, until) }),
        (index(), instant()).prop_map(|(reservation, at)| Call::RanOut(reservation, at)),
        (index(), instant()).prop_map(|(reservation, at)| Call::Replenished(reservation, at)),
    ]
}

fn make(sink: &mut impl Sink, calls: &[Call]) {
    for call in calls {
        match call {
            Call::Completed(completion) => sink.completed(completion),
            Call::Released(job) => sink.released(job),
            Call::Ran(piece) => sink.ran(piece),
            Call::Overhead(cpu, from, until) => sink.overhead(*cpu, *from, *until),
            Call::RanOut(reservation, at) => sink.ran_out(*reservation, *at),
            Call::Replenished(reservation, at) => sink.replenished(*reservation, *at),
        }
    }
}

/// A plan with every kind of budget.
fn plan() -> HierarchyPlan {
    let rules = [
        Rule::Server(ServerKind::Deferrable),
        Rule::Server(ServerKind::Polling),
        Rule::Server(ServerKind::Sporadic),
        Rule::Server(ServerKind::ConstantBandwidth),
        Rule::Unlimited,
    ];
    let members = rules.map(|rule| reservation(1, rule, 3, 10, vec![task(1)]));
    HierarchyPlan::on_one_cpu(level(members.into()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn sinks_live_through_anything_and_write_what_can_be_read(
        calls in prop::collection::vec(call(), 0..60),
        names in prop::collection::vec(any::<String>(), 5),
        (from, until) in (instant(), instant()),
        most in 0_usize..30,
        end in instant(),
    ) {
        let setting = Setting::of(&plan())
            .name_tasks(names.clone())
            .name_reservations(names.clone())
            .set_deadlines([Some(ns(5)), Some(ns(u64::MAX)), None, Some(ns(0))]);
        let mut sinks = Tee(
            Tee(JobTable::new(setting.clone(), Vec::new()), Audit::new(setting.clone())),
            ScheduleTrace::new(setting.clone(), Vec::new()),
        );
        make(&mut sinks, &calls);
        let text = sinks.0.0.finish(end).unwrap();
        for record in csv::Reader::from_reader(text.as_slice()).records() {
            let record = record.unwrap();
            let is_record = names.iter().any(|name| *name == record[0]);
            prop_assert!(is_record || record[0].starts_with("task "), "{:?}", &record[0]);
        }
        let packets = wire::packets(&sinks.1.finish(end).unwrap()).map_err(TestCaseError::fail)?;
        let shown = wire::Shown::of(&packets).map_err(TestCaseError::fail)?;
        for name in &names {
            let path = format!("Tasks/{name}");
            prop_assert!(shown.tracks.values().any(|track| *track == path));
        }
        if let Ok(mut window) = ScheduleWindow::new(setting, from, until, most) {
            make(&mut window, &calls);
            let slice = window.finish(end);
            prop_assert_eq!((slice.from, slice.until), (from, until));
        }
    }
}
