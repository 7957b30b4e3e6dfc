//! The reservations that keep what a description promises.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};
use tailbound_analysis::admission::{self, HostLimits, Reserved};
use tailbound_analysis::resolution::{Deployment, HostReservations};
use tailbound_analysis::response_time::PoissonQueue;
use tailbound_analysis::sizing::{
    Infeasible, ServerKind, Sizing, SizingQuery, size_periodic, size_watched, spread_periods,
};
use tailbound_analysis::{
    AnalysisError, Outlook, PeriodicLoad, Promise, SearchWatch, ServiceQuery, predict,
};
use tailbound_distribution::Interval;
use tailbound_model::{
    Arrivals, BackendKind, BudgetScope, CpuSet, Description, Domain, InputFiles, PercentagePoints,
    Priority, Reservation, ReservationServer, ResourceInterface, Service, Variant,
};
use tailbound_time::{Duration, nanoseconds};

use crate::AssessmentError;
use crate::analysis::refuse_what_is_only_simulated;
use crate::error::named;
use crate::execution_times::{ServiceTimes, execution_times};
use crate::interfered_times::InterferedTimes;
use crate::mode_content::{ModeContent, modes};
use crate::predicted_supply::{
    ONE_THREAD, PredictedSupply, assumption_of_precedence, goes_one_at_a_time,
};
pub use run_budget::{CalibratedRuns, RunForecasts, RunGoal};

mod run_budget;

/// Why no quota with a burst is sized.
const BURST_NOT_SIZED: &str = "quotas are sized without a burst, and are enough with one: a burst makes no response longer; leave `burst` out";

/// What the hosts of a description can hold.
pub trait HostFit {
    /// Why the back end takes no such reservation for the domain on the host, if so.
    fn refusal(
        &self,
        host: &str,
        domain: &str,
        backend: BackendKind,
        interface: &ResourceInterface,
    ) -> Option<String>;

    /// Why the reservations of one host do not fit together there, if so.
    fn misfit(&self, on: &HostReservations<'_>) -> Option<String>;
}

/// Hosts with the kernel's defaults, whose back ends take what they take anywhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct UsualHost;

impl HostFit for UsualHost {
    fn refusal(
        &self,
        _: &str,
        _: &str,
        backend: BackendKind,
        interface: &ResourceInterface,
    ) -> Option<String> {
        let (traits, period) = (backend.traits(), interface.period);
        let (least, most) = (traits.shortest_period, traits.longest_period);
        let fits = (least..=most).contains(&period) && interface.budget >= traits.smallest_budget;
        (!fits).then(|| format!("{backend} takes periods from {least} to {most}, and not {period}"))
    }

    fn misfit(&self, on: &HostReservations<'_>) -> Option<String> {
        let asked = on.reserved.iter().map(|(domain, one)| Reserved {
            domain,
            place: None,
            backend: one.backend,
            interface: &one.interface,
            server: one.backend.server_kind(),
            on_common_grid: one.backend.traits().fixed_grid,
        });
        let asked: Vec<Reserved<'_>> = asked.collect();
        let limits = HostLimits::default().with_interference(on.host);
        let admitted = admission::admit(&[], &asked, &limits);
        let refusal = admitted.err().or_else(|| admission::company_among(&asked));
        let refusal = refusal.map(|refusal| refusal.to_string());
        refusal.or_else(|| on.pool_refusal())
    }
}

/// What is asked about the services of a description.
#[derive(Clone, Copy)]
pub struct SizingOptions<'a> {
    /// Only this service.
    pub service: Option<&'a str>,
    /// The back end of every reservation, in place of the described one.
    pub backend: Option<BackendKind>,
    /// The shortest and the longest period; chosen by the description if left out.
    pub periods: Option<(Duration, Duration)>,
    /// How many periods are looked at.
    pub points: u32,
    /// What is added to every bandwidth for what the theory leaves out.
    pub margin: PercentagePoints,
    /// The kind of server, in place of the back end's.
    pub server: Option<ServerKind>,
    /// The hosts, which limit what periods there are.
    pub host: &'a dyn HostFit,
    /// The share of runs on a calibrated host in which promises are to be kept, in place of keeping them in a run
    /// without end.
    pub runs: Option<RunGoal<'a>>,
    /// The watch that hears of the progress of a search for promises, and may stop it.
    pub watch: &'a dyn SearchWatch,
}

/// The answer for one service in one mode.
#[derive(Clone, Debug, Serialize)]
pub struct ServiceSizing {
    /// The mode, where the description has modes.
    pub mode: Option<String>,
    /// The service.
    pub service: String,
    /// Its domain.
    pub domain: String,
    /// Why there is no answer.
    pub refused: Option<String>,
    /// Whether that is because the work is too much for one CPU: no budget keeps any promise.
    #[serde(skip)]
    pub overloaded: bool,
    /// Budgets, or the proof that there are none.
    #[serde(flatten)]
    pub budgets: Option<Budgets>,
}

/// The budgets of a service.
#[derive(Clone, Debug, Serialize)]
pub struct Budgets {
    /// By what they were found.
    pub rule: SizingRule,
    /// The periods that were looked at, and why these.
    pub periods: PeriodsLookedAt,
    /// The least budget at each period, and the choice.
    #[serde(flatten)]
    pub sizing: Sizing,
    /// The reservation of the choice, as TOML to paste.
    pub stanza: Option<String>,
    /// Why the description with it would not be admitted.
    pub does_not_fit: Option<String>,
    /// The reservation of the choice, its margin included.
    #[serde(skip)]
    pub reservation: Option<Reservation>,
}

impl ServiceSizing {
    /// The service with its mode, in words.
    pub fn name(&self) -> String {
        match &self.mode {
            Some(mode) => format!("{} in mode {mode}", self.service),
            None => self.service.clone(),
        }
    }

    /// Whether the search was stopped before it had the least budget at every period.
    pub fn is_stopped(&self) -> bool {
        let open = |budgets: &Budgets| !budgets.sizing.open.is_empty();
        self.budgets.as_ref().is_some_and(open)
    }

    /// Whether it is shown that no budget keeps every promise at these periods.
    pub fn is_infeasible(&self) -> bool {
        let none =
            |budgets: &Budgets| budgets.sizing.best.is_none() && budgets.sizing.open.is_empty();
        self.overloaded || self.budgets.as_ref().is_some_and(none)
    }
}

/// By what a budget was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SizingRule {
    /// It keeps the promises, for Poisson arrivals, on a server of this kind.
    Promises(ServerKind),
    /// A budget that keeps all promises at once in a share of the runs on a calibrated host, on a server of this kind.
    Runs {
        /// The kind of server.
        kind: ServerKind,
        /// The share, from 0 to 1.
        probability: f64,
        /// How long releases count in a run.
        duration: Duration,
        /// How many runs were simulated.
        count: usize,
    },
    /// Periodic and sporadic tasks run as on a CPU of their own: W(P).
    AsOnOwnCpu,
}

impl fmt::Display for SizingRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Promises(kind) => {
                write!(out, "least budget of a {kind} server that keeps every promise")
            }
            Self::Runs { kind, probability, duration, count } => write!(
                out,
                "least budget of a {kind} server with which every promise is kept in {}% of runs of {duration}, by \
                 {count} simulated runs of the calibrated host",
                in_percent(*probability)
            ),
            Self::AsOnOwnCpu => out.write_str(
                "W(P): least budget of a deferrable server under which the tasks run as on a CPU of \
                 their own (Li 2021, section 3.2)",
            ),
        }
    }
}

/// A share in percent, without what floating point adds to it.
pub fn in_percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

impl Serialize for SizingRule {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

/// Which periods were looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeriodsLookedAt {
    /// The shortest.
    #[serde(rename = "low_ns", with = "nanoseconds")]
    pub low: Duration,
    /// The longest.
    #[serde(rename = "high_ns", with = "nanoseconds")]
    pub high: Duration,
    /// Why these.
    pub why: String,
}

/// Sizes every chosen service, and the own tasks of every domain, in every mode.
///
/// # Errors
/// What is wrong with the description or the question; a service that cannot be sized is none.
pub fn size_services(
    description: &Description,
    inputs: &InputFiles,
    options: &SizingOptions<'_>,
) -> Result<Vec<ServiceSizing>, AssessmentError> {
    refuse_what_is_only_simulated(description)?;
    // Sizing goes by the modes of the system; what domains call their own modes is written into them.
    let mut description = description.with_inline_modes();
    if let Some(backend) = options.backend {
        reserve_by(&mut description, backend);
    }
    let interfered = InterferedTimes::of(&description, inputs);
    let (description, inputs) = (&interfered.description, &interfered.inputs);
    let mut domains = description.domains.values();
    if description.services.is_empty() && domains.all(|domain| domain.tasks.is_empty()) {
        return Err(AssessmentError::Empty {
            what: "no tasks, so there is nothing to size",
        });
    }
    if let Some(name) = options.service {
        let services = &description.services;
        named("service", name, services.get(name), services.keys())?;
    }
    let mut answers = Vec::new();
    for mode in modes(description) {
        for (name, service) in &mode.services {
            if options.service.is_some_and(|chosen| chosen != *name) {
                continue;
            }
            let one = One {
                description,
                mode: &mode,
                name,
                service,
                options,
            };
            let mut answer = one.answer(inputs)?;
            let assumption = interfered.assumption(name).cloned();
            if let Some(budgets) = answer.budgets.as_mut().filter(|_| options.runs.is_none()) {
                budgets.sizing = budgets.sizing.clone().assuming(assumption);
            }
            answers.push(answer);
        }
    }
    Ok(answers)
}

/// Puts every reservation of the description under this back end, with the budget that it has, if any. A domain with a
/// service and no reservation gets one, of whole CPUs until it is sized.
fn reserve_by(description: &mut Description, backend: BackendKind) {
    let longest = backend.traits().longest_period;
    let named = description.services.values().map(|one| one.domain.clone());
    let named: Vec<String> = named.collect();
    for name in named {
        let cpus = cpus_without_reservation(description, &name);
        let Some(domain) = description.domains.get_mut(&name) else {
            continue;
        };
        if domain.reservation.is_none() {
            domain.cpus = CpuSet::new();
            domain.reservation = Some(Reservation {
                budget: Some(longest),
                period: Some(longest),
                ..Reservation::on(backend, cpus)
            });
        }
    }
    let of_modes = description.modes.values_mut();
    let of_modes = of_modes.flat_map(|mode| mode.reservations.values_mut());
    let of_domains = description.domains.values_mut();
    let of_domains = of_domains.filter_map(|domain| domain.reservation.as_mut());
    for reservation in of_domains.chain(of_modes) {
        *reservation = Reservation {
            budget: reservation.budget,
            period: reservation.period,
            derive: reservation.derive,
            margin_points: reservation.margin_points,
            priority: reservation.priority,
            ..Reservation::on(backend, reservation.cpus.clone())
        };
    }
}

/// The CPUs of a domain without a reservation: its own, or the host's first that is not for housekeeping.
fn cpus_without_reservation(description: &Description, domain: &str) -> CpuSet {
    let domain: Option<&Domain> = description.domains.get(domain);
    if let Some(domain) = domain.filter(|domain| !domain.cpus.is_empty()) {
        return domain.cpus.clone();
    }
    let Some((_, host)) = domain.and_then(|domain| description.host_of(domain)) else {
        return CpuSet::new();
    };
    let free = host.cpus.difference(&host.housekeeping).next();
    free.or(host.cpus.first()).copied().into_iter().collect()
}

/// One service in one mode.
struct One<'a> {
    description: &'a Description,
    mode: &'a ModeContent<'a>,
    name: &'a str,
    service: &'a Service,
    options: &'a SizingOptions<'a>,
}

impl One<'_> {
    fn answer(&self, inputs: &InputFiles) -> Result<ServiceSizing, AssessmentError> {
        let mut answer = ServiceSizing {
            mode: self.mode.mode.map(Into::into),
            service: self.name.into(),
            domain: self.service.domain.clone(),
            refused: None,
            overloaded: false,
            budgets: None,
        };
        match self.sizing(inputs)? {
            Ok(budgets) => answer.budgets = Some(budgets),
            Err(NotSized::Because(why)) => answer.refused = Some(why),
            Err(NotSized::Analysis(AnalysisError::Invalid { what })) => {
                return Err(AnalysisError::Invalid { what }.into());
            }
            Err(NotSized::Analysis(error)) => {
                answer.overloaded = matches!(error, AnalysisError::Overloaded { .. });
                answer.refused = Some(error.to_string());
            }
        }
        Ok(answer)
    }

    fn sizing(&self, inputs: &InputFiles) -> Result<Result<Budgets, NotSized>, AssessmentError> {
        let poisson = |s: &Service| {
            let mut tasks = s.tasks.values();
            tasks.all(|task| matches!(task.arrivals, Arrivals::Poisson { .. }))
        };
        let is_own = !self.description.services.contains_key(self.name);
        if let Some(why) = is_own
            .then(|| self.mode.unanalysed(self.description, self.name))
            .flatten()
        {
            return Ok(Err(NotSized::Because(why)));
        }
        if self.service.users.is_some() {
            return Ok(Err(NotSized::Because(
                "its users wait for replies, and no analysis of ours is for a closed loop: sweep the budget or the number of \
                 users with `tailbound sweep`, which simulates them"
                    .into(),
            )));
        }
        if self.is_shared() && !goes_one_at_a_time(self.service) {
            return Ok(Err(NotSized::Because(
                "several CPUs share the budget of the domain, and budgets are sized for one request at a time: write \
                 max_in_flight = 1 at the service if it has no more; `tailbound interface --model multiprocessor` sizes \
                 one for tasks under global EDF"
                    .into(),
            )));
        }
        if let Some(goal) = self.options.runs {
            return Ok(self.by_runs(&goal));
        }
        let sharing = self.mode.services_in(&self.service.domain);
        if let Some((other, _)) = sharing
            .iter()
            .find(|(name, other)| *name != self.name && (poisson(other) || poisson(self.service)))
        {
            return Ok(Err(NotSized::Because(format!(
                "service \"{other}\" spends the budget of domain \"{}\" as well, and the theory is \
                 for one queue; give it a domain of its own",
                self.service.domain
            ))));
        }
        Ok(if poisson(self.service) {
            let times = match execution_times(self.name, self.service, inputs, None) {
                Ok(times) => times,
                Err(error @ AssessmentError::NotCalibrated { .. }) => {
                    return Ok(Err(NotSized::Because(error.to_string())));
                }
                Err(error) => return Err(error),
            };
            self.by_promises(&times)
        } else {
            self.as_on_own_cpu(&sharing, inputs)
        })
    }

    /// The least budgets that keep the promises of a service with Poisson tasks.
    fn by_promises(&self, times: &ServiceTimes) -> Result<Budgets, NotSized> {
        let kind = self.server_kind()?;
        let promises = self.promises()?;
        let queue = PoissonQueue::of_service(
            self.name,
            self.service,
            &times.measured,
            ReservationServer::Dedicated,
        )?;
        let range = self.promised_range();
        let query = SizingQuery {
            queue,
            promises,
            kind,
            periods: self.periods(&range, &[])?,
            margin: self.options.margin,
        };
        let sizing = size_watched(&query, self.options.watch)?;
        Ok(self.sized(sizing, SizingRule::Promises(kind), range))
    }

    /// The range that is asked for or described, or one below the strictest promise.
    fn promised_range(&self) -> PeriodsLookedAt {
        let latencies = self.service.slos.iter().map(|slo| slo.latency);
        self.described_range().unwrap_or_else(|| {
            around(
                (latencies.min().unwrap_or_default(), 16, 1),
                "a sixteenth of the strictest promised latency up to all of it, since no period \
                 is described",
            )
        })
    }

    /// The least budgets that keep the promises in a share of the runs on a calibrated host.
    fn by_runs(&self, goal: &RunGoal<'_>) -> Result<Budgets, NotSized> {
        if self.service.slos.is_empty() {
            return Err(NotSized::nothing_promised());
        }
        if self.mode.mode != self.description.initial_mode.as_deref() {
            return Err(NotSized::Because(
                "runs of a calibrated host are predicted in the initial mode; leave --probability out to size this \
                 mode"
                    .into(),
            ));
        }
        if self.is_capped() {
            return Err(NotSized::Because(format!(
                "{} is a cap, and runs of a calibrated host are simulated under reservations that guarantee a budget; \
                 leave --probability out for an estimate",
                self.backend()
            )));
        }
        let kind = self.server_kind()?;
        let runs = goal.forecasts.of(self.name, self.backend());
        let runs = runs.map_err(NotSized::Because)?;
        let range = self.promised_range();
        let periods = self.periods(&range, &[])?;
        let budgets = run_budget::least_budgets(runs.as_ref(), (kind, goal.probability), &periods)
            .map_err(NotSized::Because)?;
        let assumptions = runs.assumptions(goal.probability);
        let sizing = Sizing::of_runs(&budgets, self.options.margin, assumptions)?;
        let rule = SizingRule::Runs {
            kind,
            probability: goal.probability,
            duration: runs.duration(),
            count: runs.count(),
        };
        Ok(self.sized(sizing, rule, range))
    }

    /// W(P) of all tasks of the domain.
    fn as_on_own_cpu(
        &self,
        sharing: &[(&str, &Service)],
        inputs: &InputFiles,
    ) -> Result<Budgets, NotSized> {
        let kind = self.server_kind()?;
        if kind != ServerKind::Deferrable {
            return Err(NotSized::Because(format!(
                "W(P) is for deferrable servers, and this is a {kind} one: no analysis of ours finds \
                 budgets for periodic tasks on it; choose a back end with a deferrable one ({}), or \
                 --server deferrable",
                BackendKind::names(|one| one.server_kind() == Some(ServerKind::Deferrable))
            )));
        }
        let mut load = PeriodicLoad::default();
        for (name, service) in sharing {
            let times = execution_times(name, service, inputs, None)
                .map_err(|error| NotSized::Because(error.to_string()))?;
            let one = PeriodicLoad::of(service, &times.measured).map_err(|error| match error {
                AnalysisError::NotPeriodic { task } => NotSized::Because(format!(
                    "task \"{task}\" of service \"{name}\" is neither periodic nor sporadic, and \
                     others are: no analysis holds for such a mixture; give the tasks services and \
                     domains of their own"
                )),
                other => NotSized::Analysis(other),
            })?;
            load = load.and(one);
        }
        let hyperperiod = load.hyperperiod().ok();
        let shortest = load.tasks.iter().map(|task| task.period).min();
        let range = match (self.described_range(), hyperperiod) {
            (Some(range), _) => range,
            (None, Some(hyperperiod)) => around(
                (hyperperiod, 16, 1),
                &format!(
                    "a sixteenth of the hyperperiod {hyperperiod} up to it, beyond which no period \
                     needs less bandwidth"
                ),
            ),
            (None, None) => around(
                (shortest.unwrap_or_default(), 4, 4),
                "a quarter to four times the shortest period of a task, since no period is \
                 described and the hyperperiod is beyond all use",
            ),
        };
        let tidy: Vec<Duration> = hyperperiod.map(near_hyperperiod).unwrap_or_default();
        let periods = self.periods(&range, &tidy)?;
        let mut sizing = size_periodic(&load, &periods, self.options.margin)?;
        self.judge_promises(inputs, &mut sizing)?;
        Ok(self.sized(sizing, SizingRule::AsOnOwnCpu, range))
    }

    /// What is promised about all jobs of the service.
    fn promises(&self) -> Result<Vec<Promise>, NotSized> {
        let slos = &self.service.slos;
        if slos.is_empty() {
            return Err(NotSized::nothing_promised());
        }
        let only = self.service.tasks.len() == 1;
        let mut promises = Vec::new();
        for slo in slos {
            match &slo.task {
                Some(task) if !only => {
                    return Err(NotSized::Because(format!(
                        "{} within {} is promised of task \"{task}\" alone, and budgets are found \
                         for promises on all jobs of a queue together; leave `task` out, or give \
                         the task a service of its own",
                        slo.percentile, slo.latency
                    )));
                }
                _ => promises.push(Promise::from(slo)),
            }
        }
        Ok(promises)
    }

    /// Whether a CPU of its own keeps the promises on periodic tasks: W(P) is no worse and no
    /// better than that.
    fn judge_promises(&self, inputs: &InputFiles, sizing: &mut Sizing) -> Result<(), NotSized> {
        if self.service.slos.is_empty() {
            return Ok(());
        }
        let times = execution_times(self.name, self.service, inputs, None)
            .map_err(|error| NotSized::Because(error.to_string()))?;
        let predicted = predict(&ServiceQuery {
            name: self.name,
            service: self.service,
            execution_times: times.measured,
            server: ReservationServer::Dedicated,
            dispatch_overhead: Duration::ZERO,
        });
        let predicted = match predicted {
            Ok(predicted) => predicted,
            Err(AnalysisError::NotAnalysed { reason }) => {
                sizing.assumptions.push(format!(
                    "whether a CPU of its own keeps the promises was not decided: {reason}"
                ));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        for slo in &self.service.slos {
            let of_task = slo.task.as_ref().and_then(|t| predicted.per_task.get(t));
            let distribution = of_task.unwrap_or(&predicted.overall);
            let promise = Promise::from(slo);
            let (at_least, at_most) = distribution.cdf(slo.latency);
            match promise.outlook(distribution) {
                Outlook::Kept => {}
                Outlook::Missed => sizing.infeasible.push(Infeasible {
                    promise,
                    share_at_most: at_most,
                    latency: distribution
                        .quantile(promise.probability)
                        .unwrap_or(Interval {
                            low: slo.latency,
                            high: None,
                        }),
                }),
                Outlook::Undecided | Outlook::NotPredicted => sizing.assumptions.push(format!(
                    "whether a CPU of its own keeps {} within {} was not decided: the share within \
                     is {at_least:.6} to {at_most:.6}",
                    slo.percentile, slo.latency
                )),
            }
        }
        if !sizing.infeasible.is_empty() {
            sizing.best = None;
        }
        Ok(())
    }

    fn reservation(&self) -> Option<&Reservation> {
        let domain = self.service.domain.as_str();
        self.mode.reservations.get(domain).copied()
    }

    /// The back end of the reservation; of none, the default one.
    fn backend(&self) -> BackendKind {
        let described = self.reservation().map(|reservation| reservation.backend);
        let described = described.filter(|kind| kind.has_budget());
        self.options.backend.or(described).unwrap_or_default()
    }

    fn server_kind(&self) -> Result<ServerKind, NotSized> {
        let described = self
            .reservation()
            .and_then(|reservation| reservation.server);
        let kind = self.options.server.or(described);
        match kind.or(self.backend().server_kind()) {
            Some(kind) => Ok(kind),
            None => self.kind_of_cap(),
        }
    }

    /// The rule of a cap, where nothing else of the description needs its CPUs.
    fn kind_of_cap(&self) -> Result<ServerKind, NotSized> {
        let deployment = Deployment::of(self.description, self.mode.mode, &Variant::as_described());
        let deployment = deployment.map_err(|error| NotSized::Because(error.to_string()))?;
        match PredictedSupply::of(&deployment, self.service) {
            PredictedSupply::Unknown(why) => Err(NotSized::Because(why)),
            PredictedSupply::Capped {
                with_burst: Some(_),
                ..
            } => Err(NotSized::Because(BURST_NOT_SIZED.into())),
            PredictedSupply::Guaranteed { .. } | PredictedSupply::Capped { .. } => {
                Ok(ServerKind::Deferrable)
            }
        }
    }

    /// The domains that may come before this one on its CPUs, where it has a reservation already.
    fn behind(&self) -> Vec<String> {
        let deployment = Deployment::of(self.description, self.mode.mode, &Variant::as_described());
        let ahead = deployment.map(|all| {
            let names = all.ahead_of(&self.service.domain).into_iter();
            names.map(str::to_owned).collect()
        });
        ahead.unwrap_or_default()
    }

    /// Whether the domain has a cap and no more.
    fn is_capped(&self) -> bool {
        !self.backend().guarantees_budget()
    }

    /// The range that was asked for, or one around the described period.
    fn described_range(&self) -> Option<PeriodsLookedAt> {
        if let Some((low, high)) = self.options.periods {
            let why = "as asked for".into();
            return Some(PeriodsLookedAt { low, high, why });
        }
        let period = self.reservation()?.period?;
        let why = format!("a quarter to four times the described period {period}");
        Some(around((period, 4, 4), &why))
    }

    /// The periods of a range that the back end takes, the described and the `tidy` ones of them
    /// included.
    fn periods(
        &self,
        range: &PeriodsLookedAt,
        tidy: &[Duration],
    ) -> Result<Vec<Duration>, NotSized> {
        let mut periods = spread_periods(range.low, range.high, self.options.points);
        let own = self.reservation().and_then(|one| one.period);
        let more = tidy.iter().copied().chain(own);
        if range.low < range.high {
            periods.extend(more.filter(|one| (range.low..=range.high).contains(one)));
        }
        periods.sort_unstable();
        periods.dedup();
        let mut refused = None;
        periods.retain(|period| match self.refusal(*period) {
            None => true,
            Some(why) => {
                refused = Some(why);
                false
            }
        });
        match (periods.is_empty(), refused) {
            (true, Some(why)) => Err(NotSized::Because(format!(
                "the back end takes none of the periods from {} to {}: {why}",
                range.low, range.high
            ))),
            _ => Ok(periods),
        }
    }

    /// Why the back end takes no budget at this period.
    fn refusal(&self, period: Duration) -> Option<String> {
        let interface = ResourceInterface {
            budget: period,
            period,
            priority: self.priority(),
            cpus: self.cpus(),
            budget_scope: self.budget_scope(),
            windows: Vec::new(),
            slack: Vec::new(),
        };
        let domain = &self.service.domain;
        let described = self.description.domains.get(domain)?;
        let (host, _) = self.description.host_of(described)?;
        self.options
            .host
            .refusal(host, domain, self.backend(), &interface)
    }

    fn priority(&self) -> Priority {
        self.reservation().map_or(Priority::HIGHEST, |r| r.priority)
    }

    fn budget_scope(&self) -> BudgetScope {
        let described = self.reservation();
        described.map_or(BudgetScope::EachCpu, |one| one.budget_scope)
    }

    /// Whether several CPUs share the budget.
    fn is_shared(&self) -> bool {
        self.mode.shares_guarantee(&self.service.domain)
    }

    /// The CPUs of the reservation; of none, those of the domain.
    fn cpus(&self) -> CpuSet {
        match self.reservation() {
            Some(reservation) => reservation.cpus.clone(),
            None => cpus_without_reservation(self.description, &self.service.domain),
        }
    }

    fn sized(&self, sizing: Sizing, rule: SizingRule, range: PeriodsLookedAt) -> Budgets {
        let sizing = match (self.is_capped(), &rule) {
            (true, _) => sizing.of_caps(),
            (false, SizingRule::Promises(_) | SizingRule::Runs { .. }) => {
                let of_threads = self.is_shared().then(|| ONE_THREAD.to_owned());
                let of_others = assumption_of_precedence(&self.behind());
                sizing.assuming(of_others.into_iter().chain(of_threads))
            }
            (false, _) => sizing,
        };
        let smallest = self.backend().traits().smallest_budget;
        let reservation = sizing.choice().and_then(|choice| {
            Some(Reservation {
                budget: Some(choice.with_margin?.max(smallest).min(choice.period)),
                period: Some(choice.period),
                server: match rule {
                    SizingRule::Promises(kind) | SizingRule::Runs { kind, .. }
                        if !self.is_capped() && Some(kind) != self.backend().server_kind() =>
                    {
                        Some(kind)
                    }
                    _ => None,
                },
                priority: self.priority(),
                budget_scope: self.budget_scope(),
                ..Reservation::on(self.backend(), self.cpus())
            })
        });
        let mode = self.mode.mode;
        let domain = &self.service.domain;
        let stanza = reservation
            .as_ref()
            .map(|reservation| stanza(mode, domain, reservation, &sizing));
        let does_not_fit = reservation.as_ref().and_then(|reservation| {
            let pasted = with_reservation(self.description, mode, domain, reservation);
            misfit(&pasted, mode, self.options.host)
        });
        Budgets {
            rule,
            periods: range,
            sizing,
            stanza,
            does_not_fit,
            reservation,
        }
    }
}

/// Why the reservations of the mode do not fit its hosts, if so.
fn misfit(description: &Description, mode: Option<&str>, host: &dyn HostFit) -> Option<String> {
    let modes = modes(description);
    let in_mode = modes.iter().find(|one| one.mode == mode)?;
    let mut resolved = BTreeMap::new();
    for domain in in_mode.reservations.keys() {
        match in_mode.resolved(domain) {
            Ok(Some(one)) => resolved.insert((*domain).to_owned(), one),
            Ok(None) => continue,
            Err(error) => return Some(error.to_string()),
        };
    }
    let each = HostReservations::of_hosts(description, &resolved);
    each.iter().find_map(|one| host.misfit(one))
}

/// The reservation as a table of a description, with how its budget came about.
fn stanza(mode: Option<&str>, domain: &str, reservation: &Reservation, sizing: &Sizing) -> String {
    let table = match mode {
        Some(mode) => format!("modes.{mode}.reservations.{domain}"),
        None => format!("domains.{domain}.reservation"),
    };
    let cpus: Vec<String> = reservation.cpus.iter().map(ToString::to_string).collect();
    let mut lines = vec![format!("[{table}]")];
    if let Some(choice) = sizing.choice() {
        lines.push(format!(
            "# least budget {} ({:.2} %), and a margin of {} points of bandwidth",
            choice.budget.unwrap_or_default(),
            choice.bandwidth().unwrap_or_default() * 100.0,
            sizing.margin.0
        ));
    }
    lines.push(format!("backend = \"{}\"", reservation.backend));
    for (key, value) in [
        ("budget", reservation.budget),
        ("period", reservation.period),
    ] {
        if let Some(value) = value {
            lines.push(format!("{key} = \"{value}\""));
        }
    }
    if let Some(kind) = reservation.server {
        lines.push(format!("server = \"{kind}\""));
    }
    lines.push(format!("priority = {}", reservation.priority.0));
    lines.push(format!("cpus = [{}]", cpus.join(", ")));
    if reservation.budget_scope == BudgetScope::AllCpus {
        lines.push(format!("budget_scope = \"{}\"", reservation.budget_scope));
    }
    lines.join("\n") + "\n"
}

/// Why a service has no budgets.
enum NotSized {
    Because(String),
    Analysis(AnalysisError),
}

impl NotSized {
    fn nothing_promised() -> Self {
        Self::Because(
            "nothing is promised, so every budget above the load will do; add an SLO".into(),
        )
    }
}

impl From<AnalysisError> for NotSized {
    fn from(error: AnalysisError) -> Self {
        Self::Analysis(error)
    }
}

/// From a part of a period to a multiple of it.
fn around((period, part, multiple): (Duration, u64, u64), why: &str) -> PeriodsLookedAt {
    let low = (period / part).max(Duration::from_nanos(1));
    PeriodsLookedAt {
        low,
        high: period.checked_mul(multiple).unwrap_or(period),
        why: why.into(),
    }
}

/// Parts and multiples of a hyperperiod, where W(P) has its valleys.
fn near_hyperperiod(hyperperiod: Duration) -> Vec<Duration> {
    let whole = hyperperiod.as_nanos();
    let parts = (1..=16)
        .filter(|part| whole.is_multiple_of(*part))
        .map(|part| whole / part);
    let multiples = (2..=4).filter_map(|multiple| whole.checked_mul(multiple));
    parts.chain(multiples).map(Duration::from_nanos).collect()
}

/// The description with `reservation` in place of the domain's in that mode, as it would be after
/// pasting it.
fn with_reservation(
    description: &Description,
    mode: Option<&str>,
    domain: &str,
    reservation: &Reservation,
) -> Description {
    let mut changed = description.clone();
    let in_mode = mode.and_then(|mode| changed.modes.get_mut(mode));
    if let Some(mode) = in_mode {
        mode.reservations.insert(domain.into(), reservation.clone());
    } else if let Some(domain) = changed.domains.get_mut(domain) {
        domain.reservation = Some(reservation.clone());
        domain.cpus = CpuSet::new();
    }
    changed
}
