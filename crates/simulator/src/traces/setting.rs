//! What a trace has to know besides the calls: the names, deadlines and budgets of a plan.

use tailbound_time::Duration;

use crate::hierarchy::{
    HierarchyPlan, Level, LevelMember, Piece, PlannedTask, Rank, Rule, VirtualCpu,
};

/// The cast of a simulation. Tasks count from 0 and reservations from 1, in the order of the tree, as
/// in the calls to a [`Sink`](crate::hierarchy::Sink).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// How fast each CPU is, in thousandths of full speed.
    pub(super) speeds: Vec<u32>,
    pub(super) tasks: Vec<SettingOfTask>,
    /// The first is reservation 1.
    pub(super) reservations: Vec<SettingOfReservation>,
    pub(super) rows: Vec<Row>,
}

/// What is known of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingOfTask {
    /// Its name.
    pub name: String,
    /// The response time within which its jobs must end, if there is one.
    pub deadline: Option<Duration>,
    /// The reservations that it is inside of, the innermost first; of a task of a guest those around its
    /// virtual CPUs.
    pub inside_of: Vec<usize>,
}

/// What is known of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingOfReservation {
    /// Its name.
    pub name: String,
    /// How its budget is spent and comes back.
    pub rule: Rule,
    /// Whether it is one of several virtual CPUs that share the budget.
    pub shares_budget: bool,
    /// CPU time per period.
    pub budget: Duration,
    /// The distance between replenishments; of windows the major frame.
    pub period: Duration,
    /// Replenishments lie at this time and whole periods from it, where the rule has a grid.
    pub phase: Duration,
    /// Itself, and the reservations that it is inside of, the innermost first.
    pub path: Vec<usize>,
}

/// A line of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// A reservation, from 1.
    Reservation(usize),
    /// A task, from 0.
    Task(usize),
}

impl Setting {
    /// The setting of a plan. Tasks are called "task 1", "task 2" and so on, reservations likewise, and a
    /// task ordered by deadlines has the deadline that it is ordered by.
    pub fn of(plan: &HierarchyPlan) -> Self {
        let mut setting = Self {
            speeds: plan.cpus.iter().map(|speed| speed.as_permille()).collect(),
            ..Self::default()
        };
        setting.add(&plan.root, &[]);
        setting
    }

    fn add(&mut self, level: &Level, inside_of: &[usize]) {
        for member in &level.members {
            match member {
                LevelMember::Task(task) => self.add_task(task, inside_of),
                LevelMember::Reservation(inner) => {
                    let path = self.add_reservation(&inner.supply(), false, inside_of);
                    self.add(&inner.inside, &path);
                }
                LevelMember::Guest(guest) => {
                    for vcpu in &guest.vcpus {
                        self.add_reservation(vcpu, guest.shares_budget, inside_of);
                    }
                    for task in &guest.tasks {
                        self.add_task(task, inside_of);
                    }
                }
            }
        }
    }

    fn add_task(&mut self, task: &PlannedTask, inside_of: &[usize]) {
        self.rows.push(Row::Task(self.tasks.len()));
        self.tasks.push(SettingOfTask {
            name: format!("task {}", self.tasks.len() + 1),
            deadline: match task.rank {
                Rank::Deadline(relative) => Some(relative),
                Rank::Fixed(_) => None,
            },
            inside_of: inside_of.to_vec(),
        });
    }

    /// Adds a reservation and returns its path, itself first.
    fn add_reservation(
        &mut self,
        vcpu: &VirtualCpu,
        shares_budget: bool,
        inside_of: &[usize],
    ) -> Vec<usize> {
        let number = self.reservations.len() + 1;
        self.rows.push(Row::Reservation(number));
        let path: Vec<usize> = [number].iter().chain(inside_of).copied().collect();
        self.reservations.push(SettingOfReservation {
            name: format!("reservation {number}"),
            rule: vcpu.rule.clone(),
            shares_budget,
            budget: vcpu.budget,
            period: vcpu.period,
            phase: vcpu.phase,
            path: path.clone(),
        });
        path
    }

    /// The same with other names for its tasks; those that get none keep theirs.
    #[must_use]
    pub fn name_tasks<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        for (task, name) in self.tasks.iter_mut().zip(names) {
            task.name = name.into();
        }
        self
    }

    /// The same with other names for its reservations; those that get none keep theirs.
    #[must_use]
    pub fn name_reservations<S: Into<String>>(
        mut self,
        names: impl IntoIterator<Item = S>,
    ) -> Self {
        for (reservation, name) in self.reservations.iter_mut().zip(names) {
            reservation.name = name.into();
        }
        self
    }

    /// The same with these deadlines for its tasks, relative to the releases.
    #[must_use]
    pub fn set_deadlines(mut self, deadlines: impl IntoIterator<Item = Option<Duration>>) -> Self {
        for (task, deadline) in self.tasks.iter_mut().zip(deadlines) {
            task.deadline = deadline;
        }
        self
    }

    /// How many CPUs there are.
    pub fn cpus(&self) -> usize {
        self.speeds.len()
    }

    /// The speed of each CPU in thousandths of full speed.
    pub fn speeds(&self) -> &[u32] {
        &self.speeds
    }

    /// The tasks.
    pub fn tasks(&self) -> &[SettingOfTask] {
        &self.tasks
    }

    /// The reservations; the first is reservation 1.
    pub fn reservations(&self) -> &[SettingOfReservation] {
        &self.reservations
    }

    /// Reservations and tasks in the order of the tree.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The name of a task.
    pub fn task_name(&self, task: usize) -> String {
        self.tasks.get(task).map_or_else(
            || format!("task {}", task.saturating_add(1)),
            |task| task.name.clone(),
        )
    }

    /// The absolute deadline of a job, in nanoseconds.
    pub(super) fn deadline_of(&self, task: usize, release: u64) -> Option<u64> {
        let relative = self.tasks.get(task)?.deadline?;
        Some(release.saturating_add(relative.as_nanos()))
    }

    /// The reservations whose budgets a piece uses, the innermost first.
    pub fn used_by(&self, piece: &Piece) -> &[usize] {
        match self.reservation(piece.reservation) {
            Some(innermost) if !piece.boosted => &innermost.path,
            _ => &[],
        }
    }

    /// The reservation with this number, from 1; none is the host.
    pub fn reservation(&self, number: usize) -> Option<&SettingOfReservation> {
        self.reservations.get(number.checked_sub(1)?)
    }

    /// Whether a reservation, by its number, is a time partition.
    pub fn has_windows(&self, number: usize) -> bool {
        let reservation = self.reservation(number);
        reservation.is_some_and(|it| it.rule.windows().is_some())
    }
}
