//! Which simulator it is.

/// The number of the engine. It rises whenever a schedule, a draw or a result may differ from what it
/// was for the same description and seed, whatever the version of the release says: results are
/// reproducible from description, question, seed, version and engine. A test below notices most of
/// what it has to rise for.
pub const ENGINE: u32 = 2;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fmt::Write as _;

    use tailbound_model::{InputFiles, parse};
    use tailbound_time::Duration;

    use super::ENGINE;
    use crate::hierarchy::{Completion, Job, Piece, Sink};
    use crate::host::{
        HostQuery, HostSimulation, Kept, LaidPlan, MOST_EVENTS, lay_out, simulate_layout,
    };

    /// What the engine of each number did with the descriptions below. Where this fails, raise
    /// [`ENGINE`] and write down the new sum, unless what changed are the descriptions.
    const KNOWN: (u32, u64) = (2, 0xb63c_41e9_a7bc_1afa);

    const DESCRIPTIONS: [&str; 12] = [
        include_str!("../tests/scenarios/background.toml"),
        include_str!("../tests/scenarios/boost.toml"),
        include_str!("../tests/scenarios/dual_priority.toml"),
        include_str!("../tests/scenarios/guest_queue.toml"),
        include_str!("../tests/scenarios/locks.toml"),
        include_str!("../tests/scenarios/nested.toml"),
        include_str!("../tests/scenarios/partitioned.toml"),
        include_str!("../tests/scenarios/priority_exchange.toml"),
        include_str!("../tests/scenarios/rtds.toml"),
        include_str!("../tests/scenarios/slack_stealing.toml"),
        include_str!("../tests/scenarios/windows.toml"),
        DRAWN,
    ];

    /// What is drawn without a logarithm, which machines round in their own ways, on every reservation
    /// server, with overheads.
    const DRAWN: &str = r#"
        schema_version = 1
        name = "drawn"
        seed = 11
        hosts.here = { cpus = [0, 1], speeds = [100, 70], overheads = { context_switch = "3us", scheduler_invocation = "2us", tick = { period = "4ms", cost = "1us" } } }
        experiment.duration = "2s"

        [domains.front]
        kind = "process"
        builtin = "synthetic-service"
        reservation = { budget = "5ms", period = "10ms", priority = 80, cpus = [0] }
        [domains.polled]
        kind = "process"
        command = ["polled"]
        reservation = { budget = "2ms", period = "10ms", server = "polling", priority = 70, cpus = [0] }
        tasks.often = { arrivals = { kind = "sporadic", min_gap = "7ms", max_gap = "13ms" }, execution_time = { kind = "uniform", min = "200us", max = "2ms" } }
        [domains.sporadic]
        kind = "qemu-vm"
        scheduling = "earliest-deadline-first"
        reservation = { budget = "3ms", period = "12ms", server = "sporadic", priority = 60, cpus = [1] }
        tasks.first = { arrivals = { kind = "periodic", period = "20ms" }, execution_time = { kind = "uniform", min = "1ms", max = "2ms" } }
        tasks.second = { arrivals = { kind = "periodic", period = "33ms", offset = "5ms" }, execution_time = { kind = "constant", value = "1ms" } }
        [domains.earliest]
        kind = "process"
        command = ["earliest"]
        reservation = { budget = "4ms", period = "15ms", backend = "deadline", cpus = [1] }
        tasks.wave = { arrivals = { kind = "bursts", jobs = 3, spacing = "1ms", gaps = { kind = "uniform", min = "30ms", max = "60ms" } }, execution_time = { kind = "histogram", bins = [{ from = "1ms", to = "2ms", count = 3 }, { from = "4ms", to = "6ms", count = 1 }] } }
        [domains.hog]
        kind = "process"
        builtin = "cpu-hog"
        instances = 3

        [services.web]
        domain = "front"
        protocol = "synthetic"
        endpoint = "unix:s.sock"
        scheduling = "rate-monotonic"
        [services.web.tasks.long]
        arrivals = { kind = "periodic", period = "50ms" }
        execution_time = { kind = "uniform", min = "5ms", max = "10ms" }
        [services.web.tasks.short]
        arrivals = { kind = "sporadic", min_gap = "20ms", max_gap = "30ms" }
        execution_time = { kind = "uniform", min = "2ms", max = "4ms" }
    "#;

    /// A 64-bit FNV-1a sum of what happens. A job that goes on is one piece, however often its CPU
    /// looked up.
    struct Heard {
        sum: u64,
        last: Vec<Option<Piece>>,
    }

    impl Heard {
        fn add(&mut self, what: std::fmt::Arguments<'_>) {
            let _ = self.write_fmt(what);
        }

        fn of(laid: &LaidPlan) -> Self {
            Self {
                sum: 0xcbf2_9ce4_8422_2325,
                last: vec![None; laid.cpus.len()],
            }
        }

        fn ended(mut self) -> u64 {
            for piece in std::mem::take(&mut self.last) {
                self.add(format_args!("{piece:?}"));
            }
            self.sum
        }
    }

    impl std::fmt::Write for Heard {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            for byte in text.bytes() {
                self.sum = (self.sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
            Ok(())
        }
    }

    impl Sink for Heard {
        fn completed(&mut self, completion: &Completion) {
            self.add(format_args!("{completion:?}"));
        }

        fn released(&mut self, job: &Job) {
            let Job {
                task,
                number,
                release,
                delay_ns,
                work,
            } = *job;
            self.add(format_args!(
                "Job {{ task: {task}, number: {number}, release: {release}, work: {work} }}"
            ));
            // Most jobs have none.
            if delay_ns > 0 {
                self.add(format_args!("{delay_ns} late"));
            }
        }

        fn ran(&mut self, piece: &Piece) {
            if let Some(last) = &mut self.last[piece.cpu] {
                let from = last.from;
                last.from = piece.from;
                let same = Piece {
                    until: piece.until,
                    ..*last
                } == *piece;
                last.from = from;
                if same && last.until == piece.from {
                    last.until = piece.until;
                    return;
                }
            }
            let done = self.last[piece.cpu].replace(*piece);
            self.add(format_args!("{done:?}"));
        }

        fn overhead(&mut self, cpu: usize, from: u64, until: u64) {
            self.add(format_args!("overhead {cpu} {from} {until}"));
        }

        fn ran_out(&mut self, reservation: usize, at: u64) {
            self.add(format_args!("ran out {reservation} {at}"));
        }
    }

    /// Whole numbers alone: how shares are rounded is nothing that an engine decides.
    fn numbers(simulation: &HostSimulation) -> Vec<(u64, u64, Vec<[u64; 4]>)> {
        let domains = simulation.domains.values().map(|domain| {
            let tasks = domain.tasks.iter().map(|task| {
                let longest_ns = task.longest_ns.unwrap_or(0);
                [task.released, task.unfinished, task.missed, longest_ns]
            });
            (domain.used_ns, domain.depletions, tasks.collect())
        });
        domains.collect()
    }

    #[test]
    fn the_number_rises_with_every_change_of_a_result() {
        let mut all = String::new();
        let inputs = InputFiles::default();
        for text in DESCRIPTIONS {
            let description = parse(text, "engine.toml").unwrap();
            let host = description.hosts.keys().next().unwrap();
            let query = HostQuery {
                description: &description,
                host,
                inputs: &inputs,
                seed: description.seed,
                warm_up: Duration::ZERO,
                duration: description.experiment.duration,
                kept: Kept::Classes,
                most_events: MOST_EVENTS,
            };
            let layout = lay_out(&description, host, &inputs).unwrap();
            let mut sinks: Vec<Heard> = layout.plans.iter().map(Heard::of).collect();
            let simulation = simulate_layout(&query, &layout, &mut sinks).unwrap();
            let sums: Vec<u64> = sinks.into_iter().map(Heard::ended).collect();
            let _ = write!(
                all,
                "{sums:?} {} {:?}",
                simulation.ended_ns,
                numbers(&simulation)
            );
        }
        let mut sum = Heard {
            sum: 0xcbf2_9ce4_8422_2325,
            last: Vec::new(),
        };
        sum.add(format_args!("{all}"));
        let (number, expected) = KNOWN;
        assert_eq!(
            (ENGINE, sum.sum),
            (number, expected),
            "results differ from engine {number}'s: raise ENGINE, and write ({}, {:#018x}) here",
            number + 1,
            sum.sum
        );
    }
}
