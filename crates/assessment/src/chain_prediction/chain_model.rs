//! The laws of a chain's delays, from a description.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use tailbound_analysis::chains::estimate::{
    DelayLaw, EstimatedStage, JobRelease, OpenTime, OtherWay, PeriodicWork,
};
use tailbound_analysis::schedulability::priority_assignment::described_rank;
use tailbound_model::{
    Arrivals, Bin, Builtin, ContinuousLaw, CpuPromise, Description, Domain, ExecutionTime,
    InputFiles, Placement, Reservation, Task,
};
use tailbound_time::Duration;
use tailbound_topics::{Chain, ChainLink, ReadRule, TaskName, Topics};

use crate::displaced_reaction::{TaskWay, other_ways};

/// The largest share of the time open to a task for jobs that the prediction leaves out.
const MOST_LEFT_OUT: f64 = 0.1;

/// The longest way of messages that release each other.
pub(super) const LONGEST_RELEASE: usize = 64;

/// A chain as its estimate takes it.
pub(super) struct ModeledChain {
    /// The tasks in the order of the data.
    pub stages: Vec<EstimatedStage>,
    /// The messages of other publishers that tasks of the chain find, by the places of these tasks.
    pub others: BTreeMap<usize, Vec<OtherWay>>,
    /// The assumptions about this description, beside those of the method.
    pub assumptions: Vec<String>,
}

/// A deployed description of which chains are predicted.
pub(super) struct ChainModel<'a> {
    pub(super) description: &'a Description,
    inputs: &'a InputFiles,
    pub(super) topics: Topics,
}

/// The jobs that come before those of a task, or may.
#[derive(Default)]
struct Company {
    /// Periodic tasks with higher priorities.
    above: Vec<PeriodicWork>,
    /// The share of the CPU that they take.
    above_share: f64,
    /// Other tasks of which jobs may come before, and the share of the CPU that they take.
    beside: Vec<TaskName>,
    beside_share: f64,
}

/// The claim of a domain on its CPU.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CpuClaim {
    /// Windows of a frame.
    Windows,
    /// All the time that higher priorities leave, or as much of it as a budget that lasts.
    Priority,
    /// All the time.
    WholeCpu,
    /// A budget, or a cap.
    Budget,
    /// None.
    Rest,
}

impl CpuClaim {
    fn of(reservation: Option<&Reservation>) -> Self {
        let Some(backend) = reservation.map(|reservation| reservation.backend) else {
            return Self::Rest;
        };
        if backend.has_windows() {
            Self::Windows
        } else if backend.is_real_time_without_budget() {
            Self::Priority
        } else if backend.has_budget() {
            Self::Budget
        } else {
            match backend.promise() {
                CpuPromise::WholeCpus => Self::WholeCpu,
                CpuPromise::Budget => Self::Budget,
                CpuPromise::Nothing => Self::Rest,
            }
        }
    }
}

/// The place of another task relative to a task of a chain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CpuOrder {
    Above,
    Beside,
    Below,
}

impl<'a> ChainModel<'a> {
    pub(super) fn of(description: &'a Description, inputs: &'a InputFiles) -> Self {
        Self {
            description,
            inputs,
            topics: description.section(),
        }
    }

    /// The stages of a chain, or why the method does not hold for it.
    pub(super) fn chain(&self, name: &str, chain: &Chain) -> Result<ModeledChain, String> {
        let links = chain.links(&self.topics);
        let links = links.map_err(|fault| format!("`chains.{name}.path`: {fault}"))?;
        let mut modeled = ModeledChain {
            stages: Vec::new(),
            others: BTreeMap::new(),
            assumptions: Vec::new(),
        };
        let first = links.first().map(|link| &link.publisher);
        let first = first.ok_or_else(|| format!("`chains.{name}.path` has no tasks"))?;
        let assumptions = &mut modeled.assumptions;
        modeled.stages.push(self.stage(first, None, assumptions)?);
        for link in &links {
            let stage = self.stage(&link.subscriber, Some(link), assumptions)?;
            modeled.stages.push(stage);
        }
        modeled.others = self.others(&links, assumptions)?;
        // Tasks of one host say the same of it.
        modeled.assumptions.sort();
        modeled.assumptions.dedup();
        Ok(modeled)
    }

    /// The messages of others that tasks of a chain find.
    fn others(
        &self,
        links: &[ChainLink],
        assumptions: &mut Vec<String>,
    ) -> Result<BTreeMap<usize, Vec<OtherWay>>, String> {
        let mut seen: Vec<&TaskName> = links.iter().map(|link| &link.publisher).collect();
        seen.extend(links.last().map(|link| &link.subscriber));
        let ways = other_ways(&self.topics, links)?;
        let mut all = BTreeMap::new();
        for (at, ways) in &ways {
            let link = &links[at - 1];
            for way in ways {
                if let Some(task) = way.iter().find(|task| seen.contains(task)) {
                    return Err(format!(
                        "`topics.{}.publishers`: messages come by task {task} in two ways, so that jobs of one task decide on both;                          `tailbound simulate` answers for that",
                        link.topic
                    ));
                }
                seen.extend(way);
                let way = self.other_way(way, link, assumptions)?;
                all.entry(*at).or_insert_with(Vec::new).push(way);
            }
        }
        Ok(all)
    }

    fn other_way(
        &self,
        way: &TaskWay,
        link: &ChainLink,
        assumptions: &mut Vec<String>,
    ) -> Result<OtherWay, String> {
        let mut stages = Vec::new();
        for (index, name) in way.iter().enumerate() {
            let releasing = self.topics.releasing(name);
            let released = index.checked_sub(1).zip(releasing);
            let link = released.map(|(before, (topic, _))| ChainLink {
                publisher: way[before].clone(),
                topic: topic.clone(),
                subscriber: name.clone(),
                reads: ReadRule::Released,
            });
            stages.push(self.stage(name, link.as_ref(), assumptions)?);
        }
        let publishers = &self.topics.0[&link.topic].publishers;
        let place = |name: Option<&TaskName>| {
            let name = name.map(TaskName::to_string);
            publishers.iter().position(|one| Some(one) == name.as_ref())
        };
        Ok(OtherWay {
            stages,
            // A simulation takes messages that come at once in the order of the description.
            is_later: place(way.last()) > place(Some(&link.publisher)),
        })
    }

    fn stage(
        &self,
        name: &TaskName,
        link: Option<&ChainLink>,
        assumptions: &mut Vec<String>,
    ) -> Result<EstimatedStage, String> {
        let (domain, task) = self.task(name)?;
        check_task(name, domain, task)?;
        let release = match link {
            Some(link) => self.release_of_reader(name, task, link)?,
            None => self.clock(name, task)?,
        };
        let delay = link.and_then(|link| self.topics.0.get(&link.topic)?.delay);
        let delay = delay.unwrap_or_default();
        let execution = self.law(name)?;
        let supplied = self.supplied(name, domain)?;
        let company = self.company(name, domain, task)?;
        self.check_load(name, &company, &execution, supplied.share())?;
        if !company.beside.is_empty() {
            assumptions.push(format!(
                "jobs of {name} never wait for those of {}, which take {:.2}% of the CPU",
                names(&company.beside),
                company.beside_share * 100.0
            ));
        }
        let open = supplied.behind(&company.above).ok_or_else(|| {
            format!(
                "`{}`: the tasks with higher priorities leave no time, or have too many jobs in their hyperperiod",
                key(name, "priority")
            )
        })?;
        assumptions.extend(self.host_costs(domain));
        if CpuClaim::of(domain.reservation.as_ref()) == CpuClaim::Budget {
            assumptions.push(format!(
                "the budget of domain {} is never used up: in each period its tasks run the jobs that come in it, and at most one \
                 each from before",
                name.domain
            ));
        }
        if !company.above.is_empty() {
            let means = "tasks with higher priorities take their mean execution times";
            assumptions.push(format!("of the tasks that {name} waits for: {means}"));
        }
        Ok(EstimatedStage {
            release,
            jitter: match release {
                JobRelease::Message => Duration::ZERO,
                _ => task.jitter,
            },
            open,
            execution,
            delay: DelayLaw::uniform(delay.least, delay.most),
        })
    }

    /// Refuses a task that asks for more than is open to it, with those that may come before, or that others keep from it too often.
    fn check_load(
        &self,
        name: &TaskName,
        company: &Company,
        execution: &DelayLaw,
        open_share: f64,
    ) -> Result<(), String> {
        let own_share = self.rate(name, 0)? * execution.mean().as_secs_f64();
        let asked = own_share + company.above_share + company.beside_share;
        if asked >= open_share {
            return Err(format!(
                "`{}`: the task, and those that may come before it, ask for {:.1}% of the CPU, and {:.1}% is there for them: raise \
                 the windows, or lower rates or execution times",
                key(name, "execution_time"),
                asked * 100.0,
                open_share * 100.0
            ));
        }
        if company.beside_share > MOST_LEFT_OUT * open_share {
            return Err(format!(
                "`{}`: jobs of {} may come before those of {name}, and take {:.1}% of the time that is open to it; only periodic \
                 tasks with higher priorities are predicted; `tailbound simulate` answers for others",
                domain_key(name, "scheduling"),
                names(&company.beside),
                company.beside_share / open_share * 100.0
            ));
        }
        Ok(())
    }

    /// The keys of a host that cost CPU time, which the method leaves out.
    fn host_costs(&self, domain: &Domain) -> Option<String> {
        let (name, host) = self.description.host_of(domain)?;
        let keys = [
            ("overheads", !host.overheads.is_free()),
            ("interference", !host.interference.is_empty()),
            ("speeds", host.speeds.iter().any(|speed| *speed != 100)),
        ];
        let keys = keys.iter().filter(|(_, is_there)| *is_there);
        let keys: Vec<String> = keys.map(|(key, _)| format!("hosts.{name}.{key}")).collect();
        let keys = keys.join(" and ");
        (!keys.is_empty()).then(|| format!("of {keys}, only the begins of windows cost time"))
    }

    pub(super) fn task(&self, name: &TaskName) -> Result<(&'a Domain, &'a Task), String> {
        let domain = self.description.domains.get(&name.domain);
        let task = domain.and_then(|domain| Some((domain, domain.tasks.get(&name.task)?)));
        task.ok_or_else(|| format!("task {name} does not run in this variant"))
    }

    /// The releases of a task that reads the topic of a link.
    fn release_of_reader(
        &self,
        name: &TaskName,
        task: &Task,
        link: &ChainLink,
    ) -> Result<JobRelease, String> {
        let topic = self.topics.0.get(&link.topic);
        let is_shared = topic.is_some_and(|topic| topic.publishers.len() > 1);
        if is_shared && link.reads == ReadRule::Released {
            return Err(format!(
                "`topics.{}.publishers`: the messages of several publishers release {name}, and a job waits for that of a message \
                 which came before; give each publisher a topic and a task of its own, or `tailbound simulate`",
                link.topic
            ));
        }
        if link.reads == ReadRule::Released {
            return match task.jitter.is_zero() {
                true => Ok(JobRelease::Message),
                false => Err(format!(
                    "`{}`: messages release {name}, and their delay is that of the topic; write the jitter as `topics.{}.delay`",
                    key(name, "jitter"),
                    link.topic
                )),
            };
        }
        if let Some((other, _)) = self.topics.releasing(name) {
            return Err(format!(
                "`topics.{other}.released`: messages of another topic release {name}, which reads the newest message of `{}` then; \
                 `tailbound simulate` answers for that",
                link.topic
            ));
        }
        if let Arrivals::Sporadic {
            min_gap, max_gap, ..
        } = task.arrivals
            && min_gap == max_gap
        {
            return Err(format!(
                "`{}`: gaps that never vary keep the phase of the reader to the messages for ever, and nothing says which one that is; \
                 write `{{ kind = \"periodic\", period = \"{min_gap}\" }}`, or gaps that vary",
                key(name, "arrivals")
            ));
        }
        self.clock(name, task)
    }

    fn clock(&self, name: &TaskName, task: &Task) -> Result<JobRelease, String> {
        if let Some((topic, _)) = self.topics.releasing(name) {
            return Err(format!(
                "`topics.{topic}.released`: the chain begins at {name}, which has no clock of its own"
            ));
        }
        match task.arrivals {
            Arrivals::Periodic { period, .. } if task.jitter > period => Err(format!(
                "`{}`: jobs would be ready while earlier ones are not; a jitter of at most {period}, the period, is predicted, and \
                 `tailbound simulate` draws longer ones",
                key(name, "jitter")
            )),
            Arrivals::Periodic { period, offset } => Ok(JobRelease::Periodic { period, offset }),
            Arrivals::Sporadic { .. } if !task.jitter.is_zero() => Err(format!(
                "`{}`: of sporadic arrivals no jitter is predicted; leave it out and widen the gaps, or `tailbound simulate`",
                key(name, "jitter")
            )),
            Arrivals::Sporadic {
                min_gap, max_gap, ..
            } => Ok(JobRelease::Sporadic {
                least_gap: min_gap,
                longest_gap: max_gap,
            }),
            _ => Err(format!(
                "`{}`: only periodic and sporadic arrivals are predicted; `tailbound simulate` answers for others",
                key(name, "arrivals")
            )),
        }
    }

    /// The law of the execution times of a task.
    fn law(&self, name: &TaskName) -> Result<DelayLaw, String> {
        let (_, task) = self.task(name)?;
        let unknown = |why: &str| format!("`{}`: {why}", key(name, "execution_time"));
        let time = &task.execution_time;
        if let Some(law) = ContinuousLaw::of(time) {
            return Ok(DelayLaw::of_quantiles(|share| law.exceeded_by(1.0 - share)));
        }
        match time {
            ExecutionTime::Constant { value } | ExecutionTime::Uniform { min: value, .. } => {
                Ok(DelayLaw::constant(*value))
            }
            ExecutionTime::Calibrated {
                expected: Some(value),
            } => Ok(DelayLaw::constant(*value)),
            ExecutionTime::Calibrated { expected: None } => Err(unknown(
                "the execution time is not known before a calibration; give `expected`",
            )),
            ExecutionTime::Samples { file } => {
                let samples = self.inputs.samples(file).unwrap_or_default();
                let total: u64 = samples.iter().map(|sample| sample.count).sum();
                let at = |share: f64| {
                    let rank = (share * total as f64) as u64;
                    let mut seen = 0;
                    let sample = samples.iter().find(|sample| {
                        seen += sample.count;
                        seen > rank
                    });
                    sample
                        .or(samples.last())
                        .map_or(Duration::ZERO, |it| it.value)
                };
                match total {
                    0 => Err(unknown("the file has no samples")),
                    _ => Ok(DelayLaw::of_quantiles(at)),
                }
            }
            ExecutionTime::Histogram { bins, file } => {
                let of_file = file.as_ref().and_then(|file| self.inputs.histogram(file));
                let bins = of_file.unwrap_or(bins);
                let law = histogram(bins).ok_or_else(|| unknown("the histogram is empty"))?;
                Ok(law)
            }
            _ => Err(unknown("execution times of a trace are not predicted")),
        }
    }

    /// The times at which the CPU is there for the domain of a task.
    fn supplied(&self, name: &TaskName, domain: &Domain) -> Result<OpenTime, String> {
        let reservation = domain.reservation.as_ref();
        let host = self.description.host_of(domain);
        let (host_name, host) =
            host.ok_or_else(|| format!("domain {} has no host", name.domain))?;
        if host.placement == Placement::Global {
            return Err(format!(
                "`hosts.{host_name}.placement`: tasks that change CPUs are not predicted; `tailbound simulate` answers for them"
            ));
        }
        if self.description.vcpus_of(domain) != 1 {
            return Err(format!(
                "`{}`: a domain with several CPUs is not predicted; give it one, or `tailbound simulate`",
                domain_key(name, "reservation.cpus")
            ));
        }
        match CpuClaim::of(reservation) {
            CpuClaim::Windows => {
                if let Some(donor) = self.donor_to(&name.domain) {
                    return Err(format!(
                        "`domains.{donor}.reservation.slack`: what {donor} leaves to {} is not predicted; `tailbound simulate` answers \
                         for that",
                        name.domain
                    ));
                }
                let windows = reservation.map_or(&[][..], |reservation| &reservation.windows);
                let frame = host.major_frame.unwrap_or_default();
                OpenTime::windows(frame, &host.running_windows(windows)).ok_or_else(|| {
                    format!(
                        "`{}`: the windows are no part of the major frame",
                        domain_key(name, "reservation.windows")
                    )
                })
            }
            CpuClaim::Priority | CpuClaim::WholeCpu | CpuClaim::Rest => Ok(OpenTime::always()),
            CpuClaim::Budget => {
                self.check_budget_lasts(&name.domain, domain)?;
                Ok(OpenTime::always())
            }
        }
    }

    /// A domain that leaves slack to this one.
    fn donor_to(&self, receiver: &str) -> Option<&'a String> {
        let mut domains = self.description.domains.iter();
        let donor = domains.find(|(_, domain)| {
            let reservation = domain.reservation.as_ref();
            reservation.is_some_and(|held| held.slack.iter().any(|name| name == receiver))
        });
        donor.map(|(name, _)| name)
    }

    /// The claim of a domain on its CPU; that of its priority where its budget lasts.
    fn claim(&self, name: &str, domain: &Domain) -> CpuClaim {
        match CpuClaim::of(domain.reservation.as_ref()) {
            CpuClaim::Budget if self.check_budget_lasts(name, domain).is_ok() => CpuClaim::Priority,
            claim => claim,
        }
    }

    /// The tasks that come before those of a domain on its CPU, or may.
    fn company(&self, name: &TaskName, domain: &Domain, task: &Task) -> Result<Company, String> {
        let mut company = Company::default();
        let others = self.description.domains.iter();
        for (other_name, other) in others {
            let precedence = if *other_name == name.domain {
                None
            } else {
                match self.precedence(name, domain, (other_name, other))? {
                    CpuOrder::Below => continue,
                    precedence => Some(precedence),
                }
            };
            for (task_name, one) in &other.tasks {
                let own = TaskName {
                    domain: other_name.clone(),
                    task: task_name.clone(),
                };
                if own == *name {
                    continue;
                }
                let precedence = precedence.unwrap_or_else(|| within(domain, task, one));
                self.add(&mut company, own, one, precedence)?;
            }
        }
        Ok(company)
    }

    fn add(
        &self,
        company: &mut Company,
        name: TaskName,
        task: &Task,
        precedence: CpuOrder,
    ) -> Result<(), String> {
        let work = self.law(&name)?.mean();
        let share = self.rate(&name, 0)? * work.as_secs_f64();
        let by_clock = self.topics.releasing(&name).is_none() && task.clients == 1;
        let by_clock = by_clock && task.jitter.is_zero();
        match (precedence, &task.arrivals) {
            (CpuOrder::Below, _) => {}
            (CpuOrder::Above, Arrivals::Periodic { period, offset }) if by_clock => {
                company.above_share += share;
                company.above.push(PeriodicWork {
                    period: *period,
                    offset: *offset,
                    work,
                });
            }
            _ => {
                company.beside_share += share;
                company.beside.push(name);
            }
        }
        Ok(())
    }

    /// The place of another domain on the CPU of a task.
    fn precedence(
        &self,
        name: &TaskName,
        domain: &Domain,
        (other_name, other): (&str, &Domain),
    ) -> Result<CpuOrder, String> {
        let host = |domain: &Domain| {
            self.description
                .host_of(domain)
                .map(|(name, _)| name.to_owned())
        };
        let cpus = self.description.cpus_of(domain);
        let is_elsewhere =
            host(domain) != host(other) || self.description.cpus_of(other).is_disjoint(&cpus);
        let priority = |domain: &Domain| domain.reservation.as_ref().map(|held| held.priority);
        let own = self.claim(&name.domain, domain);
        let theirs = self.claim(other_name, other);
        // A partition has its windows for itself.
        if is_elsewhere || own == CpuClaim::Windows || self.is_idle(other_name, other) {
            return Ok(CpuOrder::Below);
        }
        let refuse = |what: &str| {
            Err(format!(
                "`domains.{other_name}.reservation`: the domain shares the CPU of {name}, {what}; `tailbound simulate` answers for \
                 that"
            ))
        };
        match (own, theirs) {
            (CpuClaim::Priority, CpuClaim::Priority) if self.has_services(other_name) => {
                refuse("and its services have requests")
            }
            (CpuClaim::Priority, CpuClaim::Priority) => {
                Ok(match priority(other).cmp(&priority(domain)) {
                    Ordering::Greater => CpuOrder::Above,
                    Ordering::Equal => CpuOrder::Beside,
                    Ordering::Less => CpuOrder::Below,
                })
            }
            (CpuClaim::Priority | CpuClaim::WholeCpu, CpuClaim::Rest) => Ok(CpuOrder::Below),
            (CpuClaim::Rest, CpuClaim::Rest) => {
                refuse("on which nothing is reserved for either of the two")
            }
            _ => refuse(
                "which is only predicted for real-time priorities, and budgets that are never used up",
            ),
        }
    }

    /// Whether nothing says that a domain asks for CPU time.
    fn is_idle(&self, name: &str, domain: &Domain) -> bool {
        let runs = domain.cpu_bound || domain.builtin == Some(Builtin::CpuHog);
        !runs && domain.tasks.is_empty() && !self.has_services(name)
    }

    pub(super) fn has_services(&self, domain: &str) -> bool {
        let mut services = self.description.services.values();
        services.any(|service| service.domain == domain)
    }

    /// The jobs of a task in a second: those of its clock, or the messages that release it.
    fn rate(&self, name: &TaskName, depth: usize) -> Result<f64, String> {
        let (_, task) = self.task(name)?;
        let releasing = self.topics.releasing(name);
        let Some((_, topic)) = releasing.filter(|_| depth < LONGEST_RELEASE) else {
            let rate = task.mean_rate();
            let rate = rate.ok_or_else(|| {
                format!(
                    "`{}`: the jobs in a second are not known",
                    key(name, "arrivals")
                )
            });
            return Ok(rate?.as_per_second());
        };
        let publishers = topic.publishers.iter();
        let publishers = publishers.filter_map(|publisher| TaskName::parse(publisher));
        publishers.map(|one| self.rate(&one, depth + 1)).sum()
    }
}

/// Refuses a task, or its domain, of which the method leaves out a key.
fn check_task(name: &TaskName, domain: &Domain, task: &Task) -> Result<(), String> {
    let refused = [
        ("clients", task.clients > 1),
        ("blocking", !task.blocking.is_zero()),
        ("boost", task.boost.is_some()),
        ("sections", !task.sections.is_empty()),
    ];
    if let Some((what, _)) = refused.iter().find(|(_, is_there)| *is_there) {
        return Err(format!(
            "`{}` is not predicted; `tailbound simulate` answers for it",
            key(name, what)
        ));
    }
    let refused = [
        ("inside", domain.inside.is_some()),
        ("aperiodic", domain.aperiodic.is_some()),
        ("instances", domain.instances > 1),
        ("preemptive", !domain.preemptive && domain.tasks.len() > 1),
    ];
    match refused.iter().find(|(_, is_there)| *is_there) {
        Some((what, _)) => Err(format!(
            "`{}` is not predicted; `tailbound simulate` may answer for it",
            domain_key(name, what)
        )),
        None => Ok(()),
    }
}

/// The law of a histogram: a bin by its count, and any time within it with the same probability.
fn histogram(bins: &[Bin]) -> Option<DelayLaw> {
    let total: u64 = bins.iter().map(|bin| bin.count).sum();
    let at = |share: f64| {
        let mut rank = share * total as f64;
        for bin in bins {
            let count = bin.count as f64;
            if rank < count {
                let width_ns = bin.to.saturating_sub(bin.from).as_nanos() as f64;
                let into_ns = (width_ns * rank / count).round() as u64;
                return bin.from.saturating_add(Duration::from_nanos(into_ns));
            }
            rank -= count;
        }
        bins.last().map_or(Duration::ZERO, |bin| bin.to)
    };
    (total > 0).then(|| DelayLaw::of_quantiles(at))
}

/// The place of another task of the same domain.
fn within(domain: &Domain, task: &Task, other: &Task) -> CpuOrder {
    let rank = |task| described_rank(domain.scheduling, task);
    match (rank(other), rank(task)) {
        (Some(theirs), Some(own)) if theirs < own => CpuOrder::Above,
        (Some(theirs), Some(own)) if theirs > own => CpuOrder::Below,
        _ => CpuOrder::Beside,
    }
}

pub(super) fn key(name: &TaskName, key: &str) -> String {
    format!("domains.{}.tasks.{}.{key}", name.domain, name.task)
}

fn domain_key(name: &TaskName, key: &str) -> String {
    format!("domains.{}.{key}", name.domain)
}

fn names(tasks: &[TaskName]) -> String {
    let names: Vec<String> = tasks.iter().map(TaskName::to_string).collect();
    names.join(", ")
}
