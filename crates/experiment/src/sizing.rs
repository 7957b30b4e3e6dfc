//! The reservations that keep what a description promises.

use tailbound_analysis::response_time::PoissonQueue;
use tailbound_analysis::sizing::{
    Infeasible, Promise, ServerKind, Sizing, SizingQuery, size, size_periodic, spread_periods,
};
use tailbound_analysis::{AnalysisError, PeriodicLoad, ServiceQuery, predict};
use tailbound_distribution::Interval;
use tailbound_enforcement::backends::backend;
use tailbound_enforcement::{ReservationRequest, Target};
use tailbound_linux::HostCapabilities;
use tailbound_model::{
    Arrivals, BackendKind, BackendOptions, CpuSet, Description, Domain, InputFiles,
    PercentagePoints, Priority, Reservation, ReservationServer, ResourceInterface, Service,
};
use tailbound_time::Duration;

use crate::ExperimentError;
use crate::execution_times::{Known, execution_times};
use crate::in_mode::{InMode, modes, unanalysed};

/// What is asked about the services of a description.
#[derive(Clone, Debug)]
pub struct SizingOptions<'a> {
    /// Only this service.
    pub service: Option<&'a str>,
    /// The shortest and the longest period; chosen by the description if left out.
    pub periods: Option<(Duration, Duration)>,
    /// How many periods are looked at.
    pub points: u32,
    /// What is added to every bandwidth for what the theory leaves out.
    pub margin: PercentagePoints,
    /// The kind of server, in place of the back end's.
    pub server: Option<ServerKind>,
    /// The host whose back ends limit what periods there are.
    pub host: &'a HostCapabilities,
}

/// The answer for one service in one mode.
#[derive(Clone, Debug)]
pub struct ServiceSizing {
    /// The mode, where the description has modes.
    pub mode: Option<String>,
    /// The service.
    pub service: String,
    /// Its domain.
    pub domain: String,
    /// What came out.
    pub outcome: Outcome,
}

/// What came out for a service.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Budgets, or the proof that there are none.
    Sized(Box<Budgets>),
    /// The work is too much for one CPU: no budget keeps any promise.
    Overloaded(String),
    /// Why there is no answer.
    NotSized(String),
}

/// The budgets of a service.
#[derive(Clone, Debug)]
pub struct Budgets {
    /// The least budget at each period, and the choice.
    pub sizing: Sizing,
    /// By what they were found.
    pub rule: Rule,
    /// The periods that were looked at, and why these.
    pub range: PeriodsLookedAt,
    /// The reservation of the choice, its margin included.
    pub reservation: Option<Reservation>,
}

/// By what a budget was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It keeps the promises, for Poisson arrivals, on a server of this kind.
    Promises(ServerKind),
    /// Periodic and sporadic tasks run as on a CPU of their own: W(P).
    AsOnOwnCpu,
}

/// Which periods were looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeriodsLookedAt {
    /// The shortest.
    pub low: Duration,
    /// The longest.
    pub high: Duration,
    /// Why these.
    pub why: String,
}

/// Sizes every chosen service in every mode.
///
/// # Errors
/// What is wrong with the description or the question; a service that cannot be sized is none.
pub fn size_services(
    description: &Description,
    inputs: &InputFiles,
    options: &SizingOptions<'_>,
) -> Result<Vec<ServiceSizing>, ExperimentError> {
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
            answers.push(ServiceSizing {
                mode: mode.mode.map(Into::into),
                service: (*name).into(),
                domain: service.domain.clone(),
                outcome: one.outcome(inputs)?,
            });
        }
    }
    Ok(answers)
}

/// One service in one mode.
struct One<'a> {
    description: &'a Description,
    mode: &'a InMode<'a>,
    name: &'a str,
    service: &'a Service,
    options: &'a SizingOptions<'a>,
}

impl One<'_> {
    fn outcome(&self, inputs: &InputFiles) -> Result<Outcome, ExperimentError> {
        let poisson = |s: &Service| {
            let mut tasks = s.tasks.values();
            tasks.all(|task| matches!(task.arrivals, Arrivals::Poisson { .. }))
        };
        let is_own = !self.description.services.contains_key(self.name);
        if let Some(why) = is_own
            .then(|| unanalysed(self.description, self.name))
            .flatten()
        {
            return Ok(Outcome::NotSized(why));
        }
        let sharing = self.mode.services_in(&self.service.domain);
        if let Some((other, _)) = sharing
            .iter()
            .find(|(name, other)| *name != self.name && (poisson(other) || poisson(self.service)))
        {
            return Ok(Outcome::NotSized(format!(
                "service \"{other}\" spends the budget of domain \"{}\" as well, and the theory is \
                 for one queue; give it a domain of its own",
                self.service.domain
            )));
        }
        let sized = if poisson(self.service) {
            let known = match execution_times(self.name, self.service, inputs, None) {
                Ok(known) => known,
                Err(error @ ExperimentError::NotCalibrated { .. }) => {
                    return Ok(Outcome::NotSized(error.to_string()));
                }
                Err(error) => return Err(error),
            };
            self.by_promises(&known)
        } else {
            self.as_on_own_cpu(&sharing, inputs)
        };
        match sized {
            Ok(sized) => Ok(Outcome::Sized(Box::new(sized))),
            Err(NotSized::Because(why)) => Ok(Outcome::NotSized(why)),
            Err(NotSized::Analysis(AnalysisError::Invalid { what })) => {
                Err(AnalysisError::Invalid { what }.into())
            }
            Err(NotSized::Analysis(error @ AnalysisError::Overloaded { .. })) => {
                Ok(Outcome::Overloaded(error.to_string()))
            }
            Err(NotSized::Analysis(error)) => Ok(Outcome::NotSized(error.to_string())),
        }
    }

    /// The least budgets that keep the promises of a service with Poisson tasks.
    fn by_promises(&self, known: &Known) -> Result<Budgets, NotSized> {
        let kind = self.server_kind()?;
        let promises = self.promises()?;
        let queue = PoissonQueue::of_service(
            self.name,
            self.service,
            &known.measured,
            ReservationServer::Dedicated,
        )?;
        let strictest = promises.iter().map(|promise| promise.latency).min();
        let range = match self.described_range() {
            Some(range) => range,
            None => around(
                (strictest.unwrap_or_default(), 16, 1),
                "a sixteenth of the strictest promised latency up to all of it, since no period \
                 is described",
            ),
        };
        let query = SizingQuery {
            queue,
            promises,
            kind,
            periods: self.periods(&range, &[])?,
            margin: self.options.margin,
        };
        let sizing = size(&query)?;
        Ok(self.sized(sizing, Rule::Promises(kind), range))
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
            let known = execution_times(name, service, inputs, None)
                .map_err(|error| NotSized::Because(error.to_string()))?;
            let one = PeriodicLoad::of(service, &known.measured).map_err(|error| match error {
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
        Ok(self.sized(sizing, Rule::AsOnOwnCpu, range))
    }

    /// What is promised about all jobs of the service.
    fn promises(&self) -> Result<Vec<Promise>, NotSized> {
        let slos = &self.service.slos;
        if slos.is_empty() {
            return Err(NotSized::Because(
                "nothing is promised, so every budget above the load will do; add an SLO".into(),
            ));
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
                _ => promises.push(Promise {
                    probability: slo.percentile.probability(),
                    latency: slo.latency,
                }),
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
        let known = execution_times(self.name, self.service, inputs, None)
            .map_err(|error| NotSized::Because(error.to_string()))?;
        let predicted = predict(&ServiceQuery {
            name: self.name,
            service: self.service,
            execution_times: known.measured,
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
            let (at_least, at_most) = distribution.cdf(slo.latency);
            let probability = slo.percentile.probability();
            if at_most < probability {
                let unknown = Interval {
                    low: slo.latency,
                    high: None,
                };
                sizing.infeasible.push(Infeasible {
                    promise: Promise {
                        probability,
                        latency: slo.latency,
                    },
                    share_at_most: at_most,
                    latency: distribution.quantile(probability).unwrap_or(unknown),
                });
            } else if at_least < probability {
                sizing.assumptions.push(format!(
                    "whether a CPU of its own keeps {} within {} was not decided: the share within \
                     is {at_least:.6} to {at_most:.6}",
                    slo.percentile, slo.latency
                ));
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
        described
            .filter(|kind| kind.has_budget())
            .unwrap_or_default()
    }

    fn server_kind(&self) -> Result<ServerKind, NotSized> {
        let described = self
            .reservation()
            .and_then(|reservation| reservation.server);
        let kind = self.options.server.or(described);
        kind.or(self.backend().server_kind()).ok_or_else(|| {
            NotSized::Because(format!(
                "{} is a cap and guarantees nothing, so no budget of it keeps a promise; choose \
                 another back end",
                self.backend()
            ))
        })
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
        let kind = self.backend();
        let request = ReservationRequest {
            domain: self.service.domain.clone(),
            target: Target::Processes(Vec::new()),
            interface: ResourceInterface {
                budget: period,
                period,
                priority: self.priority(),
                cpus: self.cpus(),
            },
            backend: kind,
            options: BackendOptions::default(),
        };
        let checked = backend(kind).check_interface(&request, self.options.host);
        checked.err().map(|error| error.to_string())
    }

    fn priority(&self) -> Priority {
        self.reservation().map_or(Priority::HIGHEST, |r| r.priority)
    }

    /// The CPUs of the reservation; of none, the domain's, or the host's first that is not for
    /// housekeeping.
    fn cpus(&self) -> CpuSet {
        if let Some(reservation) = self.reservation() {
            return reservation.cpus.clone();
        }
        let domain: Option<&Domain> = self.description.domains.get(&self.service.domain);
        if let Some(domain) = domain.filter(|domain| !domain.cpus.is_empty()) {
            return domain.cpus.clone();
        }
        let hosts = &self.description.hosts;
        let named = domain.and_then(|domain| hosts.get(domain.host.as_ref()?));
        let Some(host) = named.or_else(|| hosts.values().next()) else {
            return CpuSet::new();
        };
        let free = host.cpus.difference(&host.housekeeping).next();
        free.or(host.cpus.first()).copied().into_iter().collect()
    }

    fn sized(&self, sizing: Sizing, rule: Rule, range: PeriodsLookedAt) -> Budgets {
        let smallest = self.backend().traits().smallest_budget;
        let choice = sizing.best.and_then(|index| sizing.choices.get(index));
        let reservation = choice.and_then(|choice| {
            Some(Reservation {
                budget: Some(choice.with_margin?.max(smallest).min(choice.period)),
                period: Some(choice.period),
                server: match rule {
                    Rule::Promises(kind) if Some(kind) != self.backend().server_kind() => {
                        Some(kind)
                    }
                    _ => None,
                },
                priority: self.priority(),
                ..Reservation::on(self.backend(), self.cpus())
            })
        });
        Budgets {
            sizing,
            rule,
            range,
            reservation,
        }
    }
}

/// Why a service has no budgets.
enum NotSized {
    Because(String),
    Analysis(AnalysisError),
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
pub fn with_reservation(
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
