//! The budget of each reservation in the course of time, as far as the calls to a sink tell it.

use super::setting::{Setting, SettingOfReservation};
use crate::hierarchy::{Piece, Rule, ServerKind};

/// What a curve of a budget shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BalanceKind {
    /// What is left of the budget.
    Left,
    /// What was used since the last replenishment. It stands for rules whose budget also changes in
    /// ways that no call tells: a periodic server's passes while it is idle, a polling one's is lost
    /// then, a sporadic one's comes back in parts.
    Used,
}

impl BalanceKind {
    /// The content of a reservation's curve; `None` if its rule has no budget.
    pub fn of(reservation: &SettingOfReservation) -> Option<Self> {
        match reservation.rule {
            Rule::Unlimited | Rule::Windows(_) | Rule::WindowsAndSlack { .. } => None,
            // Others spend it, too, and no call of this reservation tells that.
            Rule::Server(_) if reservation.shares_budget => Some(Self::Used),
            Rule::Server(kind) if kind.answers().shows_left => Some(Self::Left),
            Rule::Server(_) => Some(Self::Used),
        }
    }
}

/// A stretch of such a curve: a straight line from one instant to another, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurveSegment {
    /// From when.
    pub from: u64,
    /// Until when.
    pub until: u64,
    /// CPU time at its begin, in nanoseconds.
    pub first: u64,
    /// CPU time at its end, in nanoseconds.
    pub last: u64,
}

impl CurveSegment {
    /// The level at an instant on the line.
    pub(super) fn at(&self, at: u64) -> u64 {
        let length = u128::from(self.until - self.from).max(1);
        let passed = u128::from(at.clamp(self.from, self.until) - self.from);
        let way = u128::from(self.last.abs_diff(self.first)) * passed / length;
        // The way is at most the difference, which fits.
        let way = u64::try_from(way).unwrap_or(u64::MAX);
        if self.last >= self.first {
            self.first.saturating_add(way)
        } else {
            self.first.saturating_sub(way)
        }
    }

    /// The part that lies in a window.
    pub(super) fn cut(&self, from: u64, until: u64) -> Option<Self> {
        let (from, until) = (self.from.max(from), self.until.min(until));
        (from < until).then(|| Self {
            from,
            until,
            first: self.at(from),
            last: self.at(until),
        })
    }

    /// Whether another stretch goes on where this one ends, in the same direction: flat, or as CPU time
    /// is used, one for one.
    pub(super) fn goes_on_in(&self, next: &Self) -> bool {
        let flat = |stretch: &Self| stretch.first == stretch.last;
        self.until == next.from && self.last == next.first && flat(self) == flat(next)
    }
}

/// The curves of all reservations that have a budget.
#[derive(Clone, Debug, Default)]
pub struct Balances {
    /// The first is that of reservation 1; `None` has no budget.
    each: Vec<Option<Balance>>,
}

#[derive(Clone, Debug)]
struct Balance {
    kind: BalanceKind,
    /// The replenishment grid of a deferrable server, as its first point and the distance.
    grid: Option<(u64, u64)>,
    budget_ns: u64,
    at: u64,
    level: u64,
}

impl Balances {
    /// The budgets of all reservations at the start.
    pub fn new(setting: &Setting) -> Self {
        Self {
            each: setting.reservations.iter().map(Balance::new).collect(),
        }
    }

    /// What the curve of a reservation shows, and where it is; `None` if there is none.
    pub fn now(&self, reservation: usize) -> Option<(BalanceKind, u64)> {
        let balance = self.each.get(reservation.checked_sub(1)?)?.as_ref()?;
        Some((balance.kind, balance.level))
    }

    fn get(&mut self, reservation: usize) -> Option<&mut Balance> {
        self.each.get_mut(reservation.checked_sub(1)?)?.as_mut()
    }

    /// A job inside of a reservation ran.
    pub fn ran(&mut self, reservation: usize, piece: &Piece, tell: impl FnMut(CurveSegment)) {
        if let Some(balance) = self.get(reservation) {
            balance.spend(piece.from, piece.until, tell);
        }
    }

    /// A reservation has got budget back.
    pub fn replenished(&mut self, reservation: usize, at: u64, tell: impl FnMut(CurveSegment)) {
        if let Some(balance) = self.get(reservation) {
            match balance.kind {
                // Told when work comes, but it happened at the grid point.
                BalanceKind::Left if balance.grid.is_some() => balance.pass(at, tell),
                BalanceKind::Left => balance.jump(at, balance.budget_ns, tell),
                BalanceKind::Used => balance.jump(at, 0, tell),
            }
        }
    }

    /// Nothing happens to a reservation before `at`.
    pub fn pass(&mut self, reservation: usize, at: u64, tell: impl FnMut(CurveSegment)) {
        if let Some(balance) = self.get(reservation) {
            balance.pass(at, tell);
        }
    }
}

impl Balance {
    fn new(setting: &SettingOfReservation) -> Option<Self> {
        let budget_ns = setting.budget.as_nanos();
        let period_ns = setting.period.as_nanos().max(1);
        let kind = BalanceKind::of(setting)?;
        Some(Self {
            kind,
            grid: (kind == BalanceKind::Left
                && setting.rule == Rule::Server(ServerKind::Deferrable))
            .then(|| (setting.phase.as_nanos() % period_ns, period_ns)),
            budget_ns,
            at: 0,
            level: match kind {
                BalanceKind::Left => budget_ns,
                BalanceKind::Used => 0,
            },
        })
    }

    /// The first grid point from `at` on.
    fn grid_point(&self, at: u64) -> Option<u64> {
        let (first, distance) = self.grid?;
        if at <= first {
            return Some(first);
        }
        let passed = (at - first).div_ceil(distance);
        first.checked_add(passed.checked_mul(distance)?)
    }

    /// Time passes without use, until `until`.
    fn pass(&mut self, until: u64, mut tell: impl FnMut(CurveSegment)) {
        if until < self.at {
            return;
        }
        if self.level < self.budget_ns
            && let Some(point) = self.grid_point(self.at).filter(|point| *point <= until)
        {
            self.stretch(point, self.level, &mut tell);
            self.level = self.budget_ns;
        }
        self.stretch(until, self.level, &mut tell);
    }

    fn jump(&mut self, at: u64, level: u64, mut tell: impl FnMut(CurveSegment)) {
        self.stretch(at, self.level, &mut tell);
        self.level = level;
    }

    fn spend(&mut self, from: u64, until: u64, mut tell: impl FnMut(CurveSegment)) {
        self.pass(from, &mut tell);
        while self.at < until {
            // Full at a grid point that is passed in the middle of a piece.
            let next = self.at.saturating_add(1);
            let end = self
                .grid_point(next)
                .map_or(until, |point| point.min(until));
            let length = end - self.at;
            let level = match self.kind {
                BalanceKind::Left => self.level.saturating_sub(length),
                BalanceKind::Used => self.level.saturating_add(length),
            };
            self.stretch(end, level, &mut tell);
            if end < until {
                self.level = self.budget_ns;
                // No schedule runs for whole periods of a grid without a stop at its points; of one
                // that does, the last period is told.
                let distance = self.grid.map_or(u64::MAX, |(_, distance)| distance);
                let skipped = (until - end) / distance * distance;
                self.stretch(end + skipped, self.budget_ns, &mut tell);
            }
        }
    }

    /// A straight line from where the curve is to `level` at `until`.
    fn stretch(&mut self, until: u64, level: u64, tell: &mut impl FnMut(CurveSegment)) {
        if until > self.at {
            tell(CurveSegment {
                from: self.at,
                until,
                first: self.level,
                last: level,
            });
            self.at = until;
        }
        self.level = level;
    }
}

#[cfg(test)]
mod tests {
    use tailbound_time::Duration;

    use super::*;

    fn balances(rule: Rule) -> Balances {
        let setting = Setting {
            reservations: vec![SettingOfReservation {
                name: "r".into(),
                rule,
                shares_budget: false,
                budget: Duration::from_nanos(4),
                period: Duration::from_nanos(10),
                phase: Duration::from_nanos(1),
                path: vec![1],
            }],
            ..Setting::default()
        };
        Balances::new(&setting)
    }

    fn piece(from: u64, until: u64) -> Piece {
        Piece {
            task: 0,
            number: 0,
            cpu: 0,
            from,
            until,
            reservation: 1,
            boosted: false,
        }
    }

    /// The corners of the stretches, as instant and level.
    fn corners(stretches: &[CurveSegment]) -> Vec<(u64, u64, u64, u64)> {
        stretches
            .iter()
            .map(|stretch| (stretch.from, stretch.first, stretch.until, stretch.last))
            .collect()
    }

    #[test]
    fn a_deferrable_budget_is_full_at_its_grid_points_also_within_a_piece() {
        let mut segments = Vec::new();
        let mut balances = balances(Rule::Server(ServerKind::Deferrable));
        balances.ran(1, &piece(8, 14), |stretch| segments.push(stretch));
        balances.replenished(1, 33, |stretch| segments.push(stretch));
        assert_eq!(
            corners(&segments),
            [
                (0, 4, 8, 4),
                (8, 4, 11, 1),
                (11, 4, 14, 1),
                (14, 1, 21, 1),
                (21, 4, 33, 4)
            ]
        );
    }

    #[test]
    fn of_a_sporadic_server_what_was_used_is_told() {
        let mut segments = Vec::new();
        let mut balances = balances(Rule::Server(ServerKind::Sporadic));
        balances.ran(1, &piece(2, 5), |stretch| segments.push(stretch));
        balances.replenished(1, 12, |stretch| segments.push(stretch));
        balances.pass(1, 13, |stretch| segments.push(stretch));
        assert_eq!(
            corners(&segments),
            [(0, 0, 2, 0), (2, 0, 5, 3), (5, 3, 12, 3), (12, 0, 13, 0)]
        );
        assert_eq!(balances.now(1), Some((BalanceKind::Used, 0)));
        assert_eq!(balances.now(2), None);
    }
}
