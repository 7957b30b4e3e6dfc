//! Whether work piles up.
//!
//! Three questions in this order. *Demand*: do the tasks of a virtual CPU need more in the long run
//! than its reservation, and those around it, can give? Both are known from the description, so the
//! answer is exact but for a billionth. *Proof*: is it known that they get what they need? They do on
//! the first reservation of a CPU with a bandwidth above their need, and outside of all reservations
//! where everything on the CPU together needs less than it has. *Measure*: otherwise, the second half
//! of the time that counts is cut into four parts. Work piles up if at least one job waited all the
//! time and the fewest that waited rise from part to part, and, where anything is random, by three
//! standard deviations of a Poisson count of the releases at least.

use tailbound_model::InputFiles;

use super::course::{BacklogMinima, PARTS};
use super::layout::{LaidPlan, LaidTask};
use super::load::{is_regular, utilisation};
use super::result::{Growth, HostSimulation};
use super::subsystems::{PlanRun, SimulatedSubsystem};
use crate::hierarchy::{Guest, Level, LevelMember, Rank, Rule, ServerKind, VirtualCpu};

/// An overload of less than this share is not told from none.
const ROUNDING: f64 = 1e-9;

/// `Stability` says of each domain whether its work piles up.
pub(super) struct Stability;

impl SimulatedSubsystem for Stability {
    fn conclude(&self, run: &PlanRun<'_>, results: &mut HostSimulation) {
        let growths = growths(run);
        for task in &run.laid.tasks {
            let domain = results.domains.entry(task.domain.clone()).or_default();
            let growth = growths.get(task.reservation).copied().flatten();
            domain.growth = domain.growth.or(growth);
        }
    }
}

/// Which queues grow, by reservation.
fn growths(run: &PlanRun<'_>) -> Vec<Option<Growth>> {
    let queues = &run.course.queues;
    let balance = LongRunShares::of(run.laid, run.query.inputs);
    let mut growths: Vec<Option<Growth>> = queues
        .iter()
        .enumerate()
        .map(|(reservation, queue)| balance.growth(reservation, queue))
        .collect();
    if let Some(at_ns) = run.cut_off
        && growths.iter().all(Option::is_none)
        && let Some(longest) = (0..growths.len()).max_by_key(|at| queues[*at].waiting())
    {
        growths[longest] = Some(Growth::CutOff { at_ns });
    }
    growths
}

/// What each reservation of a plan needs and can get in the long run, as shares of a CPU of full speed.
struct LongRunShares {
    /// By reservation, what its tasks need of its budget; infinite with a CPU hog, `None` if that is not
    /// known. What boosts is not: it needs no budget. Of a guest all is noted with its first virtual CPU.
    needed: Vec<Option<f64>>,
    /// By reservation, the most that it can get.
    given: Vec<f64>,
    /// By reservation, whether neither it nor what is around it has a limit.
    unlimited: Vec<bool>,
    /// By reservation, the CPU that it is on.
    home: Vec<usize>,
    /// By CPU; one for all of them, if what runs on them is not pinned.
    cpus: Vec<OfCpu>,
}

/// What is known of a CPU, if what runs there has no other.
#[derive(Clone, Copy)]
struct OfCpu {
    /// Whether all that is there together needs no more than there is, and is known.
    fits: bool,
    /// The reservation that comes before all others, if one does, and what it gets for certain.
    first: Option<(usize, f64)>,
    /// Whether nothing there is random.
    regular: bool,
}

impl LongRunShares {
    fn of(laid: &LaidPlan, inputs: &InputFiles) -> Self {
        let count = laid.reservations.len();
        let mut balance = Self {
            needed: vec![Some(0.0); count],
            given: vec![fastest(laid); count],
            unlimited: vec![true; count],
            home: vec![0; count],
            cpus: Vec::new(),
        };
        let members = members_of(laid);
        for member in &members {
            balance.note(member, &laid.plan.root);
        }
        for task in &laid.tasks {
            balance.add(laid, task, inputs);
        }
        let cpus = laid.plan.cpus.len();
        let alone = laid.plan.overheads.is_free() && (cpus == 1 || !laid.plan.pinned.is_empty());
        let boosts = laid.tasks.iter().any(boosts);
        let count = if laid.plan.pinned.is_empty() { 1 } else { cpus };
        balance.cpus = (0..count)
            .map(|cpu| {
                let here = members.iter().filter(|member| member.cpu == cpu);
                let here: Vec<&RootMember> = here.collect();
                OfCpu {
                    fits: alone && !boosts && balance.all_fit(&here),
                    // A boost would come before it.
                    first: first(&here).filter(|_| alone && !boosts),
                    regular: is_regular_on(laid, &members, cpu),
                }
            })
            .collect();
        balance
    }

    /// Notes what a member of the host, and what is inside of it, can get, and where.
    fn note(&mut self, member: &RootMember, root: &Level) {
        let most = member.speed.min(most(&member.supply, member.speed));
        self.given[member.number] = most;
        self.home[member.number] = member.cpu;
        let is_guest = member.guest.is_some();
        self.unlimited[member.number] = !is_guest && member.supply.rule == Rule::Unlimited;
        match member.guest {
            Some(first) if first != member.number => self.given[first] += most,
            Some(_) => {}
            None => {
                if let Some(LevelMember::Reservation(inner)) = root.members.get(member.index) {
                    let number = &mut { member.number };
                    self.note_inside(&inner.inside, member.number, member, number);
                }
            }
        }
    }

    fn note_inside(&mut self, level: &Level, own: usize, root: &RootMember, number: &mut usize) {
        for member in &level.members {
            let LevelMember::Reservation(inner) = member else {
                continue;
            };
            *number += 1;
            let index = *number;
            self.unlimited[index] = self.unlimited[own] && inner.rule == Rule::Unlimited;
            self.given[index] = self.given[own].min(most(&inner.supply(), root.speed));
            self.home[index] = root.cpu;
            self.note_inside(&inner.inside, index, root, number);
        }
    }

    /// Adds what a task needs to its reservation, and to those around it.
    fn add(&mut self, laid: &LaidPlan, task: &LaidTask, inputs: &InputFiles) {
        let mut needs = match &task.task {
            None => Some(f64::INFINITY),
            Some(_) if boosts(task) => None,
            Some(task) => utilisation(task, inputs),
        };
        let mut at = Some(task.reservation);
        // What is inside of a reservation never uses more than that can get.
        while let Some(reservation) = at {
            let sum = self.needed[reservation].zip(needs).map(|(a, b)| a + b);
            self.needed[reservation] = sum;
            needs = needs.map(|needs| needs.min(self.given[reservation]));
            at = laid.reservations[reservation].outer;
        }
    }

    /// Whether the members of a CPU need less together than it has, each no more than it can get.
    fn all_fit(&self, here: &[&RootMember]) -> bool {
        let Some(speed) = here.first().map(|member| member.speed) else {
            return true;
        };
        let needs = here.iter().map(|member| {
            let most = member.speed.min(most(&member.supply, member.speed));
            // Any part of what a guest needs may come to this virtual CPU of it.
            let needed = self.needed[member.guest.unwrap_or(member.number)]?;
            Some(needed.min(most))
        });
        let sum: Option<f64> = needs.sum();
        sum.is_some_and(|needs| needs < speed * (1.0 - ROUNDING))
    }

    /// Whether the queue of a reservation grows.
    fn growth(&self, reservation: usize, queue: &BacklogMinima) -> Option<Growth> {
        let here = self.cpus[self.home[reservation]];
        if let Some(needed) = self.needed[reservation].filter(|needed| needed.is_finite()) {
            let given = self.given[reservation];
            if needed > given * (1.0 + ROUNDING) {
                return Some(Growth::Demand { needed, given });
            }
            let enough = |(first, sure): (usize, f64)| {
                first == reservation && needed < sure * (1.0 - ROUNDING)
            };
            if here.first.is_some_and(enough) || here.fits && self.unlimited[reservation] {
                return None;
            }
        }
        let (least, released) = queue.least();
        let rises = least.windows(2).all(|pair| pair[0] < pair[1]);
        let by = least[PARTS - 1].saturating_sub(least[0]) as f64;
        let enough = match here.regular {
            true => 0.0,
            false => 3.0 * (released as f64).sqrt(),
        };
        (least[0] > 0 && least[PARTS - 1] < u64::MAX && rises && by >= enough).then_some(
            Growth::Measured {
                before: least[0],
                after: least[PARTS - 1],
            },
        )
    }
}

/// The most that a reservation can get in the long run of what there is.
fn most(reservation: &VirtualCpu, there_is: f64) -> f64 {
    let share = |part: f64| part / reservation.period.as_secs_f64();
    match &reservation.rule {
        Rule::Unlimited => there_is,
        Rule::Server(kind) if !kind.answers().is_limit => there_is,
        // Nobody counts on slack.
        Rule::Windows(windows) | Rule::WindowsAndSlack { windows, .. } => {
            let open: f64 = windows
                .iter()
                .map(|window| window.length.as_secs_f64())
                .sum();
            share(open) * there_is
        }
        _ => share(reservation.budget.as_secs_f64()) * there_is,
    }
}

/// What a reservation gets for certain in the long run while it has work and comes before all others.
fn sure(reservation: &VirtualCpu, there_is: f64) -> f64 {
    match reservation.rule {
        Rule::Server(kind) if kind != ServerKind::SoftConstantBandwidth => {
            reservation.budget.as_secs_f64() / reservation.period.as_secs_f64() * there_is
        }
        _ => most(reservation, there_is),
    }
}

/// Whether its jobs come before all others for a time.
fn boosts(task: &LaidTask) -> bool {
    task.task.as_ref().is_some_and(|task| task.boost.is_some())
}

fn fastest(laid: &LaidPlan) -> f64 {
    let fastest = laid.plan.cpus.iter().map(|speed| speed.as_permille()).max();
    f64::from(fastest.unwrap_or(1_000)) / 1_000.0
}

/// A reservation that is a member of the host.
struct RootMember {
    /// Its position among the members that the plan lists, a guest being one of them.
    index: usize,
    /// Its number among the reservations.
    number: usize,
    /// Of a virtual CPU of a guest, the number of the first.
    guest: Option<usize>,
    supply: VirtualCpu,
    /// The CPU that it is pinned to; 0 if it is to none.
    cpu: usize,
    /// How fast that is; the fastest, if it is not pinned.
    speed: f64,
}

/// The reservations that are members of the host, virtual CPUs of guests one by one.
fn members_of(laid: &LaidPlan) -> Vec<RootMember> {
    let mut members: Vec<RootMember> = Vec::new();
    let (mut number, mut position) = (0, 0);
    let speed = |cpu: Option<&usize>| match cpu {
        Some(cpu) => f64::from(laid.plan.cpus[*cpu].as_permille()) / 1_000.0,
        None => fastest(laid),
    };
    for (index, member) in laid.plan.root.members.iter().enumerate() {
        let (supplies, guest, behind) = match member {
            LevelMember::Task(_) => {
                position += 1;
                continue;
            }
            LevelMember::Reservation(inner) => (vec![inner.supply()], None, inside(&inner.inside)),
            LevelMember::Guest(guest) => (supplies_of(guest), Some(number + 1), 0),
        };
        for supply in supplies {
            number += 1;
            let pinned = laid.plan.pinned.get(position);
            position += 1;
            members.push(RootMember {
                index,
                number,
                guest,
                supply,
                cpu: pinned.copied().unwrap_or(0),
                speed: speed(pinned),
            });
        }
        number += behind;
    }
    members
}

/// Whether nothing is random of the tasks that may run on a CPU.
fn is_regular_on(laid: &LaidPlan, members: &[RootMember], cpu: usize) -> bool {
    // The reservation of the host that a task is in, or the first virtual CPU of its guest.
    let outermost = |task: &LaidTask| {
        let mut at = task.reservation;
        while let Some(outer) = laid.reservations[at].outer.filter(|outer| *outer > 0) {
            at = outer;
        }
        at
    };
    let is_here = |task: &&LaidTask| {
        let own = outermost(task);
        members
            .iter()
            .any(|it| it.cpu == cpu && it.guest.unwrap_or(it.number) == own)
    };
    let mut tasks = laid.tasks.iter().filter(is_here);
    tasks.all(|task| task.task.as_ref().is_none_or(is_regular))
}

/// The reservation of a CPU that comes before all its other members, if ranks are fixed, and what it gets
/// for certain. A guest gives no task a virtual CPU for certain.
fn first(here: &[&RootMember]) -> Option<(usize, f64)> {
    let ranks = here.iter().map(|member| match member.supply.rank {
        Rank::Fixed(rank) => Some(rank),
        Rank::Deadline(_) => None,
    });
    let ranks: Option<Vec<u64>> = ranks.collect();
    let first = match ranks {
        None => here.first().filter(|_| here.len() == 1)?,
        Some(ranks) => {
            let least = ranks.iter().min()?;
            let mut firsts = ranks.iter().zip(here).filter(|(rank, _)| *rank == least);
            let (_, first) = firsts.next()?;
            if firsts.next().is_some() {
                return None;
            }
            first
        }
    };
    let sure = sure(&first.supply, first.speed);
    first.guest.is_none().then_some((first.number, sure))
}

/// How many reservations are inside of a level.
fn inside(level: &Level) -> usize {
    let members = level.members.iter();
    members
        .map(|member| match member {
            LevelMember::Reservation(inner) => 1 + inside(&inner.inside),
            LevelMember::Guest(guest) => guest.vcpus.len(),
            LevelMember::Task(_) => 0,
        })
        .sum()
}

/// The supplies of the virtual CPUs of a guest, each with its part of a shared budget.
fn supplies_of(guest: &Guest) -> Vec<VirtualCpu> {
    let count = guest.vcpus.len().max(1) as u64;
    let mut supplies = guest.vcpus.clone();
    for supply in supplies.iter_mut().filter(|_| guest.shares_budget) {
        supply.budget = supply.budget.scaled_down(1, count);
    }
    supplies
}
