//! Whole hosts for tests: simulated with a sink that writes down who ran when.

use std::collections::BTreeMap;

use tailbound_model::{Description, InputFiles};
use tailbound_simulator::hierarchy::{Completion, LevelMember, Piece, Rule, ServerKind, Sink};
use tailbound_simulator::host::{
    HostError, HostQuery, HostSimulation, Kept, LaidPlan, MOST_EVENTS, lay_out, simulate_layout,
};
use tailbound_time::Duration;

static NO_FILES: std::sync::LazyLock<InputFiles> = std::sync::LazyLock::new(InputFiles::default);

/// The first host of a description.
pub fn query(description: &Description, duration: Duration, kept: Kept) -> HostQuery<'_> {
    HostQuery {
        description,
        host: description.hosts.keys().next().unwrap(),
        inputs: &NO_FILES,
        seed: description.seed,
        warm_up: Duration::ZERO,
        duration,
        kept,
        most_events: MOST_EVENTS,
    }
}

/// Who ran.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ran {
    pub from: u64,
    pub until: u64,
    pub name: String,
}

/// Who ran when on which CPU.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    pub by_cpu: BTreeMap<u32, Vec<Ran>>,
}

/// Writes down the pieces of one plan, and holds each budget against what is used of it.
pub struct Recorder {
    cpus: Vec<u32>,
    names: Vec<String>,
    /// For each task, the reservations that it runs in.
    within: Vec<Vec<usize>>,
    /// Budget and period where each period has a budget of its own.
    budgets: Vec<Option<(u64, u64)>>,
    used: BTreeMap<(usize, u64), u64>,
    pub pieces: Vec<(u32, Ran)>,
    /// By CPU, the job that ran last, and which piece that was.
    last: BTreeMap<usize, ((usize, u64), usize)>,
    pub completions: Vec<Completion>,
}

impl Recorder {
    pub fn of(laid: &LaidPlan) -> Self {
        let mut budgets = vec![None];
        collect(&laid.plan.root.members, &mut budgets);
        let outer_of = |reservation: usize| {
            let mut all = vec![reservation];
            while let Some(outer) = laid.reservations[*all.last().unwrap()].outer {
                all.push(outer);
            }
            all
        };
        let name = |task: &tailbound_simulator::host::LaidTask| match &task.service {
            Some(service) => format!("{service}.{}", task.name),
            None => format!("{}.{}", task.domain, task.name),
        };
        Self {
            cpus: laid.cpus.iter().map(|cpu| cpu.0).collect(),
            names: laid.tasks.iter().map(name).collect(),
            within: (0..laid.reservations.len()).map(outer_of).collect(),
            budgets,
            used: BTreeMap::new(),
            pieces: Vec::new(),
            last: BTreeMap::new(),
            completions: Vec::new(),
        }
    }
}

fn collect(members: &[LevelMember], budgets: &mut Vec<Option<(u64, u64)>>) {
    for member in members {
        match member {
            LevelMember::Task(_) => {}
            LevelMember::Reservation(inner) => {
                budgets.push(per_period(&inner.rule, inner.budget, inner.period));
                collect(&inner.inside.members, budgets);
            }
            LevelMember::Guest(guest) => {
                let vcpus = guest.vcpus.iter();
                budgets.extend(vcpus.map(|it| per_period(&it.rule, it.budget, it.period)));
            }
        }
    }
}

fn per_period(rule: &Rule, budget: Duration, period: Duration) -> Option<(u64, u64)> {
    let on_grid = matches!(
        rule,
        Rule::Server(ServerKind::Deferrable)
            | Rule::Server(ServerKind::Periodic)
            | Rule::Server(ServerKind::Polling)
    );
    on_grid.then(|| (budget.as_nanos(), period.as_nanos()))
}

impl Sink for Recorder {
    fn completed(&mut self, completion: &Completion) {
        self.completions.push(*completion);
    }

    fn ran(&mut self, piece: &Piece) {
        // What is boosted uses no budget.
        let charged = self.within[piece.reservation].iter();
        for reservation in charged.filter(|_| !piece.boosted) {
            let Some((budget, period)) = self.budgets[*reservation] else {
                continue;
            };
            let mut from = piece.from;
            while from < piece.until {
                let index = from / period;
                let until = piece.until.min((index + 1).saturating_mul(period));
                let used = self.used.entry((*reservation, index)).or_default();
                *used += until - from;
                assert!(
                    *used <= budget,
                    "reservation {reservation} used {used} of {budget} in period {index}"
                );
                from = until;
            }
        }
        // What only a replenishment has cut is one piece.
        let job = (piece.task, piece.number);
        let last = self.last.insert(piece.cpu, (job, self.pieces.len()));
        if let Some((before, at)) = last
            && before == job
            && let Some((_, ran)) = self.pieces.get_mut(at)
            && ran.until == piece.from
        {
            ran.until = piece.until;
            self.last.insert(piece.cpu, (job, at));
            return;
        }
        let ran = Ran {
            from: piece.from,
            until: piece.until,
            name: self.names[piece.task].clone(),
        };
        self.pieces.push((self.cpus[piece.cpu], ran));
    }
}

/// Simulates and writes down who ran when; each budget is held against its use on the way.
pub fn recorded(query: &HostQuery<'_>) -> Result<(Recorded, HostSimulation), HostError> {
    let layout = lay_out(query.description, query.host, query.inputs)?;
    let mut sinks: Vec<Recorder> = layout.plans.iter().map(Recorder::of).collect();
    let simulation = simulate_layout(query, &layout, &mut sinks)?;
    let mut recorded = Recorded::default();
    for (laid, sink) in layout.plans.iter().zip(sinks) {
        for cpu in &laid.cpus {
            recorded.by_cpu.entry(cpu.0).or_default();
        }
        for (cpu, ran) in sink.pieces {
            recorded.by_cpu.entry(cpu).or_default().push(ran);
        }
    }
    Ok((recorded, simulation))
}
