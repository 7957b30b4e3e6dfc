//! Whether changes between the modes of a description keep all deadlines under the protocol that it asks
//! for, and how long new tasks wait then.

use std::collections::BTreeMap;

use serde::ser::{Serialize, SerializeStruct, Serializer};
use tailbound_analysis::AnalysisError;
use tailbound_analysis::interfaces::{PeriodicSupply, SupplyBound};
use tailbound_analysis::resolution::{WithFallen, with_agents, with_fallen};
use tailbound_analysis::schedulability::mode_change::{
    AcrossChange, ModeTask, NewModeStart, ProtocolGuarantee, Supplies, TaskInTransition, TaskKind,
    tasks_of_mode, transition_protocols,
};
use tailbound_model::{
    ChangeProtocol, Description, ModeChanges, ReservationServer, Scheduling, Service, TaskStart,
};
use tailbound_time::Duration;

use crate::AssessmentError;
use crate::mode_content::{ModeContent, modes};
use crate::schedulability::GuaranteedSupply;
use crate::schedulability::admission::JudgedReservations;

/// What the protocol means for the tasks of one domain in one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolVerdict {
    /// The protocol.
    pub protocol: ChangeProtocol,
    /// The mode before.
    pub from: String,
    /// The mode after.
    pub to: String,
    /// The domain, whose tasks differ between the two.
    pub domain: String,
    /// What is guaranteed, or why nothing is.
    pub transit: Result<InTransit, String>,
}

impl ProtocolVerdict {
    /// Why deadlines may be missed, if so.
    pub fn objection(&self) -> Option<String> {
        let why = self.transit.as_ref().err()?;
        let (from, to, domain) = (&self.from, &self.to, &self.domain);
        Some(format!(
            "the change from mode {from} to {to} is not shown to keep the deadlines of {domain}: {why}"
        ))
    }
}

impl Serialize for ProtocolVerdict {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let transit = self.transit.as_ref();
        let (kept, why) = (transit.ok(), transit.err());
        let ns = |time: Option<Duration>| time.map(Duration::as_nanos);
        let mut fields = out.serialize_struct("ProtocolVerdict", 10)?;
        fields.serialize_field("protocol", &self.protocol)?;
        fields.serialize_field("from", &self.from)?;
        fields.serialize_field("to", &self.to)?;
        fields.serialize_field("domain", &self.domain)?;
        fields.serialize_field("schedulable", &kept.is_some())?;
        fields.serialize_field("offset_ns", &ns(kept.and_then(|one| one.offset)))?;
        let bound = ns(kept.map(|one| one.latency_bound));
        fields.serialize_field("latency_bound_ns", &bound)?;
        fields.serialize_field("why", &why)?;
        fields.serialize_field("method", &kept.map(|one| one.theorem))?;
        fields.serialize_field("assumptions", ASSUMPTIONS)?;
        fields.end()
    }
}

/// A change in which no deadline is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InTransit {
    /// New tasks start this long after the old ones were stopped. None where the answer that they are stopped
    /// is the first instant at which nothing is left to do.
    pub offset: Option<Duration>,
    /// New tasks may be released at most so long after the old ones were stopped.
    pub latency_bound: Duration,
    /// By what it is known.
    pub theorem: &'static str,
}

/// What has to hold beside the theorems, for every change under a protocol.
pub const ASSUMPTIONS: &[&str] = &[
    "the agent is right that it has stopped tasks; one that is gone, or cannot say what runs, has no \
     guarantee until it has switched again",
    "a way back, or to a fallback, waits as long as the longest of the domain's changes",
    "jobs that are cut by the stop of their task are not counted as misses",
];

/// A mode with what its domains get.
struct JudgedMode<'a> {
    mode: ModeContent<'a>,
    held: JudgedReservations,
}

/// Every change of a description in which something may keep deadlines of a domain's tasks, under its protocol;
/// none where it asks for none.
///
/// # Errors
/// A reservation that cannot be derived.
pub fn protocols(description: &Description) -> Result<Vec<ProtocolVerdict>, AssessmentError> {
    let changes = &description.section::<ModeChanges>();
    if changes.protocol == ChangeProtocol::None || description.modes.is_empty() {
        return Ok(Vec::new());
    }
    // Agents take their time as tasks do; local modes are told by the modes of the system.
    let fallen = with_fallen(description)?;
    let hosted = with_agents(&fallen.description);
    let mut judged = BTreeMap::new();
    for mode in modes(&hosted) {
        let held = JudgedReservations::of(&hosted, &mode)?;
        let name = mode.mode.unwrap_or_default().to_owned();
        judged.insert(name, JudgedMode { mode, held });
    }
    let mut verdicts = Vec::new();
    for (from, old) in &judged {
        for (to, new) in judged.iter().filter(|(to, _)| *to != from) {
            let domains = description.domains.keys();
            for domain in domains.filter(|domain| goes_so(&fallen, (from, to), domain)) {
                let transit = match in_transit(domain, old, new, changes) {
                    Ok(None) => continue,
                    Ok(Some(_)) if runs_whole_jobs(description, domain) => Err(
                        "its jobs are not interrupted (`preemptive = false`), and the protocols of mode changes are for \
                         preemptive scheduling"
                            .to_owned(),
                    ),
                    Ok(Some(transit)) => Ok(transit),
                    Err(why) => Err(why),
                };
                verdicts.push(ProtocolVerdict {
                    protocol: changes.protocol,
                    from: from.clone(),
                    to: to.clone(),
                    domain: domain.clone(),
                    transit,
                });
            }
        }
    }
    Ok(verdicts)
}

/// Whether jobs of the domain's own tasks run to their ends in an order other than that of arrival.
fn runs_whole_jobs(description: &Description, domain: &str) -> bool {
    let domain = description.domains.get(domain);
    domain.is_some_and(|domain| !domain.preemptive && domain.scheduling != Scheduling::Fifo)
}

/// Whether a domain goes from one of these modes to the other: one that falls back does so on the way to another
/// mode, and leaves its fallback for any; for the others these are changes between the modes themselves.
fn goes_so(all: &WithFallen, (from, to): (&str, &str), domain: &str) -> bool {
    let of_domain = |mode: &str| {
        let fallen = all.fallen(mode)?;
        Some(fallen.domains.len() == 1 && fallen.domains[0] == domain)
    };
    match (of_domain(from), of_domain(to)) {
        (None, None) => true,
        (None, Some(falls)) => falls && from != all.mode_of(to),
        (Some(leaves), None) => leaves,
        (Some(_), Some(_)) => false,
    }
}

/// What is guaranteed to the tasks of a domain; nothing where nothing changes for them.
fn in_transit(
    domain: &str,
    old: &JudgedMode<'_>,
    new: &JudgedMode<'_>,
    changes: &ModeChanges,
) -> Result<Option<InTransit>, String> {
    let reserved = |judged: &JudgedMode<'_>| judged.mode.reservations.get(domain).copied().cloned();
    let reserved = (reserved(old), reserved(new));
    let same_tasks = released(domain, &old.mode) == released(domain, &new.mode);
    if same_tasks && (reserved.0.is_none() || !has_deadlines(&released(domain, &old.mode))) {
        return Ok(None);
    }
    let (Some(before), Some(after)) = &reserved else {
        return Err("the domain has no reservation, so nothing is known of what it gets".into());
    };
    if same_tasks && before == after && is_left_alone(domain, old, new) {
        return Ok(None);
    }
    let (old_tasks, new_tasks) = (tasks(domain, &old.mode)?, tasks(domain, &new.mode)?);
    let given = (given(domain, old, new)?, given(domain, new, old)?);
    let grows = share_grows(&given.0, &given.1);
    if grows && !same_tasks && changes.start == TaskStart::Accepted {
        return Err(
            "start = \"accepted\" lets new tasks begin before the larger reservation is in force; use \
             start = \"in-force\" with a protocol"
                .into(),
        );
    }
    let supplies = OnTheWay::of(domain, given, before.priority == after.priority, grows)?;
    let describe = |error: AnalysisError| error.to_string();
    let guarantees =
        transition_protocols(&old_tasks, &new_tasks, supplies.as_supplies()).map_err(describe)?;
    if same_tasks {
        return stays(guarantees).map(Some);
    }
    let place = match changes.protocol {
        ChangeProtocol::None => return Ok(None),
        ChangeProtocol::IdleTime => 0,
        ChangeProtocol::MaximumPeriodOffset => 1,
        ChangeProtocol::MinimumSingleOffset => 3,
    };
    let Some(change) = guarantees.into_iter().nth(place) else {
        return Ok(None);
    };
    let transition = change.transition.map_err(|why| why.to_string())?;
    let goes_on = |task: &TaskInTransition| task.kind == TaskKind::Unchanged;
    Ok(Some(InTransit {
        offset: match transition.start {
            // Tasks that go on have no idle instant that anybody tells of; by then there was one.
            NewModeStart::AtFirstIdleInstant if transition.tasks.iter().any(goes_on) => {
                Some(transition.latency_bound)
            }
            NewModeStart::AtFirstIdleInstant => None,
            NewModeStart::NewTasksAfter(offset) | NewModeStart::AllTasksAfter(offset) => {
                Some(offset)
            }
        },
        latency_bound: transition.latency_bound,
        theorem: change.theorem,
    }))
}

/// The verdict for tasks that go on, all of them, while what they get changes.
fn stays(guarantees: Vec<ProtocolGuarantee>) -> Result<InTransit, String> {
    let both = guarantees.into_iter().next();
    let both = both.ok_or("no protocol is analysed")?;
    both.transition.map_err(|why| why.to_string())?;
    Ok(InTransit {
        offset: Some(Duration::ZERO),
        latency_bound: Duration::ZERO,
        theorem: "the same tasks are schedulable on the supply of either mode, the change inside",
    })
}

/// The tasks of a domain as described.
fn released(domain: &str, mode: &ModeContent<'_>) -> BTreeMap<String, Service> {
    let services = mode.services_in(domain).into_iter();
    let services = services.map(|(name, service)| (name.to_owned(), service.clone()));
    services.collect()
}

/// Whether any of these tasks has to be done by a time; random arrivals alone say none.
fn has_deadlines(released: &BTreeMap<String, Service>) -> bool {
    let mut tasks = released.values().flat_map(|service| service.tasks.values());
    tasks.any(|task| task.relative_deadline().is_some())
}

/// Whether a domain with the same reservation in both modes gets from it in the change what it gets in either.
fn is_left_alone(domain: &str, old: &JudgedMode<'_>, new: &JudgedMode<'_>) -> bool {
    let alone = |judged: &JudgedMode<'_>| {
        let cpus = judged.held.judge();
        judged.held.given_to(domain, &cpus)
    };
    match (alone(old), alone(new)) {
        // That is a matter of the modes, and told there.
        (Err(_), Err(_)) => true,
        (before, after) => before == after && before == given(domain, old, new),
    }
}

/// What a domain gets for sure in one mode, and while it becomes the other one.
fn given(
    domain: &str,
    mode: &JudgedMode<'_>,
    other: &JudgedMode<'_>,
) -> Result<GuaranteedSupply, String> {
    let held = mode.held.in_transit(&other.held, domain)?;
    let cpus = held.judge();
    held.given_to(domain, &cpus).map_err(|why| {
        format!(
            "{why} while others that hold it up may have the larger of their budgets; give it the highest \
             priority on its CPU"
        )
    })
}

fn share_grows(before: &GuaranteedSupply, after: &GuaranteedSupply) -> bool {
    let share = |given: &GuaranteedSupply| match given.server {
        ReservationServer::Deferrable { budget, period }
        | ReservationServer::Periodic { budget, period }
        | ReservationServer::Polling { budget, period }
        | ReservationServer::ConstantBandwidth { budget, period } => (budget, period),
        _ => (Duration::from_nanos(1), Duration::from_nanos(1)),
    };
    let ((old, old_period), (new, new_period)) = (share(before), share(after));
    let product =
        |one: Duration, other: Duration| u128::from(one.as_nanos()) * u128::from(other.as_nanos());
    product(new, old_period) > product(old, new_period)
}

/// What windows of the old and the new mode get, wherever the reservation changes.
enum OnTheWay {
    Same(Box<dyn SupplyBound>),
    Covering {
        old: Box<dyn SupplyBound>,
        new: Box<dyn SupplyBound>,
    },
}

impl OnTheWay {
    /// A domain that grows has its larger reservation before its tasks change, and one that shrinks keeps it
    /// until they have. On one grid it has at least the smaller budget in every period all the while; else
    /// windows with the change inside get what both give, one after the other.
    fn of(
        domain: &str,
        given: (GuaranteedSupply, GuaranteedSupply),
        same_priority: bool,
        grows: bool,
    ) -> Result<Self, String> {
        let describe = |error: AnalysisError| error.to_string();
        let (old, new) = (
            given.0.supply().map_err(describe)?,
            given.1.supply().map_err(describe)?,
        );
        if given.0 == given.1 && same_priority {
            return Ok(Self::Same(old));
        }
        let (
            ReservationServer::Deferrable { budget, period },
            ReservationServer::Deferrable {
                budget: next,
                period: next_period,
            },
        ) = (given.0.server, given.1.server)
        else {
            return Err(format!(
                "the reservation of {domain} changes, and by its server's rule no supply bound holds across \
                 that; use a deferrable one, or keep it in all modes"
            ));
        };
        if period == next_period && same_priority {
            return Ok(Self::Covering { old, new });
        }
        let first = PeriodicSupply::deferrable(budget, period, given.0.jitter);
        let second = PeriodicSupply::deferrable(next, next_period, given.1.jitter);
        let across = Box::new(AcrossChange::new(
            first.map_err(describe)?,
            second.map_err(describe)?,
        ));
        Ok(match grows {
            true => Self::Covering { old: across, new },
            false => Self::Covering { old, new: across },
        })
    }

    fn as_supplies(&self) -> Supplies<'_> {
        match self {
            Self::Same(supply) => Supplies::Same(&**supply),
            Self::Covering { old, new } => Supplies::Covering {
                old: &**old,
                new: &**new,
            },
        }
    }
}

/// The tasks of a domain in a mode, as one scheduler ranks them.
fn tasks(domain: &str, mode: &ModeContent<'_>) -> Result<Vec<ModeTask>, String> {
    match mode.services_in(domain).as_slice() {
        [] => Ok(Vec::new()),
        [(_, one)] => tasks_of_mode(&one.tasks, one.scheduling).map_err(|error| error.to_string()),
        _ => Err(
            "several services share its reservation, and nothing says how they rank; make them one"
                .into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn cell(protocol: &str, rest_period: &str) -> String {
        format!(
            r#"
        schema_version = 1
        name = "cell"
        initial_mode = "run"
        hosts.cell.cpus = [0, 1]
        mode_changes = {{ protocol = "{protocol}" }}
        [domains.arm]
        kind = "process"
        pids = [1]
        scheduling = "rate-monotonic"
        reservation = {{ budget = "6ms", period = "10ms", cpus = [1], priority = 50 }}
        agent = {{ }}
        tasks.move = {{ arrivals = {{ kind = "periodic", period = "50ms" }}, execution_time = {{ kind = "constant", value = "10ms" }} }}
        tasks.look = {{ arrivals = {{ kind = "periodic", period = "40ms" }}, execution_time = {{ kind = "constant", value = "4ms" }} }}
        [domains.arm.modes.rest]
        reservation = {{ budget = "4ms", period = "{rest_period}", cpus = [1], priority = 50 }}
        tasks = ["look"]
        [modes.run]
        tasks = ["arm.move"]
        [modes.rest]
        domains = {{ arm = "rest" }}
    "#
        )
    }

    fn verdicts(text: &str) -> Vec<ProtocolVerdict> {
        protocols(&tailbound_model::parse(text, "cell.toml").unwrap()).unwrap()
    }

    #[test]
    fn each_protocol_has_its_wait() {
        assert_eq!(verdicts(&cell("none", "10ms")), []);
        let ms = Duration::from_millis;
        let of = |protocol: &str| {
            let answers = verdicts(&cell(protocol, "10ms"));
            let names: Vec<_> = answers
                .iter()
                .map(|one| (one.from.clone(), one.to.clone()))
                .collect();
            let expected =
                [("rest", "run"), ("run", "rest")].map(|(from, to)| (from.into(), to.into()));
            assert_eq!(names, expected);
            answers
                .into_iter()
                .map(|one| one.transit.unwrap())
                .collect::<Vec<_>>()
        };
        let idle = of("idle-time");
        // The lone task stops, so that the answer is the idle instant.
        assert!(idle.iter().all(|one| one.offset.is_none()));
        let longest = of("maximum-period-offset");
        assert_eq!(longest[0].offset, Some(ms(40)));
        assert_eq!(longest[1].offset, Some(ms(50)));
        let least = of("minimum-single-offset");
        for (least, (longest, idle)) in least.iter().zip(longest.iter().zip(&idle)) {
            assert!(least.offset.unwrap() <= longest.offset.unwrap());
            assert!(least.latency_bound <= idle.latency_bound);
            assert!(!least.offset.unwrap().is_zero());
        }
    }

    fn both(text: &str) -> Vec<Result<InTransit, String>> {
        verdicts(text).into_iter().map(|one| one.transit).collect()
    }

    #[test]
    fn tasks_that_stay_go_on_across_another_budget_or_period_if_that_is_enough() {
        let text = cell("minimum-single-offset", "10ms")
            .replace("\"arm.move\"", "\"arm.move\", \"arm.look\"");
        let same = both(&text);
        assert!(same.iter().all(Result::is_ok), "{same:?}");
        let other = both(&text.replace("\"4ms\", period = \"10ms\"", "\"4ms\", period = \"8ms\""));
        for (same, other) in same.iter().zip(&other) {
            let (same, other) = (same.as_ref().unwrap(), other.as_ref().unwrap());
            assert!(same.offset < Some(Duration::from_millis(60)), "{same:?}");
            assert!(other.offset < Some(Duration::from_millis(60)), "{other:?}");
        }
        // Each is enough by itself, but not the longest gap of the one and then that of the other.
        let short = both(&text.replace("\"4ms\", period = \"10ms\"", "\"8ms\", period = \"40ms\""));
        assert!(short.iter().all(Result::is_err), "{short:?}");
    }

    #[test]
    fn where_tasks_go_on_an_idle_instant_has_come_by_the_end_of_the_longest_busy_period() {
        let text = cell("idle-time", "10ms").replace("\"arm.move\"", "\"arm.move\", \"arm.look\"");
        for transit in both(&text) {
            let transit = transit.unwrap();
            assert_eq!(transit.offset, Some(transit.latency_bound));
            assert!(!transit.latency_bound.is_zero());
        }
    }

    #[test]
    fn a_larger_reservation_has_to_be_in_force_before_new_tasks_start() {
        let transits = both(&cell("idle-time\", start = \"accepted", "10ms"));
        let why = transits[0].as_ref().unwrap_err();
        assert!(why.contains("start = \"in-force\""), "{why}");
        assert!(transits[1].is_ok(), "it shrinks: {transits:?}");
    }

    /// A second domain of a higher or a lower priority, whose reservation changes with the mode.
    fn beside(priority: u32, changed: &str) -> Vec<ProtocolVerdict> {
        let other = format!(
            r#"
        [domains.other]
        kind = "process"
        pids = [2]
        reservation = {{ budget = "1ms", period = "10ms", cpus = [1], priority = {priority} }}
        [modes.run]"#
        );
        let text = cell("minimum-single-offset", "10ms").replace("[modes.run]", &other);
        let text = format!("{text}\n        reservations.other = {changed}\n");
        verdicts(&text)
    }

    #[test]
    fn who_holds_it_up_counts_with_the_larger_budget() {
        let changed = |budget: &str, period: &str| {
            format!(r#"{{ budget = "{budget}", period = "{period}", cpus = [1], priority = 60 }}"#)
        };
        let wait =
            |verdicts: &[ProtocolVerdict]| verdicts[0].transit.as_ref().unwrap().offset.unwrap();
        let still = beside(60, &changed("1ms", "10ms"));
        let more = beside(60, &changed("1500us", "10ms"));
        assert!(wait(&still) < wait(&more), "{still:?} {more:?}");
        let other_period = beside(60, &changed("1ms", "20ms"));
        let why = other_period[0].transit.as_ref().unwrap_err();
        assert!(
            why.contains("\"other\"") && why.contains("keep its period"),
            "{why}"
        );
        let too_much = beside(60, &changed("5ms", "10ms"));
        assert!(too_much[0].transit.is_err());
        let below = beside(40, &changed("2ms", "20ms").replace("60", "40"));
        assert!(below.iter().all(|one| one.transit.is_ok()), "{below:?}");
    }
}
