//! Where the moments of arrival of a period lie, and where what becomes of a job has kinks in them.
//!
//! With the server on at n + r, C(n, n + r) may jump where n + r passes a lattice point: as much as Q
//! does there. Q jumps at places that lie j budgets below whole strides, where a server is that was
//! busy for j periods from an empty start on, the less the larger j; so most jumps do not matter.
//! What is to be split is split at the largest. With the server off, only whole strides matter.

use std::ops::Range;

use super::{BudgetUse, StepQueue};

/// What is shorter, in steps, is nothing.
const NOTHING: f64 = 1e-12;

/// A range of moments n of arrival, in one period after a period start, that a rule integrates over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Panel {
    pub(super) low: f64,
    pub(super) high: f64,
    /// Full periods between the one that the job comes in and the one that r leads to.
    pub(super) periods: usize,
    /// If the server is on at n + r: the steps of its budget that are spent at n are those from here.
    pub(super) on: Option<f64>,
}

impl Panel {
    /// The lattice step, counted from `begin`, that the whole panel lies in, if there is one.
    pub(super) fn step_from(&self, begin: f64) -> Option<f64> {
        let step = (self.low - begin + NOTHING).max(0.0).floor();
        (self.high - begin - NOTHING <= step + 1.0).then_some(step)
    }
}

/// Cuts a period into panels.
pub(super) struct Stretches {
    kind: BudgetUse,
    budget_steps: usize,
    period_steps: f64,
    stride: usize,
    /// For each class of lattice points modulo the stride, how much C jumps there at most.
    jumps: Vec<f64>,
    /// The sums of these up to a class.
    sums: Vec<f64>,
}

impl Stretches {
    pub(super) fn new(queue: &StepQueue, jumps: &[f64]) -> Self {
        let mut sum = 0.0;
        let sums = jumps.iter().map(|jump| {
            sum += jump;
            sum
        });
        Self {
            kind: queue.kind,
            budget_steps: queue.budget_steps,
            period_steps: queue.period_steps,
            stride: queue.stride,
            sums: sums.collect(),
            jumps: jumps.to_vec(),
        }
    }

    /// The ranges in which the server is on, or off, throughout at n + r.
    pub(super) fn at(&self, r: f64) -> Vec<Panel> {
        let budget = self.budget_steps as f64;
        let off = self.period_steps - budget;
        let first = (r / self.period_steps).floor() as usize;
        let mut ranges = Vec::new();
        for periods in first..=first + 1 {
            let begin = periods as f64 * self.period_steps - r;
            let (on, idle) = match self.kind {
                BudgetUse::Deferrable => (begin, begin + budget),
                BudgetUse::Periodic => (begin + off, begin),
            };
            for (low, high, on) in [(on, on + budget, Some(on)), (idle, idle + off, None)] {
                let panel = Panel {
                    low: low.max(0.0),
                    high: high.min(self.period_steps),
                    periods,
                    on,
                };
                if panel.high - panel.low > NOTHING {
                    ranges.push(panel);
                }
            }
        }
        ranges
    }

    /// Cuts where a periodic server goes on, and at whole strides.
    pub(super) fn cut(&self, panel: Panel, panels: &mut Vec<Panel>) {
        if panel.high - panel.low < NOTHING {
            return;
        }
        let off = self.period_steps - self.budget_steps as f64;
        if self.kind == BudgetUse::Periodic
            && panel.low + NOTHING < off
            && off < panel.high - NOTHING
        {
            self.cut(Panel { high: off, ..panel }, panels);
            self.cut(Panel { low: off, ..panel }, panels);
            return;
        }
        let stride = self.stride as f64;
        let Some(origin) = self.whole_strides(&panel) else {
            panels.push(panel);
            return;
        };
        let mut low = panel.low;
        let mut k = ((low - origin + NOTHING) / stride).floor() + 1.0;
        while origin + k * stride < panel.high - NOTHING {
            let high = origin + k * stride;
            panels.push(Panel { low, high, ..panel });
            (low, k) = (high, k + 1.0);
        }
        panels.push(Panel { low, ..panel });
    }

    /// From where to count whole strides, if they matter.
    fn whole_strides(&self, panel: &Panel) -> Option<f64> {
        let given = ((panel.periods * self.budget_steps) % self.stride) as f64;
        match (panel.on, self.kind) {
            (Some(begin), _) => Some(begin - given),
            // Whoever comes in the period that he is done in waits for none of its replenishments.
            (None, BudgetUse::Deferrable) => {
                (panel.periods > 0).then_some(self.period_steps + given)
            }
            (None, BudgetUse::Periodic) => {
                Some(self.period_steps - self.budget_steps as f64 + given)
            }
        }
    }

    /// Where a panel is best split: at the largest jump in it, in the middle if there is none.
    pub(super) fn split(&self, panel: &Panel) -> f64 {
        let middle = 0.5 * (panel.low + panel.high);
        let Some(begin) = panel.on else {
            return middle;
        };
        let given = panel.periods * self.budget_steps;
        let steps = self.inside(panel, begin);
        let jump = |step: &usize| self.jumps[(given + step) % self.stride];
        let largest = steps.max_by(|a, b| jump(a).total_cmp(&jump(b)));
        let largest = largest.filter(|step| jump(step) > 0.0);
        largest.map_or(middle, |step| begin + step as f64)
    }

    /// The sum of all jumps within a panel that has no whole strides in it.
    pub(super) fn jumps_in(&self, panel: &Panel) -> f64 {
        let Some(begin) = panel.on else { return 0.0 };
        let steps = self.inside(panel, begin);
        if steps.is_empty() {
            return 0.0;
        }
        let class = (panel.periods * self.budget_steps + steps.start) % self.stride;
        let last = (class + steps.len() - 1).min(self.stride - 1);
        self.sums[last] - self.sums[class] + self.jumps[class]
    }

    /// The lattice points within a panel, as steps after `begin`.
    fn inside(&self, panel: &Panel, begin: f64) -> Range<usize> {
        let first = (panel.low - begin + NOTHING).floor().max(0.0) as usize + 1;
        let end = (panel.high - begin - NOTHING).ceil().max(0.0) as usize;
        first..end.max(first)
    }
}
