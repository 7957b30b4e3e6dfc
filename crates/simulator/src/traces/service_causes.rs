//! What the jobs of services waited for, in a plan of one CPU.

use tailbound_trace::explain::{Explanation, ServiceActivity, SimulatedService};

use super::setting::Setting;
use crate::hierarchy::{Completion, Job, Piece, Sink};

/// What the operating system's own work is called.
const KERNEL: &str = "operating system";
/// What an instant is called at which the CPU is nobody's.
const NOBODY: &str = "nobody";

/// A service of a plan.
#[derive(Clone, Debug)]
struct PlannedService {
    /// The reservations that it is inside of.
    inside_of: Vec<usize>,
    /// How many of them have run out.
    run_out: usize,
    /// How many of those are time partitions without an open window.
    closed: usize,
    state: SimulatedService,
}

impl PlannedService {
    /// What keeps it from the CPU while a reservation around it has run out.
    fn withheld(&self) -> ServiceActivity<'static> {
        match self.closed {
            0 => ServiceActivity::BudgetUsedUp,
            _ => ServiceActivity::OutsideWindow,
        }
    }
}

/// A sink that splits the response times of services by cause: the job's own execution, jobs of the same service before
/// it, a budget that was used up, a window that was not open, and who else had the CPU. The parts of each response time add up to it. Plans of
/// several CPUs are not split: a service may run on some of them and wait for others.
#[derive(Clone, Debug)]
pub struct ServiceCauses {
    setting: Setting,
    services: Vec<PlannedService>,
    /// The service of each task, by its position, and the task's place among the tasks of the service.
    of_task: Vec<Option<(usize, usize)>>,
    warm_up_ns: u64,
}

impl ServiceCauses {
    /// A sink for a plan; `services` says of each task, in the order of the plan, the service that it is of.
    pub fn new(setting: Setting, services: &[Option<String>], warm_up_ns: u64) -> Self {
        let mut causes = Self {
            setting,
            services: Vec::new(),
            of_task: Vec::new(),
            warm_up_ns,
        };
        if causes.setting.cpus() != 1 {
            return causes;
        }
        let mut names: Vec<(&str, Vec<String>)> = Vec::new();
        for (task, service) in services.iter().enumerate() {
            let place = service.as_deref().map(|service| {
                let index = names.iter().position(|(name, _)| *name == service);
                let index = index.unwrap_or_else(|| {
                    names.push((service, Vec::new()));
                    let inside_of = causes.setting.tasks()[task].inside_of.clone();
                    causes.services.push(PlannedService {
                        inside_of,
                        run_out: 0,
                        closed: 0,
                        state: SimulatedService::new(service, Vec::new()),
                    });
                    names.len() - 1
                });
                names[index].1.push(causes.setting.task_name(task));
                (index, names[index].1.len() - 1)
            });
            causes.of_task.push(place);
        }
        for (service, (name, tasks)) in causes.services.iter_mut().zip(names) {
            service.state = SimulatedService::new(name, tasks);
        }
        causes
    }

    /// The explanation of each service, in bands between these quantiles.
    pub fn finish(self, quantiles: &[f64]) -> Vec<Explanation> {
        let services = self.services.into_iter();
        services
            .map(|service| service.state.finish(quantiles))
            .collect()
    }

    fn service_of(&self, task: usize) -> Option<(usize, usize)> {
        self.of_task.get(task).copied().flatten()
    }

    /// Something else has the CPU between two instants: whoever has a job and budget waits for it.
    fn preempt(&mut self, except: Option<usize>, name: &str, from: u64, until: u64) {
        for (index, service) in self.services.iter_mut().enumerate() {
            if Some(index) != except && service.run_out == 0 && service.state.is_busy() {
                service.state.does(from, ServiceActivity::Preempted(name));
                service
                    .state
                    .does(until, ServiceActivity::Preempted(NOBODY));
            }
        }
    }
}

/// The number of a job, as long as it is under way: later ones may have it again.
fn short(number: u64) -> u32 {
    // All bits set names nobody.
    (number % u64::from(u32::MAX)) as u32
}

impl Sink for ServiceCauses {
    fn released(&mut self, job: &Job) {
        let Some((index, _)) = self.service_of(job.task) else {
            return;
        };
        let service = &mut self.services[index];
        if !service.state.is_busy() {
            let waits = match service.run_out {
                0 => ServiceActivity::Preempted(NOBODY),
                _ => service.withheld(),
            };
            service.state.does(job.release, waits);
        }
        service.state.released(short(job.number), job.release);
    }

    fn ran(&mut self, piece: &Piece) {
        let own = self.service_of(piece.task).map(|(index, _)| index);
        if let Some(service) = own.map(|index| &mut self.services[index]) {
            let job = short(piece.number);
            service.state.ran(job, piece.until - piece.from);
            service
                .state
                .does(piece.from, ServiceActivity::Running(job));
            if service.state.is_busy() {
                let waits = ServiceActivity::Preempted(NOBODY);
                service.state.does(piece.until, waits);
            } else {
                service.state.does(piece.until, ServiceActivity::Idle);
            }
        }
        let name = self.setting.task_name(piece.task);
        self.preempt(own, &name, piece.from, piece.until);
    }

    fn overhead(&mut self, _: usize, from: u64, until: u64) {
        self.preempt(None, KERNEL, from, until);
    }

    fn ran_out(&mut self, reservation: usize, at: u64) {
        let has_windows = self.setting.has_windows(reservation);
        for service in &mut self.services {
            if service.inside_of.contains(&reservation) {
                service.run_out += 1;
                service.closed += usize::from(has_windows);
                if service.state.is_busy() {
                    service.state.does(at, service.withheld());
                }
            }
        }
    }

    fn replenished(&mut self, reservation: usize, at: u64) {
        let has_windows = self.setting.has_windows(reservation);
        for service in &mut self.services {
            if service.inside_of.contains(&reservation) && service.run_out > 0 {
                service.run_out -= 1;
                service.closed -= usize::from(has_windows).min(service.closed);
                let waits = match service.run_out {
                    0 => ServiceActivity::Preempted(NOBODY),
                    _ => service.withheld(),
                };
                if service.state.is_busy() {
                    service.state.does(at, waits);
                }
            }
        }
    }

    fn completed(&mut self, completion: &Completion) {
        let Some((index, task)) = self.service_of(completion.task) else {
            return;
        };
        let counts = completion.release >= self.warm_up_ns;
        let service = &mut self.services[index];
        let job = short(completion.number);
        service
            .state
            .completed(job, task, completion.release, completion.end, counts);
        if !service.state.is_busy() {
            service.state.does(completion.end, ServiceActivity::Idle);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tailbound_trace::explain::LatencyCause;

    use super::*;
    use crate::hierarchy::{Rule, ServerKind, Window};
    use crate::traces::{SettingOfReservation, SettingOfTask};
    use tailbound_time::Duration;

    const PARTITION: usize = 1;
    const SERVER: usize = 2;

    fn reservation(rule: Rule, path: &[usize]) -> SettingOfReservation {
        SettingOfReservation {
            name: "reservation".to_string(),
            rule,
            shares_budget: false,
            budget: Duration::from_nanos(400),
            period: Duration::from_nanos(1_000),
            phase: Duration::ZERO,
            path: path.to_vec(),
        }
    }

    /// One task in a server with a budget, which is in a time partition.
    fn causes() -> ServiceCauses {
        let windows = vec![Window {
            offset: Duration::ZERO,
            length: Duration::from_nanos(400),
        }];
        let polling = Rule::Server(ServerKind::Polling);
        let setting = Setting {
            speeds: vec![1_000],
            tasks: vec![SettingOfTask {
                name: "step".to_string(),
                deadline: None,
                inside_of: vec![SERVER, PARTITION],
            }],
            reservations: vec![
                reservation(Rule::Windows(windows), &[PARTITION]),
                reservation(polling, &[SERVER, PARTITION]),
            ],
            ..Setting::default()
        };
        ServiceCauses::new(setting, &[Some("control".to_string())], 0)
    }

    #[test]
    fn a_closed_window_is_a_cause_of_its_own_beside_a_budget_that_is_used_up() {
        let mut causes = causes();
        causes.released(&Job {
            task: 0,
            number: 0,
            release: 100,
            work: 200,
            delay_ns: 0,
        });
        causes.ran_out(SERVER, 100);
        causes.ran_out(PARTITION, 400);
        causes.replenished(PARTITION, 1_000);
        causes.replenished(SERVER, 1_050);
        causes.ran(&Piece {
            task: 0,
            number: 0,
            cpu: 0,
            reservation: SERVER,
            boosted: false,
            from: 1_050,
            until: 1_250,
        });
        causes.completed(&Completion {
            task: 0,
            number: 0,
            release: 100,
            end: 1_250,
        });
        let explanations = causes.finish(&[0.5]);
        let of = |cause| -> u64 {
            let bands = explanations[0].bands.iter();
            bands.map(|band| band.of_cause(cause).as_nanos()).sum()
        };
        assert_eq!(of(LatencyCause::OutsideWindow), 600);
        assert_eq!(of(LatencyCause::BudgetUsedUp), 350);
        assert_eq!(of(LatencyCause::Execution), 200);
    }
}
