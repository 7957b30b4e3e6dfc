//! What a virtual CPU of a domain gets of its level: rule, budget and rank.

use tailbound_model::{
    BudgetScope, Builtin, CpuPromise, Domain, HostScheduling, Placement, Precedence, Reservation,
    Scheduling, ServerKind,
};
use tailbound_time::Duration;

use super::layout::{Inside, ReservationNode};
use super::mapping::{BEHIND_DEADLINES, LONGEST, Mapping, unlimited};
use super::order::by_priority;
use super::problem::HostError;
use super::subsystems;
use crate::hierarchy::{Rank, Rule};

/// Where a virtual CPU stands in its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Supply {
    /// Among the reservations.
    Guaranteed,
    /// Below them all.
    Rest,
}

impl Mapping<'_> {
    /// A virtual CPU of a domain with nothing inside yet, and where it stands.
    pub(super) fn supply(
        &self,
        name: &str,
        domain: &Domain,
        vcpu: usize,
        within: Option<Scheduling>,
    ) -> Result<(ReservationNode, Supply), HostError> {
        let mut group = unlimited(Rank::Fixed(0), Inside::of(Vec::new()));
        group.domain = Some(name.to_owned());
        group.vcpu = Some(vcpu);
        for subsystem in subsystems::ALL {
            if subsystem.supply(self, domain, &mut group)? {
                return Ok((group, Supply::Guaranteed));
            }
        }
        let Some(reservation) = &domain.reservation else {
            return Ok((group, Supply::Rest));
        };
        let one_at_a_time = self.goes_one_at_a_time(name, domain);
        simulated(name, domain, (reservation, one_at_a_time))?;
        self.budget(name, reservation, &mut group)?;
        if one_at_a_time {
            group.budget = group.budget.min(group.period);
        }
        let backend = reservation.backend;
        if backend.promise() == CpuPromise::Nothing && !backend.is_real_time_without_budget() {
            return Ok((group, Supply::Rest));
        }
        group.rank = self.rank_of(reservation, within, group.period);
        let ordered = matches!(group.rank, Rank::Deadline(_));
        let without_deadline =
            matches!(group.rule, Rule::Server(kind) if !kind.answers().has_deadline);
        if ordered && without_deadline {
            let domain = name.to_owned();
            return Err(HostError::NoDeadline { domain });
        }
        Ok((group, Supply::Guaranteed))
    }

    fn budget(
        &self,
        name: &str,
        reservation: &Reservation,
        group: &mut ReservationNode,
    ) -> Result<(), HostError> {
        let backend = reservation.backend;
        if !backend.has_budget() {
            return Ok(());
        }
        // A cap without a guarantee is full again at the start of each period and kept within it.
        let enforced = backend.server_kind().unwrap_or(ServerKind::Deferrable);
        let kind = reservation.server.unwrap_or(enforced);
        let (Some(budget), Some(period)) = (reservation.budget, reservation.period) else {
            let domain = name.to_owned();
            return Err(HostError::NoBudget { domain });
        };
        if period > LONGEST {
            return Err(HostError::TooLong {
                place: format!("domains.{name}.reservation.period"),
                length: period,
                limit: LONGEST,
            });
        }
        group.rule = kind.into();
        (group.budget, group.period) = (budget, period);
        Ok(())
    }

    /// Whether a domain has nothing to do but one request after the other, of one service: of CPUs that share its budget
    /// it needs the first.
    fn goes_one_at_a_time(&self, name: &str, domain: &Domain) -> bool {
        let services = self.description.services.values();
        let mut own = services.filter(|service| service.domain == name);
        let is_alone =
            domain.tasks.is_empty() && !domain.cpu_bound && domain.builtin != Some(Builtin::CpuHog);
        match (own.next(), own.next()) {
            (Some(service), None) => is_alone && service.max_in_flight == Some(1),
            _ => false,
        }
    }

    pub(super) fn rank_of(
        &self,
        reservation: &Reservation,
        within: Option<Scheduling>,
        period: Duration,
    ) -> Rank {
        if let Some(scheduling) = within {
            return match scheduling {
                Scheduling::EarliestDeadlineFirst if !period.is_zero() => Rank::Deadline(period),
                _ => by_priority(reservation.priority.0),
            };
        }
        let earliest = self.host.scheduling == HostScheduling::EarliestDeadlineFirst;
        let backend = reservation.backend;
        match backend.precedence() {
            _ if backend.promise() == CpuPromise::WholeCpus => Rank::Fixed(0),
            Precedence::Deadline => Rank::Deadline(period),
            _ if earliest => Rank::Deadline(period),
            _ => Rank::Fixed(BEHIND_DEADLINES + u64::from(u8::MAX - reservation.priority.0)),
        }
    }
}

/// Whether several CPUs share its budget.
pub(super) fn shares_budget(reservation: &Reservation) -> bool {
    reservation.budget_scope == BudgetScope::AllCpus && reservation.cpus.len() > 1
}

/// Refuses a reservation of which simulation does not follow the back end, or an option.
fn simulated(
    name: &str,
    domain: &Domain,
    (reservation, one_at_a_time): (&Reservation, bool),
) -> Result<(), HostError> {
    let in_one_queue = domain.placement == Placement::Global;
    if shares_budget(reservation) && !in_one_queue && !one_at_a_time {
        return Err(HostError::NotSimulated {
            place: format!("domains.{name}.reservation.budget_scope"),
            why: "simulation knows a budget of several CPUs for `tasks` of the domain in one queue, with placement = \"global\", and for one service that has one request at a time, with max_in_flight = 1",
        });
    }
    let options = reservation.options.given();
    let options = options.iter().map(|option| {
        let key = format!("options.{}", option.key);
        (key, option.not_simulated)
    });
    let backend = reservation.backend.traits();
    let mut all = options.chain([("backend".to_owned(), backend.not_simulated)]);
    match all.find_map(|(key, why)| Some((key, why?))) {
        None => Ok(()),
        Some((key, why)) => Err(HostError::NotSimulated {
            place: format!("domains.{name}.reservation.{key}"),
            why,
        }),
    }
}
