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

use super::course::{Backlog, PARTS};
use super::layout::LaidPlan;
use super::load::{is_regular, utilisation};
use super::result::Growth;
use crate::hierarchy::{Level, Member, Rank, Reservation, Rule};

/// An overload of less than this share is not told from none.
const ROUNDING: f64 = 1e-9;

/// What each reservation of a plan needs and can get in the long run, as shares of a CPU of full speed.
pub(super) struct Balance {
    /// By reservation, what its tasks need; infinite with a CPU hog, `None` if that is not known.
    needed: Vec<Option<f64>>,
    /// By reservation, the most that it can get.
    given: Vec<f64>,
    /// Whether all that is on the CPU together needs no more than there is, and is known.
    fits: bool,
    /// The reservation that comes before all others, if one does, and what it gets for certain.
    first: Option<(usize, f64)>,
    unlimited: Vec<bool>,
    regular: bool,
}

impl Balance {
    pub(super) fn of(laid: &LaidPlan, inputs: &InputFiles) -> Self {
        let fastest = laid.plan.cpus.iter().map(|speed| speed.as_permille()).max();
        let fastest = f64::from(fastest.unwrap_or(1_000)) / 1_000.0;
        let count = laid.reservations.len();
        let mut balance = Self {
            needed: vec![Some(0.0); count],
            given: vec![fastest; count],
            fits: false,
            first: None,
            unlimited: vec![true; count],
            regular: laid
                .tasks
                .iter()
                .all(|task| task.task.as_ref().is_none_or(is_regular)),
        };
        let mut number = 0;
        balance.supply(&laid.plan.root, 0, (fastest, fastest), &mut number);
        for task in &laid.tasks {
            let needs = match &task.task {
                None => Some(f64::INFINITY),
                Some(task) => utilisation(task, inputs),
            };
            let mut at = Some(task.reservation);
            // What is inside of a reservation never uses more than that can get.
            let mut needs = needs;
            while let Some(reservation) = at {
                let sum = balance.needed[reservation].zip(needs).map(|(a, b)| a + b);
                balance.needed[reservation] = sum;
                needs = needs.map(|needs| needs.min(balance.given[reservation]));
                at = laid.reservations[reservation].outer;
            }
        }
        let alone = laid.plan.cpus.len() == 1 && laid.plan.overheads.is_free();
        let capped = balance.top_level(laid);
        balance.fits = alone && capped.is_some_and(|needs| needs < fastest * (1.0 - ROUNDING));
        balance.first = alone.then(|| first(&laid.plan.root, fastest)).flatten();
        balance
    }

    /// `given` is what the level can get at most, and what a CPU has.
    fn supply(&mut self, level: &Level, own: usize, given: (f64, f64), number: &mut usize) {
        let (given, there_is) = given;
        self.given[own] = given;
        for member in &level.members {
            let Member::Reservation(inner) = member else {
                continue;
            };
            *number += 1;
            let index = *number;
            self.unlimited[index] = self.unlimited[own] && inner.rule == Rule::Unlimited;
            let inside = (given.min(most(inner, there_is)), there_is);
            self.supply(&inner.inside, index, inside, number);
        }
    }

    /// What the members of the host need together, each no more than it can get.
    fn top_level(&self, laid: &LaidPlan) -> Option<f64> {
        let members = laid.reservations.iter().enumerate();
        let members = members.filter(|(_, reservation)| reservation.outer == Some(0));
        members
            .map(|(index, _)| Some(self.needed[index]?.min(self.given[index])))
            .sum()
    }

    /// Whether the queue of a reservation grows.
    pub(super) fn growth(&self, reservation: usize, queue: &Backlog) -> Option<Growth> {
        if let Some(needed) = self.needed[reservation].filter(|needed| needed.is_finite()) {
            let given = self.given[reservation];
            if needed > given * (1.0 + ROUNDING) {
                return Some(Growth::Demand { needed, given });
            }
            let enough = |(first, sure): (usize, f64)| {
                first == reservation && needed < sure * (1.0 - ROUNDING)
            };
            if self.first.is_some_and(enough) || self.fits && self.unlimited[reservation] {
                return None;
            }
        }
        let (least, released) = queue.least();
        let rises = least.windows(2).all(|pair| pair[0] < pair[1]);
        let by = least[PARTS - 1].saturating_sub(least[0]) as f64;
        let enough = match self.regular {
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
fn most(reservation: &Reservation, there_is: f64) -> f64 {
    let share = |part: f64| part / reservation.period.as_secs_f64();
    match &reservation.rule {
        // These may get more than their budget says.
        Rule::Unlimited | Rule::SoftConstantBandwidth | Rule::PosixSporadic => there_is,
        Rule::Windows(windows) => {
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
fn sure(reservation: &Reservation, there_is: f64) -> f64 {
    match reservation.rule {
        Rule::PosixSporadic => {
            reservation.budget.as_secs_f64() / reservation.period.as_secs_f64() * there_is
        }
        _ => most(reservation, there_is),
    }
}

/// The reservation of a level that comes before all other members, by its position in the plan, if
/// ranks are fixed, and what it gets for certain.
fn first(root: &Level, there_is: f64) -> Option<(usize, f64)> {
    let mut number = 0;
    let mut found: Option<(u64, usize, f64)> = None;
    let mut tied = false;
    for member in &root.members {
        let Member::Reservation(inner) = member else {
            return None;
        };
        number += 1;
        let Rank::Fixed(rank) = inner.rank else {
            return (root.members.len() == 1).then_some((1, sure(inner, there_is)));
        };
        match found {
            Some((known, ..)) if known < rank => {}
            Some((known, ..)) if known == rank => tied = true,
            _ => (found, tied) = (Some((rank, number, sure(inner, there_is))), false),
        }
        number += inside(&inner.inside);
    }
    let (_, number, share) = found.filter(|_| !tied)?;
    Some((number, share))
}

/// How many reservations are inside of a level.
fn inside(level: &Level) -> usize {
    let members = level.members.iter();
    members
        .map(|member| match member {
            Member::Reservation(inner) => 1 + inside(&inner.inside),
            Member::Task(_) => 0,
        })
        .sum()
}
