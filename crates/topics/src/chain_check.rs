//! The checks of `[chains]` against topics and tasks.

use tailbound_model::{Check, KeyPath, Section};

use crate::topic_check::{longest_gap, reference};
use crate::{Chain, Chains, TaskName, Topics};

impl Section for Chains {
    const KEY: &'static str = "chains";

    fn check(&self, check: &mut Check<'_>) {
        let topics: Topics = check.description().section();
        for (name, chain) in &self.0 {
            let place = KeyPath::root().key(Self::KEY).key(name);
            deadlines(check, &place, chain);
            if elements(check, &place, chain) {
                links(check, &place, chain, &topics);
            }
        }
    }
}

fn deadlines(check: &mut Check<'_>, place: &KeyPath, chain: &Chain) {
    if let Some(age) = chain.data_age {
        check.above_zero(&place.key("data_age"), "the data age", age);
    }
    if let Some(time) = chain.reaction_time {
        check.above_zero(&place.key("reaction_time"), "the reaction time", time);
    }
    if chain.data_age.is_none() && chain.reaction_time.is_none() {
        check.warning(
            place,
            "the chain has no deadline, so that nothing is judged",
            "add `data_age` or `reaction_time`, such as \"100ms\"",
        );
    }
}

/// Whether every element of the path is a task or a topic.
fn elements(check: &mut Check<'_>, place: &KeyPath, chain: &Chain) -> bool {
    let names = check.names(Topics::KEY);
    let mut are_there = true;
    for (index, element) in chain.path.iter().enumerate() {
        let here = place.key("path").index(index);
        are_there &= match TaskName::parse(element) {
            Some(_) => reference(check, &here, element),
            None if element.contains('/') => reference(check, &here, element),
            None => {
                check.reference(&here, "topic", element, &names);
                names.contains(&element.as_str())
            }
        };
    }
    are_there
}

fn links(check: &mut Check<'_>, place: &KeyPath, chain: &Chain, topics: &Topics) {
    let path = place.key("path");
    if let Err(fault) = chain.links(topics) {
        check.error(&path.index(fault.index), fault.message, fault.remedy);
        return;
    }
    let mut tasks = chain.tasks();
    let Some((index, first)) = tasks.next() else {
        return;
    };
    if let Some((topic, _)) = topics.releasing(&first) {
        check.error(
            &path.index(index),
            format!("topic `{topic}` releases {first}, so that the chain begins further in front"),
            "begin the path with the publisher",
        );
        return;
    }
    let arrivals = first.task_in(check.description());
    if arrivals.is_some_and(|task| longest_gap(&task.arrivals).is_none()) {
        check.warning(
            &path.index(index),
            format!("nothing bounds the time between two jobs of {first}, and so neither age nor reaction time"),
            "give the task periodic arrivals, or sporadic ones with a `max_gap`",
        );
    }
}
