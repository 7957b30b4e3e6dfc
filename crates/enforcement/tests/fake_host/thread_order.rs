//! The order that a domain's threads keep among themselves, over a kernel in memory.

use tailbound_enforcement::audit::Band;
use tailbound_enforcement::audit::record::read;
use tailbound_enforcement::{KernelState, KernelView, SchedulingSetting};
use tailbound_time::Duration;

use super::escapes::{OTHER, Stage, fifo};

impl Stage {
    /// Threads beside the first one: with what they have by themselves.
    fn with(threads: &[(u32, SchedulingSetting)]) -> Self {
        let mut stage = Self::new();
        for &(tid, own) in threads {
            stage.kernel.fork(100, tid, false);
            stage.kernel.set_scheduling(tid, own).unwrap();
        }
        stage.look();
        stage
    }

    /// Lets a period pass, in which `running` use the budget while `waiting` are ready to run.
    fn pass(&mut self, running: &[u32], waiting: &[u32]) {
        let (budget, period) = (Duration::from_millis(4), Duration::from_millis(10));
        let now = self.kernel.now();
        self.kernel.wait_until(now + period);
        self.kernel.alter(|state| {
            for tid in running {
                let thread = state.threads.get_mut(tid).unwrap();
                thread.run_times.used += budget / running.len() as u64;
            }
            for tid in waiting {
                state.threads.get_mut(tid).unwrap().run_times.waited += budget;
            }
        });
        self.look();
    }

    fn priorities(&self, tids: &[u32]) -> Vec<u8> {
        let priority = |tid: &u32| match self.scheduling(*tid) {
            SchedulingSetting::Fifo {
                priority,
                reset_on_fork: true,
            }
            | SchedulingSetting::RoundRobin {
                priority,
                reset_on_fork: true,
            } => priority,
            other => panic!("{tid}: {other}"),
        };
        tids.iter().map(priority).collect()
    }
}

#[test]
fn real_time_threads_stay_above_the_ordinary_ones() {
    let round_robin = SchedulingSetting::RoundRobin {
        priority: 70,
        reset_on_fork: false,
    };
    let mut stage = Stage::with(&[
        (101, fifo(80)),
        (102, fifo(2)),
        (103, OTHER),
        (104, round_robin),
    ]);
    let all = [101, 104, 102, 103, 100];
    assert_eq!(stage.priorities(&all), [50, 49, 48, 47, 47]);
    assert!(
        matches!(stage.scheduling(104), SchedulingSetting::RoundRobin { .. }),
        "it stays one"
    );
    stage.pass(&[100], &[]);
    assert_eq!(
        stage.priorities(&all),
        [50, 49, 48, 47, 46],
        "the busy one is last"
    );
    let writes = stage.kernel.writes();
    stage.pass(&[100], &[]);
    assert_eq!(
        stage.kernel.writes(),
        writes,
        "what is in order is left alone"
    );
}

#[test]
fn busy_threads_take_turns_and_a_newcomer_is_before_them() {
    let mut stage = Stage::with(&[(101, OTHER), (102, OTHER)]);
    let all = [100, 101, 102];
    stage.pass(&[100], &[101, 102]);
    assert_eq!(stage.priorities(&all), [49, 50, 49]);
    for _ in 0..3 {
        stage.pass(&[101], &[100, 102]);
        assert_eq!(stage.priorities(&all), [49, 49, 50], "it waited longest");
        stage.pass(&[102], &[100, 101]);
        assert_eq!(stage.priorities(&all), [50, 49, 49]);
        stage.pass(&[100], &[101, 102]);
        assert_eq!(stage.priorities(&all), [49, 50, 49]);
    }
    stage.kernel.fork(100, 150, true);
    stage.pass(&[101], &[100, 102]);
    assert_eq!(stage.priorities(&[100, 101, 102, 150]), [49, 49, 50, 50]);
    // They sleep.
    stage.pass(&[], &[]);
    assert_eq!(stage.priorities(&all), [50, 50, 50]);
}

#[test]
fn a_priority_that_a_program_sets_later_is_one_among_its_threads() {
    let mut stage = Stage::with(&[(101, OTHER), (102, OTHER)]);
    stage.kernel.set_scheduling(101, fifo(7)).unwrap();
    stage.look();
    assert_eq!(stage.priorities(&[101, 100, 102]), [50, 49, 49]);
    stage.kernel.set_scheduling(102, fifo(90)).unwrap();
    stage.look();
    stage.look();
    assert_eq!(stage.priorities(&[102, 101, 100]), [50, 49, 48]);
    assert_eq!(
        stage.audit.summary().set_back,
        1,
        "it was above its domain for a moment"
    );
}

#[test]
fn no_thread_falls_to_the_priority_of_a_lower_domain() {
    let mut stage = Stage::with(&[(101, OTHER), (102, fifo(60))]);
    let mut audited = stage.audit.audited().clone();
    audited.band = Some(Band::below(50, [49, 80]));
    stage.audit.update(audited);
    stage.pass(&[100], &[]);
    assert_eq!(stage.priorities(&[100, 101, 102]), [50, 50, 50]);
}

#[test]
fn what_the_order_changed_is_put_back_wherever_the_auditor_dies() {
    for stop in 0.. {
        let mut stage = Stage::with(&[(101, OTHER)]);
        // A member that was an ordinary one by its own choice, so that nothing is recorded of it.
        stage.kernel.fork(100, 102, false);
        stage
            .kernel
            .set_scheduling(102, SchedulingSetting::Other { nice: 5 })
            .unwrap();
        stage.look();
        stage.kernel.set_scheduling(102, fifo(30)).unwrap();
        stage.kernel.stop_at(Some(stop));
        stage.pass(&[100], &[]);
        let done = stage.audit.summary().failures == 0;
        stage.kernel.stop_at(None);
        let recorded = std::fs::read(&stage.audit.audited().record).unwrap();
        for adoption in read(&recorded) {
            adoption.take_back(&mut stage.kernel).unwrap();
        }
        assert_eq!(stage.scheduling(101), OTHER, "{stop}");
        assert_eq!(stage.scheduling(102), fifo(30), "{stop}");
        if done {
            assert!(stop >= 2);
            return;
        }
    }
}

#[test]
fn time_that_stands_still_makes_nobody_busy() {
    let mut stage = Stage::with(&[(101, OTHER)]);
    for _ in 0..3 {
        stage.look();
        assert_eq!(stage.priorities(&[100, 101]), [50, 50]);
    }
}

#[test]
fn nothing_is_put_in_order_that_cannot_be_recorded() {
    let mut stage = Stage::with(&[(101, SchedulingSetting::Other { nice: 5 })]);
    let own = fifo(30);
    stage.kernel.set_scheduling(101, own).unwrap();
    std::fs::remove_dir_all(stage.directory.path()).unwrap();
    for failures in 1..=3 {
        stage.look();
        assert_eq!(stage.scheduling(101), own);
        assert_eq!(stage.audit.summary().failures, failures);
    }
}
