//! Integrals over panels, cut where it matters most until they are as exact as wanted.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::StepQueue;
use super::quadrature::GaussLegendre;
use super::stretches::{Panel, Stretches};

/// Panels are cut until at most so many jobs are expected in one.
const JOBS_PER_PANEL: f64 = 1.5;
/// Numbers of nodes, tried one after the other until two integrals over a panel agree.
const NODES: [usize; 6] = [1, 2, 3, 4, 6, 9];
/// Where to begin and to end in these, by how many jobs are expected in a panel, or jobs long it is, at most.
const ORDERS: [(f64, usize, usize); 5] = [
    (0.003, 0, 1),
    (0.03, 1, 2),
    (0.15, 1, 3),
    (0.4, 1, 4),
    (f64::INFINITY, 1, 5),
];
/// No integral takes more panels.
const MOST_PANELS: usize = 20_000;
/// Shorter panels, in jobs, are as exact as floats are.
const SHORTEST: f64 = 1e-9;

/// Integrates piece by piece.
pub(super) struct Panels {
    /// The rules of 1, 2, ... nodes.
    rules: Vec<GaussLegendre>,
    /// Jobs per step: how many are expected, or how many fit, whatever is more.
    jobs_per_step: f64,
    jobs_expected_per_step: f64,
}

/// A panel, the integral over it, and about what that is wrong by: two orders differ by so much, and
/// jumps are passed over.
struct Integrated {
    panel: Panel,
    value: f64,
    apart: f64,
}

impl Panels {
    pub(super) fn new(queue: &StepQueue) -> Self {
        Self {
            rules: (1..=9).map(GaussLegendre::new).collect(),
            jobs_per_step: queue.work.rate.max(1.0 / queue.stride as f64),
            jobs_expected_per_step: queue.work.rate,
        }
    }

    /// The integral of `f` over all panels, and the sum of the differences of two orders, which is
    /// at most `tolerance` if that can be had: the panel in which they differ most is cut next.
    pub(super) fn integrate(
        &self,
        stretches: &Stretches,
        panels: &[Panel],
        mut f: impl FnMut(&Panel, f64) -> f64,
        tolerance: f64,
    ) -> (f64, f64) {
        let mut apart = 0.0;
        let mut heap = BinaryHeap::with_capacity(2 * panels.len());
        let length: f64 = panels.iter().map(|panel| panel.high - panel.low).sum();
        let enough = tolerance / length;
        for panel in panels {
            let parts = (self.jobs_expected_per_step * (panel.high - panel.low) / JOBS_PER_PANEL)
                .ceil()
                .max(1.0);
            let length = (panel.high - panel.low) / parts;
            for part in 0..parts as usize {
                let part_integral = self.over(
                    stretches,
                    Panel {
                        low: panel.low + part as f64 * length,
                        high: panel.low + (part + 1) as f64 * length,
                        ..*panel
                    },
                    &mut f,
                    enough,
                );
                apart += part_integral.apart;
                heap.push(part_integral);
            }
        }
        while apart > tolerance && heap.len() < MOST_PANELS {
            let Some(worst) = heap.pop() else { break };
            if self.jobs_per_step * (worst.panel.high - worst.panel.low) < SHORTEST {
                heap.push(worst);
                break;
            }
            let at = stretches.split(&worst.panel);
            apart -= worst.apart;
            for (low, high) in [(worst.panel.low, at), (at, worst.panel.high)] {
                let panel = Panel {
                    low,
                    high,
                    ..worst.panel
                };
                let half = self.over(stretches, panel, &mut f, enough);
                apart += half.apart;
                heap.push(half);
            }
        }
        heap.iter().fold((0.0, 0.0), |(value, apart), piece| {
            (value + piece.value, apart + piece.apart)
        })
    }

    /// The integral over a panel, by as many nodes as it takes to be wrong by `enough` per step of its length, if the
    /// nodes for a panel of that size suffice.
    fn over(
        &self,
        stretches: &Stretches,
        panel: Panel,
        f: &mut impl FnMut(&Panel, f64) -> f64,
        enough: f64,
    ) -> Integrated {
        let length = panel.high - panel.low;
        let size = self.jobs_per_step * length;
        let orders = ORDERS.iter().find(|(most, _, _)| size <= *most);
        let (_, first, last) = orders.unwrap_or(&ORDERS[ORDERS.len() - 1]);
        let rule = |order: usize| &self.rules[NODES[order] - 1];
        let mut with =
            |order: usize| rule(order).integrate(panel.low, panel.high, |n| f(&panel, n));
        let jumps = stretches.jumps_in(&panel) * length;
        let (mut coarse, mut order) = (with(*first), first + 1);
        loop {
            let value = with(order);
            // A jump between two nodes goes unnoticed, for as much as one of them counts.
            let apart = (value - coarse).abs() + jumps * rule(order).largest_weight();
            if apart <= enough * length || order >= *last {
                return Integrated {
                    panel,
                    value,
                    apart,
                };
            }
            (coarse, order) = (value, order + 1);
        }
    }
}

impl PartialEq for Integrated {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Integrated {}

impl PartialOrd for Integrated {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Integrated {
    fn cmp(&self, other: &Self) -> Ordering {
        self.apart.total_cmp(&other.apart)
    }
}
