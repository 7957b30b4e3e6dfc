//! Changes of reservations that stand.

use tailbound_model::ResourceInterface;
use tailbound_time::Instant;

use super::Enforcer;
use crate::admission::{Standing, UNKNOWN, admit_from, check_request};
use crate::backends::backend;
use crate::change_interface::{NotChanged, change_interface};
use crate::error::{AdmissionError, EnforcementError};
use crate::journal::{HeldDomain, PATIENCE_FOR_A_CHANGE, Record};
use crate::managers::ChangeRefused;
use crate::{Change, Plan};

/// How many notes one change makes at most.
const NOTES_OF_A_CHANGE: u64 = 3;

/// An interface that was changed.
#[derive(Clone, Debug)]
pub struct Changed {
    /// What was done.
    pub plan: Plan,
    /// When its manager puts it in force; `None` without a manager: from the kernel's next
    /// replenishment on, by the old period at the latest.
    pub in_force_at: Option<Instant>,
}

/// Another interface for a domain.
#[derive(Clone, Copy, Debug)]
pub struct ReservationChange<'a> {
    /// Whose.
    pub domain: &'a str,
    /// What it gets.
    pub interface: &'a ResourceInterface,
    /// The instant before which it is not in force.
    pub not_before: Instant,
}

impl Enforcer {
    /// Begins changes that are made one soon after another, all in one turn: other enforcers over the
    /// same directory wait until [`Enforcer::end_changes`], so what they hold is looked up once, and
    /// what budgets became is written once. If we die before, all that we hold is taken back anyway.
    /// [`Enforcer::apply`] and [`Enforcer::revert`] end it, too.
    ///
    /// # Errors
    /// If our turn or the others' journals cannot be had.
    pub fn begin_changes(&mut self) -> Result<(), EnforcementError> {
        if self.changes.is_none() {
            let turn = self.take_turn(PATIENCE_FOR_A_CHANGE)?;
            self.changes = Some((turn, self.held_by_others()?));
        }
        Ok(())
    }

    /// Ends what [`Enforcer::begin_changes`] began; nothing if nothing was.
    ///
    /// # Errors
    /// If what the budgets became cannot be written. It is written with the next change then, and our
    /// turn goes on: nobody else may plan with budgets that hold no longer.
    pub fn end_changes(&mut self) -> Result<(), EnforcementError> {
        self.journal.write_later()?;
        self.changes = None;
        Ok(())
    }

    /// Changes the budget, period or priority of an active reservation; its CPUs stay.
    ///
    /// # Errors
    /// As [`Enforcer::apply`]; the old interface then still holds.
    pub fn change(
        &mut self,
        domain: &str,
        interface: &ResourceInterface,
    ) -> Result<Plan, EnforcementError> {
        let changed = self.change_from(ReservationChange {
            domain,
            interface,
            not_before: Instant::ORIGIN,
        })?;
        Ok(changed.plan)
    }

    /// As [`Enforcer::change`], for a change that is not to be in force before an instant, nor before
    /// there is room for it: what others give back may hold only later. Back ends that have no manager
    /// cannot wait: call this when the instant has come; for the room it waits itself.
    ///
    /// # Errors
    /// As [`Enforcer::change`].
    pub fn change_from(
        &mut self,
        change: ReservationChange<'_>,
    ) -> Result<Changed, EnforcementError> {
        let ReservationChange {
            domain,
            interface,
            not_before,
        } = change;
        let held = self.journal.history().domain(domain);
        let held = held.ok_or_else(|| self.not_active(domain))?;
        let old = held.standing();
        if old.interface.cpus != interface.cpus {
            return Err(AdmissionError::CpusChanged(domain.into()).into());
        }
        let mut request = old.clone();
        request.on_common_grid &= old.interface.period == interface.period;
        request.request.interface = interface.clone();
        let only_managers = is_for_managers_alone(&old, &request);
        let shrinks = shrinks(held, &request, self.kernel.now());
        // Who plans something else meanwhile reckons with the larger budget.
        let needs_turn = self.changes.is_none() && !(only_managers && shrinks);
        let _turn = match needs_turn {
            true => Some(self.take_turn(PATIENCE_FOR_A_CHANGE)?),
            false => None,
        };
        if only_managers {
            let (plan, from) = self.plan_budget(&old, &request, shrinks, not_before)?;
            self.keep_room(&plan)?;
            let in_force_at = match shrinks {
                true => self.shrink_budget(&plan, &old, from),
                false => self.grow_budget(&plan, &old, from),
            };
            self.journal.release_room();
            return in_force_at.map(|in_force_at| Changed { plan, in_force_at });
        }
        let from = not_before.max(self.kernel.now());
        if let Some((plan, has_room_from)) = self.plan_by_journal(&old, &request, shrinks, from)? {
            self.keep_room(&plan)?;
            let changed = self.change_files(plan, &old, has_room_from);
            self.journal.release_room();
            return changed;
        }
        let active = self.active(Some(domain))?;
        let (mut plans, has_room_from) = self.plan_beside(&active, &[request], from)?;
        let Some(plan) = plans.pop() else {
            return Err(self.not_active(domain));
        };
        self.keep_room(&plan)?;
        let changed = self.change_all(plan, &old, not_before, has_room_from);
        self.journal.release_room();
        changed
    }

    /// Keeps room for all that is noted about a change: that it begins, and that it holds or did not come
    /// about. For want of room it is refused before anything is done.
    fn keep_room(&mut self, plan: &Plan) -> Result<(), EnforcementError> {
        let note = Record::Changed {
            request: plan.request.clone(),
            inheritance: plan.inheritance.clone(),
            accepted_at_ns: UNKNOWN,
            in_force_at_ns: UNKNOWN,
        };
        self.journal.keep_room(&note, NOTES_OF_A_CHANGE)
    }

    /// Changes what lies in the kernel, and what managers do.
    fn change_all(
        &mut self,
        plan: Plan,
        old: &Standing,
        not_before: Instant,
        has_room_from: Instant,
    ) -> Result<Changed, EnforcementError> {
        let waits = old.backend.has_manager();
        let not_before = match waits {
            true => not_before.max(has_room_from),
            false => {
                self.kernel.wait_until(has_room_from);
                not_before
            }
        };
        let settled_at = self.settled_at(&plan.request.domain);
        let held = self.journal.history().domain(&plan.request.domain);
        let held = held.ok_or_else(|| self.not_active(&plan.request.domain))?;
        // What later threads come with is as before until all is done.
        let inheritance = held.inheritance.clone();
        let announced = Plan {
            inheritance,
            ..plan.clone()
        };
        self.note(&announced, UNKNOWN)?;
        if let Some(auditor) = self.managers.auditor() {
            auditor.hold(&plan.request.domain);
        }
        let (kernel, managers) = (self.kernel.as_mut(), self.managers.as_mut());
        let (journal, old_interface) = (&mut self.journal, &old.interface);
        let changed = change_interface(kernel, journal, managers, &plan, old_interface, not_before);
        match &changed {
            // It is audited already, so that nothing has to be started that could fail.
            Ok(_) => _ = self.audit(&plan),
            Err(_) => {
                if let Some(auditor) = self.managers.auditor() {
                    auditor.resume(&plan.request.domain);
                }
            }
        }
        self.note_outcome(changed, plan, (old, &announced, settled_at))
    }

    /// Writes a budget into files in the kernel, and nothing else: the members are audited as before.
    fn change_files(
        &mut self,
        plan: Plan,
        old: &Standing,
        has_room_from: Instant,
    ) -> Result<Changed, EnforcementError> {
        debug_assert!(!old.backend.has_manager(), "a manager has no files");
        self.kernel.wait_until(has_room_from);
        let settled_at = self.settled_at(&plan.request.domain);
        self.note(&plan, UNKNOWN)?;
        let (kernel, managers) = (self.kernel.as_mut(), self.managers.as_mut());
        let (journal, old_interface) = (&mut self.journal, &old.interface);
        let at_once = Instant::ORIGIN;
        let changed = change_interface(kernel, journal, managers, &plan, old_interface, at_once);
        if let (Ok(_), Some(auditor)) = (&changed, self.managers.auditor()) {
            let interface = &plan.request.interface;
            auditor.set_budget(&plan.request.domain, interface.budget, interface.period);
        }
        let announced = plan.clone();
        self.note_outcome(changed, plan, (old, &announced, settled_at))
    }

    /// Notes that a change holds, or that it did not come about and that what was before it holds.
    fn note_outcome(
        &mut self,
        changed: Result<Option<Instant>, NotChanged>,
        plan: Plan,
        (old, announced, settled_at): (&Standing, &Plan, Instant),
    ) -> Result<Changed, EnforcementError> {
        match changed {
            Ok(in_force_at) => {
                // Without a manager the kernel goes over to it at its own next replenishment.
                let by_kernel = self.kernel.now().saturating_add(old.interface.period);
                self.note(&plan, in_force_at.unwrap_or(by_kernel))?;
                Ok(Changed { plan, in_force_at })
            }
            Err(NotChanged { cause, may_hold }) => {
                if !may_hold {
                    self.note_as_before(old, announced, settled_at)?;
                }
                Err(cause)
            }
        }
    }

    /// The plan of a change of the budget alone, by what the journal tells of the reservation, and from when on there is
    /// room for it; none where the members are to be looked at. Looking through /proc would take longer than all else.
    fn plan_by_journal(
        &self,
        old: &Standing,
        new: &Standing,
        shrinks: bool,
        from: Instant,
    ) -> Result<Option<(Plan, Instant)>, EnforcementError> {
        let with_new_budget = ResourceInterface {
            budget: new.interface.budget,
            ..old.interface.clone()
        };
        let held = self.journal.history().domain(&old.domain);
        let held = held.ok_or_else(|| self.not_active(&old.domain))?;
        if with_new_budget != new.interface {
            return Ok(None);
        }
        let chosen = backend(new.backend);
        check_request(new, &self.host)?;
        chosen.check_interface(new, &self.host)?;
        let standing: Vec<&Change> = held.entries.iter().map(|entry| &entry.change).collect();
        let Some(plan) = chosen.plan_budget(new, &held.inheritance, &standing)? else {
            return Ok(None);
        };
        // Where there was room for more, there is room for less.
        let has_room_from = match shrinks {
            true => from,
            false => {
                let active = self.active(Some(&old.domain))?;
                admit_from(&active, std::slice::from_ref(new), &self.host, from)?
            }
        };
        Ok(Some((plan, has_room_from)))
    }

    /// The plan of a change that only managers carry out, and from when on there is room for it.
    fn plan_budget(
        &self,
        old: &Standing,
        new: &Standing,
        shrinks: bool,
        not_before: Instant,
    ) -> Result<(Plan, Instant), EnforcementError> {
        let held = self.journal.history().domain(&old.domain);
        let held = held.ok_or_else(|| self.not_active(&old.domain))?;
        check_request(new, &self.host)?;
        backend(new.backend).check_interface(new, &self.host)?;
        // Where there was room for more, there is room for less.
        let from = match shrinks {
            true => not_before,
            false => {
                let active = self.active(Some(&old.domain))?;
                let from = not_before.max(self.kernel.now());
                admit_from(&active, std::slice::from_ref(new), &self.host, from)?
            }
        };
        let interface = &new.interface;
        let plan = Plan {
            request: new.request.clone(),
            changes: Vec::new(),
            managers: Vec::new(),
            mapping: vec![format!(
                "budget {} every {} -> the managers, from their next replenishment on",
                interface.budget, interface.period
            )],
            inheritance: held.inheritance.clone(),
        };
        Ok((plan, from))
    }

    /// Tells the managers, then notes it: if that fails, the larger budget is reckoned with.
    fn shrink_budget(
        &mut self,
        plan: &Plan,
        old: &Standing,
        from: Instant,
    ) -> Result<Option<Instant>, EnforcementError> {
        debug_assert!(plan.request.interface.budget <= old.interface.budget);
        let changed = self.managers.change(&plan.request, &old.interface, from);
        let in_force_at = changed.map_err(|refused| self.refusal(plan, refused))?;
        self.note(plan, in_force_at.unwrap_or(UNKNOWN))?;
        Ok(in_force_at)
    }

    /// Notes it, then tells the managers: nobody may plan with the smaller budget when the larger one
    /// holds.
    fn grow_budget(
        &mut self,
        plan: &Plan,
        old: &Standing,
        from: Instant,
    ) -> Result<Option<Instant>, EnforcementError> {
        let settled_at = self.settled_at(&plan.request.domain);
        self.note(plan, UNKNOWN)?;
        match self.managers.change(&plan.request, &old.interface, from) {
            Ok(in_force_at) => {
                self.note(plan, in_force_at.unwrap_or(UNKNOWN))?;
                Ok(in_force_at)
            }
            Err(refused) => {
                if !refused.may_hold {
                    self.note_as_before(old, plan, settled_at)?;
                }
                Err(self.refusal(plan, refused))
            }
        }
    }

    /// When nothing of what a domain had before may hold any more.
    fn settled_at(&self, domain: &str) -> Instant {
        let held = self.journal.history().domain(domain);
        held.map_or(Instant::ORIGIN, |held| held.pending.settled_at())
    }

    /// Writes down what holds from an instant on.
    fn note(&mut self, plan: &Plan, in_force_at: Instant) -> Result<(), EnforcementError> {
        let changed = Record::Changed {
            request: plan.request.clone(),
            inheritance: plan.inheritance.clone(),
            accepted_at_ns: self.kernel.now(),
            in_force_at_ns: in_force_at,
        };
        match self.changes {
            Some(_) => self.journal.append_later(changed),
            None => self.journal.append(changed),
        }
    }

    /// Writes down that all is as before a change that was noted and did not come about.
    fn note_as_before(
        &mut self,
        old: &Standing,
        plan: &Plan,
        settled_at: Instant,
    ) -> Result<(), EnforcementError> {
        let before = Plan {
            request: old.request.clone(),
            ..plan.clone()
        };
        // What was to end by then does so, and no sooner.
        self.note(&before, settled_at.max(self.kernel.now()))
    }

    fn refusal(&self, plan: &Plan, refused: ChangeRefused) -> EnforcementError {
        self.manager_error(&plan.request.domain, refused.reason)
    }
}

/// Whether only managers carry a change out: nothing in the kernel depends on budget and period
/// then, and looking through /proc would take longer than all else.
fn is_for_managers_alone(old: &Standing, new: &Standing) -> bool {
    let by_managers = old.backend.has_manager() && new.backend == old.backend;
    by_managers && old.interface.priority == new.interface.priority
}

/// Whether a change leaves everything but the budget, and that not larger than any that may hold now or
/// later.
fn shrinks(held: &HeldDomain, new: &Standing, now: Instant) -> bool {
    let budget = new.interface.budget;
    let is_less = |old: &ResourceInterface| {
        let with_old_budget = ResourceInterface {
            budget: old.budget,
            ..new.interface.clone()
        };
        budget <= old.budget && with_old_budget == *old
    };
    is_less(&held.request.interface) && held.pending.earlier_at(now).all(is_less)
}
