//! Messages between the domains' own tasks: the times at which jobs read and publish.
//!
//! Tasks read the newest message at the begin of a job, and publish at its end, so that messages change no schedule. The
//! subsystem keeps the times of the jobs of such tasks; the messages are joined to them when all hosts are simulated
//! (`tailbound_assessment::chain_simulation`), since their ways lead from host to host.

use tailbound_model::Description;
use tailbound_topics::{TaskName, Topics};

use super::course::{Course, TaskLog};
use super::layout::{LaidPlan, LaidTask};
use super::result::HostSimulation;
use super::subsystems::{PlanRun, SimulatedSubsystem};

/// `Messages` keeps the times of the jobs of tasks with topics.
pub(super) struct Messages;

impl SimulatedSubsystem for Messages {
    fn conclude(&self, run: &PlanRun<'_>, results: &mut HostSimulation) {
        for (task, log) in run.laid.tasks.iter().zip(&run.course.logs) {
            let Some(log) = log else {
                continue;
            };
            let mut times = log.done.clone();
            times.sort_by_key(|job| (job.begin_ns, job.end_ns));
            results.job_times.insert(name_of(task).to_string(), times);
        }
    }
}

/// Has the course of a plan keep the times of the jobs of tasks with topics.
pub(super) fn watch(description: &Description, laid: &LaidPlan, course: &mut Course) {
    let topics: Topics = description.section();
    if topics.0.is_empty() {
        return;
    }
    let names = topics.0.values().flat_map(|topic| {
        let takers = topic.subscribers.iter().chain(&topic.released);
        topic.publishers.iter().chain(takers)
    });
    let names: Vec<TaskName> = names.filter_map(|name| TaskName::parse(name)).collect();
    for (task, log) in laid.tasks.iter().zip(&mut course.logs) {
        let is_named = task.service.is_none() && names.contains(&name_of(task));
        *log = is_named.then(TaskLog::default);
    }
}

fn name_of(task: &LaidTask) -> TaskName {
    TaskName {
        domain: task.domain.clone(),
        task: task.name.clone(),
    }
}
