//! The distribution function of the response time, at any time.

use super::boundary::Boundary;
use super::quadrature::GaussLegendre;
use super::{Kind, Queue};

/// Cells are cut until at most so many jobs are expected in one.
const JOBS_PER_CELL: f64 = 1.5;
/// Numbers of nodes of the coarse and of the fine integral over a cell, by how many jobs are expected
/// in it, or jobs long it is, at most.
const ORDERS: [(f64, usize, usize); 5] = [
    (0.003, 1, 2),
    (0.03, 2, 3),
    (0.15, 3, 4),
    (0.4, 4, 6),
    (f64::INFINITY, 6, 9),
];
/// For searching, cells of the lattice are put together up to this.
const ROUGH_CELL: f64 = 0.1;
const ROUGH_ORDER: usize = 3;
/// Factorials up to here are far from the largest float.
const FACTORIALS: usize = 30;
/// Products with a smaller factor do not count.
const NOTHING: f64 = 1e-18;

/// Less than this many steps are none.
const NO_ROOM: f64 = 1e-10;

/// Evaluates F(r) = (1/P) times the integral over n from 0 to P of C(n, n + r), with C(n, T) the
/// probability that a job that comes n after a period start is done T after it.
pub(in crate::response_time) struct Responses<'a> {
    queue: &'a Queue,
    boundary: &'a Boundary,
    /// So many strides of work come in a period at most.
    reach: usize,
    /// The rules of 1, 2, ... nodes.
    rules: Vec<GaussLegendre>,
    inverses: Inverses,
}

/// Which rule integrates over a cell.
#[derive(Clone, Copy)]
enum Order {
    Coarse,
    Fine,
    /// Over cells that were put together.
    Rough,
}

/// Vectors that are filled anew at each place.
#[derive(Default)]
struct Scratch {
    arrived: Vec<f64>,
    mixture: Vec<f64>,
    waiting: Vec<f64>,
    early: Vec<f64>,
}

/// A stretch of n in which C(n, n + r) has no kink.
#[derive(Clone, Copy, Debug)]
struct Cell {
    low: f64,
    high: f64,
    /// Full periods between the one that the job comes in and the one that r leads to.
    periods: usize,
    /// If the server is on at n + r: the steps of its budget that are spent at n are those from here.
    on: Option<f64>,
}

/// One place of the integral.
struct Place {
    n: f64,
    /// What the server has offered by then, in whole steps and the rest.
    given: usize,
    rest: f64,
    /// The most that the work of the last u before n may exceed u by, plus the job itself; `None`
    /// if the server was off up to n.
    lead: Option<f64>,
}

impl<'a> Responses<'a> {
    pub(super) fn new(queue: &'a Queue, boundary: &'a Boundary) -> Self {
        let reach = queue.work.reach(queue.period_steps);
        Self {
            queue,
            boundary,
            reach,
            inverses: Inverses::up_to(reach + 1),
            rules: (1..=9).map(GaussLegendre::new).collect(),
        }
    }

    /// F(r), and about what it may be wrong by: the difference of two orders of integration, and
    /// the error of the workload's law.
    pub(in crate::response_time) fn cdf(&self, r: f64) -> (f64, f64) {
        let cells = self.cells(r, 1);
        let fine = self.integrate(&cells, r, Order::Fine);
        let coarse = self.integrate(&cells, r, Order::Coarse);
        let error = (fine - coarse).abs() + self.boundary.error + 1e-13;
        (fine.clamp(0.0, 1.0), error)
    }

    /// F(r) at lower order, for searching: kinks that are a fraction of a job apart are passed over.
    pub(in crate::response_time) fn roughly(&self, r: f64) -> f64 {
        let steps = (ROUGH_CELL / self.fineness(1.0)) as usize;
        let cells = self.cells(r, steps.max(1));
        let order = if steps > 1 {
            Order::Rough
        } else {
            Order::Coarse
        };
        self.integrate(&cells, r, order).clamp(0.0, 1.0)
    }

    /// So many jobs are expected in `length`, or so many jobs long it is.
    fn fineness(&self, length: f64) -> f64 {
        let jobs = self.queue.work.rate.max(1.0 / self.queue.stride as f64);
        jobs * length
    }

    fn rule(&self, cell: &Cell, order: Order) -> &GaussLegendre {
        let size = self.fineness(cell.high - cell.low);
        let found = ORDERS.iter().find(|(most, _, _)| size <= *most);
        let (_, coarse, fine) = found.unwrap_or(&ORDERS[ORDERS.len() - 1]);
        let nodes = match order {
            Order::Coarse => *coarse,
            Order::Fine => *fine,
            Order::Rough => ROUGH_ORDER,
        };
        &self.rules[nodes - 1]
    }

    fn integrate(&self, cells: &[Cell], r: f64, order: Order) -> f64 {
        let mut scratch = Scratch::default();
        let sum: f64 = cells
            .iter()
            .map(|cell| {
                let rule = self.rule(cell, order);
                rule.integrate(cell.low, cell.high, |n| {
                    let place = self.place(cell, n, r);
                    self.done(&place, &mut scratch)
                })
            })
            .sum();
        sum / self.queue.period_steps
    }

    /// Cuts [0, P] where C(n, n + r) may have kinks: where n + r passes a lattice point of the time
    /// that the server is on, where it goes on or off, and where work that came at the start of the
    /// period begins to matter. Of the lattice, only every `together`-th point counts.
    fn cells(&self, r: f64, together: usize) -> Vec<Cell> {
        let Queue {
            budget_steps: budget,
            period_steps: period,
            ..
        } = *self.queue;
        let off = period - budget as f64;
        let mut cells = Vec::new();
        let first = (r / period).floor() as usize;
        for periods in first..=first + 1 {
            let begin = periods as f64 * period - r;
            let (on, idle) = match self.queue.kind {
                Kind::Deferrable => (begin, begin + budget as f64),
                Kind::Periodic => (begin + off, begin),
            };
            for step in (0..budget).step_by(together) {
                let cell = Cell {
                    low: on + step as f64,
                    high: on + (step + together).min(budget) as f64,
                    periods,
                    on: Some(on),
                };
                self.add(&mut cells, cell);
            }
            let kinks = match self.queue.kind {
                Kind::Deferrable => period,
                Kind::Periodic => off,
            };
            let mut low = idle;
            let end = idle + off;
            while low < end - 1e-12 {
                // The next point above `low` that lies whole steps from `kinks`.
                let next = kinks + ((low - kinks + 1e-12).floor() + together as f64);
                let cell = Cell {
                    low,
                    high: next.min(end),
                    periods,
                    on: None,
                };
                self.add(&mut cells, cell);
                low = next;
            }
        }
        cells
    }

    /// Adds the part of `cell` that lies in the period, cut where a periodic server goes on and
    /// where too many jobs are expected for the integral to be exact.
    fn add(&self, cells: &mut Vec<Cell>, cell: Cell) {
        let (low, high) = (cell.low.max(0.0), cell.high.min(self.queue.period_steps));
        if high - low < 1e-12 {
            return;
        }
        let off = self.queue.period_steps - self.queue.budget_steps as f64;
        let mut ends = vec![high];
        if self.queue.kind == Kind::Periodic && low < off && off < high {
            ends.insert(0, off);
        }
        let mut from = low;
        for end in ends {
            let parts = (self.queue.work.rate * (end - from) / JOBS_PER_CELL)
                .ceil()
                .max(1.0);
            let length = (end - from) / parts;
            for part in 0..parts as usize {
                cells.push(Cell {
                    low: from + part as f64 * length,
                    high: from + (part + 1) as f64 * length,
                    ..cell
                });
            }
            from = end;
        }
    }

    fn place(&self, cell: &Cell, n: f64, r: f64) -> Place {
        let Queue {
            budget_steps: budget,
            period_steps: period,
            ..
        } = *self.queue;
        let off = period - budget as f64;
        let (step, rest) = match (cell.on, self.queue.kind) {
            (Some(begin), _) => {
                // Within one step of the lattice floats must not decide which one it is.
                let middle = 0.5 * (cell.low + cell.high);
                let at = if cell.high - cell.low <= 1.0 {
                    middle
                } else {
                    n
                };
                let step = (at - begin).max(0.0).floor();
                (step as usize, (n - begin - step).clamp(0.0, 1.0))
            }
            (None, Kind::Deferrable) => (budget, 0.0),
            (None, Kind::Periodic) => (0, 0.0),
        };
        let given = cell.periods * budget + step;
        let lead = match self.queue.kind {
            Kind::Deferrable if cell.periods == 0 => Some(r),
            Kind::Deferrable => Some(period - n + (given - budget) as f64 + rest),
            Kind::Periodic if n > off => Some(given as f64 + rest + off - n),
            Kind::Periodic => None,
        };
        Place {
            n,
            given,
            rest,
            lead,
        }
    }

    /// C at a place: over the job's own work.
    fn done(&self, place: &Place, scratch: &mut Scratch) -> f64 {
        let strides = place.given / self.queue.stride;
        let last = strides.min(self.reach);
        let work = &self.queue.work;
        work.probabilities_into(place.n, last, &mut scratch.arrived);
        self.boundary.mixture(place.rest, &mut scratch.mixture);
        let own = self.queue.tagged.iter();
        own.map(|(own, share)| share * self.done_with(place, own * self.queue.stride, scratch))
            .sum()
    }

    /// C at a place for a job of `own` steps: Pr(z + X(n) + own <= given, and X(u) + own <= u + lead
    /// for the last u before n), the second part by the last u at which it is an equality.
    fn done_with(&self, place: &Place, own: usize, scratch: &mut Scratch) -> f64 {
        let Some(most) = place.given.checked_sub(own) else {
            return 0.0;
        };
        let stride = self.queue.stride;
        let count = (most / stride).min(self.reach) + 1;
        let Scratch {
            arrived,
            mixture,
            waiting,
            early,
        } = scratch;
        self.boundary
            .at_strides_below(most, count, mixture, waiting);
        let total: f64 = arrived.iter().zip(&*waiting).map(|(p, q)| p * q).sum();
        let Some(lead) = place.lead else {
            return total;
        };
        let room = lead - own as f64;
        // A job that finds nothing to wait for has no room at all, up to the last digits of floats.
        if room < -NO_ROOM {
            return 0.0;
        }
        let room = room.max(0.0);
        let first = (room / stride as f64).floor() as usize + 1;
        let crossed = if let Some(jobs) = self.queue.work.in_jobs(place.n) {
            // e to the minus the jobs expected before and since is the same for all k.
            self.crossed_of_one_size(place, room, &waiting[..count], jobs)
        } else {
            let mut crossed = 0.0;
            for k in first..count {
                let since = (k * stride) as f64 - room;
                let before = place.n - since;
                if before <= 0.0 {
                    break;
                }
                let late = self.queue.work.probability(since, k);
                if late < NOTHING {
                    continue;
                }
                let work = &self.queue.work;
                work.probabilities_into(before, count - 1 - k, early);
                let slope = stride as f64 / before;
                let known = early.iter().zip(&waiting[k..]).enumerate();
                let rest: f64 = known
                    .map(|(y, (p, q))| p * (1.0 - y as f64 * slope) * q)
                    .sum();
                crossed += late * rest;
            }
            crossed
        };
        total - crossed
    }

    /// What crosses (see [`Responses::done_with`]) where all batches are one stride: the terms of
    /// Poisson laws, by recursion. `jobs` are expected in n.
    fn crossed_of_one_size(&self, place: &Place, room: f64, waiting: &[f64], jobs: f64) -> f64 {
        let stride = self.queue.stride as f64;
        let rate = self.queue.work.rate;
        let first = (room / stride).floor() as usize + 1;
        let mut crossed = 0.0;
        for k in first..waiting.len() {
            let since = k as f64 * stride - room;
            let before = place.n - since;
            if before <= 0.0 {
                break;
            }
            let late = self.inverses.power_over_factorial(rate * since, k);
            if late < NOTHING {
                continue;
            }
            let (mean, slope) = (rate * before, stride / before);
            let (mut early, mut rest) = (1.0, 0.0);
            for (y, (q, inverse)) in waiting[k..].iter().zip(&self.inverses.of).enumerate() {
                if y > 0 {
                    early *= mean * inverse;
                }
                rest += early * (1.0 - y as f64 * slope) * q;
                if early < NOTHING && y as f64 > mean {
                    break;
                }
            }
            crossed += late * rest;
        }
        crossed * (-jobs).exp()
    }
}

/// 1 / k for k = 0, 1, ... (1 for 0), and 1 / k!.
struct Inverses {
    of: Vec<f64>,
    of_factorial: Vec<f64>,
}

impl Inverses {
    fn up_to(last: usize) -> Self {
        let of: Vec<f64> = (0..=last).map(|k| 1.0 / k.max(1) as f64).collect();
        let of_factorial = of.iter().scan(1.0, |product, inverse| {
            *product *= inverse;
            Some(*product)
        });
        Self {
            of_factorial: of_factorial.take(FACTORIALS).collect(),
            of,
        }
    }

    /// x to the k over k!.
    fn power_over_factorial(&self, x: f64, k: usize) -> f64 {
        match self.of_factorial.get(k) {
            Some(inverse) => x.powi(k as i32) * inverse,
            None => self.of[1..=k]
                .iter()
                .fold(1.0, |power, inverse| power * x * inverse),
        }
    }
}
