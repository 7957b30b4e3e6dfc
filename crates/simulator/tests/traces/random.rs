//! Random hosts: an audit finds nothing, and what the sinks tell agrees.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tailbound_simulator::hierarchy::{Completion, HierarchyPlan, Job, Piece, Sink, simulate_plan};
use tailbound_simulator::traces::{
    Detail, JobTable, ScheduleSlice, ScheduleTrace, ScheduleWindow, Setting, Tee,
};

use super::audit::Audit;
use super::hosts;
use super::wire;

/// Everything as it was told.
#[derive(Default)]
struct Heard {
    completions: Vec<Completion>,
    pieces: Vec<Piece>,
    kernel: u64,
}

impl Sink for Heard {
    fn completed(&mut self, completion: &Completion) {
        self.completions.push(*completion);
    }

    fn ran(&mut self, piece: &Piece) {
        self.pieces.push(*piece);
    }

    fn overhead(&mut self, _cpu: usize, from: u64, until: u64) {
        self.kernel += until - from;
    }
}

/// The time that each task, or the operating system, took in a window.
fn used(slice: &ScheduleSlice) -> BTreeMap<Option<usize>, u64> {
    let mut sums = BTreeMap::new();
    match &slice.detail {
        Detail::Exact(exact) => {
            for block in &exact.blocks {
                let task = block.job.map(|(task, _)| task);
                *sums.entry(task).or_default() += block.until - block.from;
            }
        }
        Detail::Coarse(cells) => {
            for ((_, _, task), length) in &cells.used {
                *sums.entry(*task).or_default() += length;
            }
        }
    }
    sums
}

/// Releases and missed deadlines in a window, by task.
fn marks(slice: &ScheduleSlice) -> BTreeMap<usize, (u64, u64)> {
    let mut sums: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    let inside = slice.from..slice.until;
    match &slice.detail {
        Detail::Exact(exact) => {
            for job in &exact.jobs {
                let sum = sums.entry(job.task).or_default();
                sum.0 += u64::from(inside.contains(&job.release));
                let due = job.due.is_some_and(|at| inside.contains(&at));
                sum.1 += u64::from(job.missed && due);
            }
        }
        Detail::Coarse(cells) => {
            for ((task, _), marks) in &cells.marks {
                let sum = sums.entry(*task).or_default();
                sum.0 += marks.released;
                sum.1 += marks.missed;
            }
        }
    }
    sums.retain(|_, sum| *sum != (0, 0));
    sums
}

type Sinks = Tee<
    Tee<Audit, Heard>,
    Tee<Tee<JobTable<Vec<u8>>, ScheduleTrace<Vec<u8>>>, Tee<ScheduleWindow, ScheduleWindow>>,
>;

fn sinks(setting: &Setting, from: u64, until: u64) -> Sinks {
    let window = |most| ScheduleWindow::new(setting.clone(), from, until, most).unwrap();
    Tee(
        Tee(Audit::new(setting.clone()), Heard::default()),
        Tee(
            Tee(
                JobTable::new(setting.clone(), Vec::new()),
                ScheduleTrace::new(setting.clone(), Vec::new()),
            ),
            Tee(window(100_000), window(20)),
        ),
    )
}

fn check(plan: &HierarchyPlan, jobs: &[Job], from: u64, length: u64) -> Result<(), TestCaseError> {
    let setting = Setting::of(plan);
    let until = from + length;
    let mut sinks = sinks(&setting, from, until);
    let horizon = Some(crate::plans::ns(2_000));
    let outcome = simulate_plan(plan, &mut &*jobs, &mut sinks, horizon).unwrap();
    let Tee(Tee(audit, heard), Tee(Tee(table, trace), Tee(single, summed))) = sinks;
    prop_assert_eq!(audit.verdict(), Ok(()));
    prop_assert_eq!(audit.unfinished() as u64, outcome.unfinished);
    let end = outcome.end.as_nanos();

    let text = table.finish(end).unwrap();
    let mut rows = csv::Reader::from_reader(text.as_slice());
    let rows: Vec<csv::StringRecord> = rows.records().collect::<Result<_, _>>().unwrap();
    let done = rows.iter().filter(|row| !row[4].is_empty());
    let done: Vec<(String, String)> = done.map(|row| (row[1].into(), row[5].into())).collect();
    let expected: Vec<(String, String)> = heard
        .completions
        .iter()
        .map(|it| (it.number.to_string(), (it.end - it.release).to_string()))
        .collect();
    prop_assert_eq!(done, expected);
    prop_assert_eq!(
        rows.len() as u64,
        heard.completions.len() as u64 + outcome.unfinished
    );

    let packets = wire::packets(&trace.finish(end).unwrap()).unwrap();
    let shown = wire::Shown::of(&packets).map_err(TestCaseError::fail)?;
    prop_assert_eq!(shown.disorder(), Vec::<String>::new());
    let on_cpus = shown
        .slices
        .iter()
        .filter(|(track, _)| track.starts_with("CPUs/"));
    let shown_ns: u64 = on_cpus
        .flat_map(|(_, slices)| slices)
        .map(|(_, from, until)| until.unwrap() - from)
        .sum();
    let ran: u64 = heard
        .pieces
        .iter()
        .map(|piece| piece.until - piece.from)
        .sum();
    prop_assert_eq!(shown_ns, ran + heard.kernel);

    let (single, summed) = (single.finish(end), summed.finish(end));
    prop_assert!(matches!(single.detail, Detail::Exact(_)));
    prop_assert_eq!(used(&single), used(&summed));
    prop_assert_eq!(marks(&single), marks(&summed));
    let inside = |piece: &Piece| piece.until.min(until).saturating_sub(piece.from.max(from));
    let expected: u64 = heard.pieces.iter().map(inside).sum();
    let tasks = used(&single);
    let tasks = tasks.iter().filter(|(task, _)| task.is_some());
    prop_assert_eq!(tasks.map(|(_, length)| length).sum::<u64>(), expected);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn schedules_are_sound_and_told_alike_by_all_sinks(
        plan in hosts::plans(), drawn in hosts::jobs(), from in 0_u64..100, length in 1_u64..300,
    ) {
        let tasks = Setting::of(&plan).tasks().len();
        let jobs = hosts::released(&drawn, tasks);
        check(&plan, &jobs, from, length)?;
    }
}
