//! Divisions as a subsystem of the daemon.
//!
//! A division has no journal: if the daemon dies, the watchdog takes its reservations back, as all others.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use prometheus_client::collector::Collector;
use serde_json::Value;
use tailbound_balance::BalancePlan;
use tailbound_control::{HeldBy, Refusal};
use tailbound_subsystem::{Place, Registration, ReservationHost, Subsystem};
use tailbound_time::Duration;
use tracing::info;

use crate::control::{BalanceRefusal, BalanceRequest, BalanceResponse, BalanceSummary, SUBSYSTEM};
use crate::division::{Division, lock};
use crate::division_state::DivisionState;
use crate::host_budgets::HostBudgets;
use crate::manager::CapacityManager;
use crate::metrics::BalanceMetrics;
use crate::report_round::ReportRound;

/// The most applications of a division: each is asked by a thread of its own.
const MOST_APPLICATIONS: usize = 256;
/// The shortest interval.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// Divisions in the daemon's list of subsystems.
pub const REGISTRATION: Registration = Registration {
    start: |host, _: Place| Box::new(BalanceService::new(host)),
    remains: |_| None,
};

/// `BalanceService` answers requests for divisions, and has those that are under way.
pub struct BalanceService {
    host: Arc<dyn ReservationHost>,
    divisions: Mutex<Vec<Arc<Division>>>,
    last: AtomicU64,
}

impl BalanceService {
    /// Divisions over the reservations of a host; none is under way.
    pub fn new(host: Arc<dyn ReservationHost>) -> Self {
        Self {
            host,
            divisions: Mutex::default(),
            last: AtomicU64::new(0),
        }
    }

    /// The divisions that are under way.
    fn divisions(&self) -> Vec<Arc<Division>> {
        let mut divisions = lock(&self.divisions);
        divisions.retain(|one| !one.is_over());
        divisions.clone()
    }

    fn carry_out(&self, request: BalanceRequest) -> Result<BalanceResponse, Refusal> {
        Ok(match request {
            BalanceRequest::Begin { name, plan } => BalanceResponse::Begun {
                state: Box::new(self.begin(name, *plan)?),
            },
            BalanceRequest::State { number, after } => {
                let mut divisions = self.divisions().into_iter();
                let division = divisions.find(|one| one.state().number == number);
                BalanceResponse::State {
                    division: division.map(|one| Box::new(one.view(after))),
                }
            }
        })
    }

    fn begin(&self, name: String, plan: BalancePlan) -> Result<DivisionState, BalanceRefusal> {
        check(&plan)?;
        let applications = plan.applications.iter();
        let domains = applications.flat_map(|one| &one.domains);
        let domains: Vec<String> = domains.map(|domain| domain.name.clone()).collect();
        // Whoever begins another one meanwhile waits.
        let mut divisions = lock(&self.divisions);
        divisions.retain(|one| !one.is_over());
        for other in &*divisions {
            let taken = other.domains();
            if let Some(domain) = domains.iter().find(|domain| taken.contains(*domain)) {
                let (domain, name) = (domain.clone(), other.state().name);
                return Err(BalanceRefusal::DividedAlready { domain, name });
            }
        }
        let host = HostBudgets::of(&self.host, domains);
        let host = host.map_err(|domain| BalanceRefusal::NotReserved { domain })?;
        let unusable = |why: String| BalanceRefusal::Unusable { why };
        let no_thread = |error: io::Error| unusable(format!("no thread: {error}"));
        let round = ReportRound::of(&plan).map_err(no_thread)?;
        let manager = CapacityManager::begin(plan, host);
        let manager = manager.map_err(|error| unusable(error.to_string()))?;
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let state = DivisionState::of(&manager, number, name);
        let division = Division::begin(manager, round, state.clone());
        let division = division.map_err(no_thread)?;
        info!(
            "\"{}\" divides {} among {} applications",
            state.name,
            Duration::from_nanos(state.whole_ns),
            state.applications.len()
        );
        divisions.push(Arc::new(division));
        drop(divisions);
        // Who asked for the reservations may have gone meanwhile, and found no division to end.
        self.owners_changed();
        Ok(state)
    }
}

/// Refuses what no checked description has.
fn check(plan: &BalancePlan) -> Result<(), BalanceRefusal> {
    let why = match (plan.balance.interval, plan.applications.len()) {
        (interval, _) if interval < SHORTEST_INTERVAL => {
            format!("an interval of {interval} is below {SHORTEST_INTERVAL}")
        }
        (_, 0) => "there is no application".to_owned(),
        (_, count) if count > MOST_APPLICATIONS => {
            format!("{count} applications are more than {MOST_APPLICATIONS}")
        }
        (interval, _) if plan.balance.answer_within() > interval => {
            "applications may answer later than the interval ends".to_owned()
        }
        _ => return Ok(()),
    };
    Err(BalanceRefusal::Unusable { why })
}

impl Subsystem for BalanceService {
    fn name(&self) -> &'static str {
        SUBSYSTEM
    }

    fn is_open_to_everyone(&self, request: &Value) -> bool {
        tailbound_subsystem::is_open_to_everyone::<BalanceRequest>(request)
    }

    fn answer(&self, request: Value) -> Result<Value, Refusal> {
        tailbound_subsystem::answer(request, |request| self.carry_out(request))
    }

    fn status(&self) -> Option<Value> {
        let divisions: Vec<DivisionState> =
            self.divisions().iter().map(|one| one.state()).collect();
        let summary = (!divisions.is_empty()).then_some(BalanceSummary { divisions })?;
        serde_json::to_value(summary).ok()
    }

    fn metrics(&self) -> Option<Box<dyn Collector>> {
        let divisions: Vec<DivisionState> =
            self.divisions().iter().map(|one| one.state()).collect();
        (!divisions.is_empty())
            .then(|| Box::new(BalanceMetrics { divisions }) as Box<dyn Collector>)
    }

    fn claimed_domains(&self) -> BTreeSet<String> {
        let divisions = self.divisions().into_iter();
        divisions.flat_map(|one| one.domains()).collect()
    }

    /// None: a reservation without members is kept or released by its own rule, and its budget is then free for the others.
    fn kept_domains(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }

    fn refusal_to_change(&self, domain: &str) -> Refusal {
        let domain = domain.to_owned();
        BalanceRefusal::ChangedByManager { domain }.into()
    }

    fn resume(&self) {}

    fn before_revert(&self) {}

    fn after_revert(&self) {
        self.owners_changed();
    }

    fn owners_changed(&self) {
        for division in self.divisions() {
            let domains = division.domains();
            let goes =
                |domain: &String| matches!(self.host.holder(domain), None | Some(HeldBy::Daemon));
            if domains.iter().any(goes) {
                division.look_for_ended();
            }
        }
    }

    fn forget_journal(&self) {}

    fn end(&self) {
        for division in lock(&self.divisions).drain(..) {
            division.end();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use prometheus_client::encoding::prometheus_text;
    use prometheus_client::registry::Registry;
    use serde_json::json;
    use tailbound_balance::{BalanceTable, BalancedDomain, HoldReason, LevelReport, MatchingValue};
    use tailbound_balance::{BalancedApplication, PlannedApplication};

    use super::*;
    use crate::fake_host::FakeReservationHost;

    const FAIR: Duration = Duration::from_millis(40);

    /// A division of 80 ms per 100 ms between two applications, each with one domain of the same name; nobody listens at
    /// their sources.
    fn plan() -> BalancePlan {
        let application = |name: &str| BalancedApplication {
            domains: vec![name.to_owned()],
            source: "unix:/nonexistent/shop.sock".to_owned(),
            metric: None,
            query: None,
            least: Duration::from_millis(5),
            most: None,
            weight: 1,
            promise: None,
            simulated: None,
        };
        let planned = |name: &str| PlannedApplication {
            name: name.to_owned(),
            described: application(name),
            domains: vec![BalancedDomain {
                name: name.to_owned(),
                described: FAIR,
                smallest: Duration::from_millis(1),
            }],
            promised: None,
        };
        let names = ["forum", "shop"];
        let balance = BalanceTable {
            capacity: Duration::from_millis(80),
            applications: names
                .map(|name| (name.to_owned(), application(name)))
                .into(),
            ..BalanceTable::default()
        };
        BalancePlan {
            balance,
            period: Duration::from_millis(100),
            applications: names.map(planned).into(),
        }
    }

    fn stage() -> (Arc<FakeReservationHost>, BalanceService) {
        let host = Arc::new(FakeReservationHost::default());
        for domain in ["forum", "shop"] {
            host.reserve(domain, FAIR);
        }
        let service = BalanceService::new(Arc::<FakeReservationHost>::clone(&host));
        (host, service)
    }

    fn report(value: f64, level: f64) -> Result<LevelReport, HoldReason> {
        Ok(LevelReport {
            service_level: Some(level),
            ..MatchingValue::new(value).unwrap().into()
        })
    }

    fn manager(host: &Arc<FakeReservationHost>) -> CapacityManager {
        let host: Arc<dyn ReservationHost> = Arc::<FakeReservationHost>::clone(host);
        let domains = ["forum", "shop"].map(str::to_owned);
        CapacityManager::begin(plan(), HostBudgets::of(&host, domains).unwrap()).unwrap()
    }

    #[test]
    fn a_division_claims_its_domains_until_they_are_reverted() {
        let (host, service) = stage();
        assert!(service.status().is_none() && service.metrics().is_none());
        let request = json!({ "request": "begin", "name": "shops", "plan": plan() });
        let answer = service.answer(request.clone()).unwrap();
        assert_eq!(
            answer["state"]["applications"][1]["capacity_ns"],
            FAIR.as_nanos()
        );
        assert_eq!(
            service.claimed_domains(),
            ["forum", "shop"].map(str::to_owned).into()
        );
        assert!(service.kept_domains().is_empty());
        let refusal = service.answer(request).unwrap_err().to_string();
        assert!(
            refusal.contains("\"forum\" takes part in the division \"shops\""),
            "{refusal}"
        );
        let refusal = service.refusal_to_change("shop").to_string();
        assert!(
            refusal.contains("`tailbound revert` ends the division"),
            "{refusal}"
        );
        host.revert("forum");
        service.after_revert();
        assert_eq!(service.claimed_domains(), ["shop".to_owned()].into());
        host.revert("shop");
        service.owners_changed();
        assert!(service.claimed_domains().is_empty() && service.status().is_none());
        let state = json!({ "request": "state", "number": 1, "after": 0 });
        assert!(service.is_open_to_everyone(&state));
        assert_eq!(service.answer(state).unwrap()["division"], Value::Null);
    }

    #[test]
    fn a_plan_that_divides_nothing_is_refused() {
        let (host, service) = stage();
        let why = |plan: BalancePlan| service.begin("shops".to_owned(), plan).unwrap_err();
        let mut hurried = plan();
        hurried.balance.interval = Duration::from_millis(1);
        let mut empty = plan();
        empty.applications.clear();
        for (wrong, text) in [(hurried, "below 1s"), (empty, "no application")] {
            let refusal = why(wrong).to_string();
            assert!(refusal.contains(text), "{refusal}");
        }
        host.revert("shop");
        let domain = "shop".to_owned();
        assert_eq!(why(plan()), BalanceRefusal::NotReserved { domain });
    }

    #[test]
    fn budgets_follow_reports_and_the_budget_of_the_dead_is_free() {
        let (host, _) = stage();
        let mut manager = manager(&host);
        for _ in 0..10 {
            let outcome = manager.pass_interval(&[report(-1.0, 0.2), report(0.9, 1.0)]);
            assert!(outcome.unwrap().refused.is_empty());
        }
        let loan = host.budget("forum").unwrap();
        assert!(loan > FAIR, "{loan}");
        let sum = loan.saturating_add(host.budget("shop").unwrap());
        assert!(sum <= manager.whole());
        // The manager takes the reservation of the dead back itself.
        host.kill("forum");
        let silent = || Err(HoldReason::NoAnswer("refused".to_owned()));
        let outcome = manager.pass_interval(&[silent(), report(-1.0, 0.5)]);
        assert_eq!(outcome.unwrap().ended, ["forum"]);
        assert_eq!(host.budget("forum"), None);
        assert!(host.budget("shop").unwrap() >= FAIR);
        host.revert("shop");
        let outcome = manager.pass_interval(&[silent(), silent()]);
        assert!(outcome.is_err());
    }

    #[test]
    fn a_reservation_for_somebody_else_under_the_same_name_is_left_alone() {
        let (host, _) = stage();
        let mut manager = manager(&host);
        host.become_somebody_else("forum");
        let ended = manager.look_for_ended().unwrap();
        assert_eq!(ended, ["forum"]);
        assert_eq!(host.budget("forum"), Some(FAIR));
    }

    #[test]
    fn every_metric_has_its_name_and_its_labels() {
        let (host, _) = stage();
        let mut manager = manager(&host);
        let mut state = DivisionState::of(&manager, 1, "shops".to_owned());
        let reports = [report(-0.5, 0.4), Err(HoldReason::NoRequest)];
        let held: Vec<Duration> = manager.capacities().to_vec();
        let outcome = manager.pass_interval(&reports).unwrap();
        let passed = state.enter(Duration::from_secs(5), &held, &reports, &outcome);
        assert_eq!(passed.news, ["shop: the capacity is held: no request"]);
        let mut registry = Registry::default();
        let divisions = vec![state];
        registry.register_collector(Box::new(BalanceMetrics { divisions }));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry).unwrap();
        for line in [
            "tailbound_balance_matching_value{division=\"shops\",application=\"forum\"} -0.5",
            "tailbound_balance_service_level{division=\"shops\",application=\"forum\"} 0.4",
            "tailbound_balance_capacity_seconds{division=\"shops\",application=\"shop\"} 0.04",
            "tailbound_balance_reports_missing_total{division=\"shops\",application=\"shop\"} 1",
            "tailbound_balance_intervals_total{division=\"shops\"} 1",
            "tailbound_balance_changes_refused_total{division=\"shops\"} 0",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in\n{text}");
        }
    }
}
