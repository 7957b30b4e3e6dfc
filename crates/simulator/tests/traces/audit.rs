//! An audit of a schedule: what no schedule may do, whatever its rules.

use std::collections::BTreeMap;

use tailbound_simulator::hierarchy::{Completion, Job, Piece, Rule, ServerKind, Sink};
use tailbound_simulator::traces::{BalanceKind, Balances, Setting};

/// So many findings are kept; more say nothing new.
const MOST_FINDINGS: usize = 50;

/// What a schedule did that none may do. All instants are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// A piece that is none.
    #[error("a piece or an overhead on CPU {cpu} is from {from} until {until}")]
    Empty {
        /// The CPU.
        cpu: usize,
        /// Its begin.
        from: u64,
        /// Its end.
        until: u64,
    },
    /// A CPU that the plan does not have.
    #[error("CPU {cpu} is not in the plan")]
    UnknownCpu {
        /// Which.
        cpu: usize,
    },
    /// A CPU that does two things.
    #[error("CPU {cpu} does something from {from} on, but was busy until {busy}")]
    CpuTwice {
        /// Which.
        cpu: usize,
        /// When the later of the two begins.
        from: u64,
        /// When the earlier one ends.
        busy: u64,
    },
    /// A task that runs in two places; its jobs run one after the other.
    #[error("task {task} runs from {from} on, but was running until {busy}")]
    TaskTwice {
        /// Which.
        task: usize,
        /// When the later piece begins.
        from: u64,
        /// When the earlier one ends.
        busy: u64,
    },
    /// A reservation that runs in two places.
    #[error("reservation {reservation} runs from {from} on, but was running until {busy}")]
    ReservationTwice {
        /// Which.
        reservation: usize,
        /// When the later piece begins.
        from: u64,
        /// When the earlier one ends.
        busy: u64,
    },
    /// A job that runs or is done, but was not released, or is done already.
    #[error("job {number} of task {task} runs or is done at {at}, but is not open then")]
    NotOpen {
        /// Its task.
        task: usize,
        /// Its number.
        number: u64,
        /// When.
        at: u64,
    },
    /// A job that is done with more or less work than it had.
    #[error(
        "job {number} of task {task} has {work} ns of work and is done after {done} thousandths of \
         a nanosecond"
    )]
    Work {
        /// Its task.
        task: usize,
        /// Its number.
        number: u64,
        /// What it had to do, in nanoseconds at full speed.
        work: u64,
        /// What was done for it, in thousandths of a nanosecond at full speed.
        done: u128,
    },
    /// A job that ran after it was done.
    #[error("job {number} of task {task} is done at {end}, but ran until {until}")]
    EarlyEnd {
        /// Its task.
        task: usize,
        /// Its number.
        number: u64,
        /// When it was done.
        end: u64,
        /// When its last piece ended.
        until: u64,
    },
    /// More was used than there was.
    #[error(
        "reservation {reservation} uses {used} ns until {until}, but has {left} ns of its budget left"
    )]
    Overdrawn {
        /// Which.
        reservation: usize,
        /// The end of the piece.
        until: u64,
        /// What is used.
        used: u64,
        /// What there was.
        left: u64,
    },
    /// Work waits although there is budget.
    #[error("reservation {reservation} ran out at {at}, but has {left} ns of its budget left")]
    RanOutEarly {
        /// Which.
        reservation: usize,
        /// When.
        at: u64,
        /// What there was.
        left: u64,
    },
    /// A time partition that runs at another time than its own.
    #[error("reservation {reservation} runs at {at}, outside of its windows")]
    OutsideOfWindows {
        /// Which.
        reservation: usize,
        /// When.
        at: u64,
    },
    /// Events out of order.
    #[error("something happens at {at}, after what happened at {before} was told")]
    Backwards {
        /// When.
        at: u64,
        /// The latest before.
        before: u64,
    },
}

/// Listens to a simulation and finds what no schedule may do: a CPU that runs two jobs at once, a job or
/// a reservation in two places, work that appears or gets lost, budgets that are overdrawn, or run out
/// too early, partitions outside of their windows, events out of order.
///
/// It knows the plan, but none of the engine's state, so that it can be used to test the engine. Budgets
/// are checked where the calls tell them fully: per period of the grid of a deferrable, polling or
/// periodic server, per replenishment of a constant-bandwidth server; of sporadic servers they are not.
#[derive(Clone, Debug)]
pub struct Audit {
    setting: Setting,
    balances: Balances,
    /// Until when each CPU, task and reservation was busy.
    cpus: BTreeMap<usize, u64>,
    tasks: BTreeMap<usize, u64>,
    reservations: BTreeMap<usize, u64>,
    /// What periodic servers used in the present period of their grid, and when it ends.
    grids: BTreeMap<usize, (u64, u64)>,
    open: BTreeMap<(usize, u64), Open>,
    before: u64,
    findings: Vec<Finding>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    release: u64,
    work: u64,
    /// In thousandths of a nanosecond at full speed.
    done: u128,
    /// What the last nanosecond may have been too much.
    slack: u128,
    until: u64,
}

impl Audit {
    /// An audit of a plan with this setting.
    pub fn new(setting: Setting) -> Self {
        Self {
            balances: Balances::new(&setting),
            setting,
            cpus: BTreeMap::new(),
            tasks: BTreeMap::new(),
            reservations: BTreeMap::new(),
            grids: BTreeMap::new(),
            open: BTreeMap::new(),
            before: 0,
            findings: Vec::new(),
        }
    }

    /// How many jobs are not done.
    pub fn unfinished(&self) -> usize {
        self.open.len()
    }

    /// What was found, at most 50 of it.
    ///
    /// # Errors
    /// The findings, if there are any.
    pub fn verdict(&self) -> Result<(), Vec<Finding>> {
        if self.findings.is_empty() {
            Ok(())
        } else {
            Err(self.findings.clone())
        }
    }

    fn find(&mut self, finding: Finding) {
        if self.findings.len() < MOST_FINDINGS {
            self.findings.push(finding);
        }
    }

    fn happens(&mut self, at: u64) {
        if at < self.before {
            let before = self.before;
            self.find(Finding::Backwards { at, before });
        }
        self.before = self.before.max(at);
    }

    /// Whether a CPU is free from `from` on, and busy until `until` then.
    fn occupy_cpu(&mut self, cpu: usize, from: u64, until: u64) -> bool {
        if from >= until {
            self.find(Finding::Empty { cpu, from, until });
            return false;
        }
        if cpu >= self.setting.cpus() {
            self.find(Finding::UnknownCpu { cpu });
        }
        if let Some(busy) = self.cpus.insert(cpu, until).filter(|busy| from < *busy) {
            self.find(Finding::CpuTwice { cpu, from, busy });
        }
        true
    }

    fn work(&mut self, piece: &Piece) {
        let speed = self.setting.speeds().get(piece.cpu).copied().unwrap_or(0);
        let key = (piece.task, piece.number);
        let job = self
            .open
            .get_mut(&key)
            .filter(|job| job.release <= piece.from);
        let Some(job) = job else {
            self.find(Finding::NotOpen {
                task: piece.task,
                number: piece.number,
                at: piece.from,
            });
            return;
        };
        job.done += u128::from(piece.until - piece.from) * u128::from(speed);
        job.slack = u128::from(speed).saturating_sub(1);
        job.until = piece.until;
    }

    fn spend(&mut self, reservation: usize, piece: &Piece) {
        let Piece { from, until, .. } = *piece;
        let busy = self.reservations.insert(reservation, until);
        if let Some(busy) = busy.filter(|busy| from < *busy) {
            self.find(Finding::ReservationTwice {
                reservation,
                from,
                busy,
            });
        }
        if let Some((BalanceKind::Left, _)) = self.balances.now(reservation) {
            let mut overdrawn = None;
            self.balances.ran(reservation, piece, |stretch| {
                let used = stretch.until - stretch.from;
                if stretch.from >= from && stretch.first < used {
                    overdrawn = Some((stretch, used));
                }
            });
            if let Some((stretch, used)) = overdrawn {
                self.find(Finding::Overdrawn {
                    reservation,
                    until: stretch.until,
                    used,
                    left: stretch.first,
                });
            }
        }
        match self
            .setting
            .reservation(reservation)
            .map(|reservation| &reservation.rule)
        {
            Some(Rule::Server(ServerKind::Periodic) | Rule::Server(ServerKind::Polling)) => {
                self.spend_on_grid(reservation, from, until)
            }
            Some(Rule::Windows(_)) => self.stay_in_windows(reservation, from, until),
            _ => {}
        }
    }

    /// Adds up what is used in each period of the grid.
    fn spend_on_grid(&mut self, reservation: usize, from: u64, until: u64) {
        let Some(parameters) = self.setting.reservation(reservation) else {
            return;
        };
        let period_ns = parameters.period.as_nanos().max(1);
        let phase = parameters.phase.as_nanos() % period_ns;
        let budget_ns = parameters.budget.as_nanos();
        let mut at = from;
        while at < until {
            let next = if at < phase {
                phase
            } else {
                ((at - phase) / period_ns + 1)
                    .saturating_mul(period_ns)
                    .saturating_add(phase)
            };
            let (used, end) = self.grids.entry(reservation).or_insert((0, next));
            if *end != next {
                (*used, *end) = (0, next);
            }
            let piece_end = next.min(until);
            *used += piece_end - at;
            let used = *used;
            if used > budget_ns {
                self.find(Finding::Overdrawn {
                    reservation,
                    until: piece_end,
                    used,
                    left: budget_ns,
                });
            }
            at = piece_end;
        }
    }

    fn stay_in_windows(&mut self, reservation: usize, from: u64, until: u64) {
        let Some(parameters) = self.setting.reservation(reservation) else {
            return;
        };
        let Rule::Windows(windows) = &parameters.rule else {
            return;
        };
        let frame = u128::from(parameters.period.as_nanos().max(1));
        let phase = u128::from(parameters.phase.as_nanos()) % frame;
        let mut at = from;
        while at < until {
            let into = (u128::from(at) + frame - phase) % frame;
            let end = windows.iter().find_map(|window| {
                let begin = u128::from(window.offset.as_nanos());
                let end = begin + u128::from(window.length.as_nanos());
                (begin..end).contains(&into).then_some(end)
            });
            let Some(end) = end else {
                self.find(Finding::OutsideOfWindows { reservation, at });
                return;
            };
            at = at.saturating_add(u64::try_from(end - into).unwrap_or(u64::MAX));
        }
    }
}

impl Sink for Audit {
    fn completed(&mut self, completion: &Completion) {
        let Completion {
            task, number, end, ..
        } = *completion;
        self.happens(end);
        match self.open.remove(&(task, number)) {
            Some(job) if job.release == completion.release => {
                let needed = u128::from(job.work) * 1_000;
                if !(needed..=needed + job.slack).contains(&job.done) {
                    self.find(Finding::Work {
                        task,
                        number,
                        work: job.work,
                        done: job.done,
                    });
                }
                if end < job.until {
                    let until = job.until;
                    self.find(Finding::EarlyEnd {
                        task,
                        number,
                        end,
                        until,
                    });
                }
            }
            _ => self.find(Finding::NotOpen {
                task,
                number,
                at: end,
            }),
        }
    }

    fn released(&mut self, job: &Job) {
        self.happens(job.release);
        self.open.insert(
            (job.task, job.number),
            Open {
                release: job.release,
                work: job.work,
                done: 0,
                slack: 0,
                until: job.release,
            },
        );
    }

    fn ran(&mut self, piece: &Piece) {
        if !self.occupy_cpu(piece.cpu, piece.from, piece.until) {
            return;
        }
        let busy = self.tasks.insert(piece.task, piece.until);
        if let Some(busy) = busy.filter(|busy| piece.from < *busy) {
            self.find(Finding::TaskTwice {
                task: piece.task,
                from: piece.from,
                busy,
            });
        }
        self.work(piece);
        for place in 0..self.setting.used_by(piece).len() {
            let reservation = self.setting.used_by(piece)[place];
            self.spend(reservation, piece);
        }
    }

    fn overhead(&mut self, cpu: usize, from: u64, until: u64) {
        self.occupy_cpu(cpu, from, until);
    }

    fn ran_out(&mut self, reservation: usize, at: u64) {
        self.happens(at);
        self.balances.pass(reservation, at, |_| {});
        if let Some((BalanceKind::Left, left)) = self.balances.now(reservation)
            && left > 0
        {
            self.find(Finding::RanOutEarly {
                reservation,
                at,
                left,
            });
        }
    }

    fn replenished(&mut self, reservation: usize, at: u64) {
        self.happens(at);
        self.balances.replenished(reservation, at, |_| {});
    }
}
