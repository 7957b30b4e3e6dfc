//! The load of a priority together with all higher ones.

use std::cmp::Ordering;

use super::utilisation::{ONE_CPU, UtilisationEnclosure, compare_utilisation};
use super::window_demand::LONGEST_WINDOW;
use crate::sporadic_task::SporadicTask;

/// How the load of a priority and all higher ones compares with the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadOrder {
    Below,
    Exactly,
    Above,
}

/// The load of a priority and all higher ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct LevelLoad {
    enclosure: UtilisationEnclosure,
    pub(super) capacity: LoadOrder,
    /// The execution times of one job of each.
    pub(super) one_each: u64,
}

impl Default for LevelLoad {
    fn default() -> Self {
        Self {
            enclosure: UtilisationEnclosure::default(),
            capacity: LoadOrder::Below,
            one_each: 0,
        }
    }
}

impl LevelLoad {
    /// This with the task `index`, after all before it.
    pub(super) fn plus(self, tasks: &[SporadicTask], index: usize) -> Self {
        let Some(task) = tasks.get(index) else {
            return self;
        };
        let enclosure = self.enclosure.plus(task);
        let compared = enclosure
            .compare(ONE_CPU)
            .unwrap_or_else(|| compare_utilisation(up_to(tasks, index), 1));
        Self {
            enclosure,
            capacity: match compared {
                Ordering::Less => LoadOrder::Below,
                Ordering::Equal => LoadOrder::Exactly,
                Ordering::Greater => LoadOrder::Above,
            },
            one_each: self.one_each + task.execution().as_nanos(),
        }
    }

    /// A lower bound of every w with w = `base` + the demand in w, which is at least w times the
    /// load.
    pub(super) fn least_window(self, base: u64) -> u64 {
        let load = (self.enclosure.rounded_down >> 32) as u64;
        let Some(idle) = (1_u64 << 32).checked_sub(load).filter(|idle| *idle > 0) else {
            return base;
        };
        match u32::try_from(base) {
            Ok(base) => (u64::from(base) << 32) / idle,
            Err(_) => {
                ((u128::from(base) << 32) / u128::from(idle)).min(u128::from(LONGEST_WINDOW)) as u64
            }
        }
    }
}

/// The tasks up to `index`.
pub(super) fn up_to(tasks: &[SporadicTask], index: usize) -> &[SporadicTask] {
    tasks.get(..=index).unwrap_or_default()
}
