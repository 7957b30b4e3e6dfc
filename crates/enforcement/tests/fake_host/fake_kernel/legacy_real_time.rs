//! Real-time budgets of the groups of cgroup v1: the kernel books those of all groups on every CPU.

use std::io;
use std::path::Path;

use tailbound_time::Fraction;

use super::{CPU_ROOT, FakeState};

/// The control file.
pub const BUDGET: &str = "cpu.rt_runtime_us";

impl FakeState {
    /// Checks a value before it is written: the groups right below the root get what the root has, together.
    pub(super) fn check_legacy_budget(&self, file: &Path, value: &str) -> io::Result<()> {
        let group = file.parent().unwrap();
        let number = |group: &Path, name: &str| self.cgroups[group][name].parse().unwrap();
        let period = |group: &Path| number(group, "cpu.rt_period_us");
        let root = Path::new(CPU_ROOT);
        let others = self.cgroups.keys();
        let others = others.filter(|other| other.parent() == Some(root) && *other != group);
        let asked = Fraction::new(value.parse().unwrap(), period(group));
        let sum = others.fold(asked, |sum, other| {
            sum + Fraction::new(number(other, BUDGET), period(other))
        });
        match sum <= Fraction::new(number(root, BUDGET), period(root)) {
            true => Ok(()),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}
