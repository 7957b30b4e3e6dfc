//! Which processes a reservation is for, though the kernel gives their numbers to others when they end.

use std::collections::BTreeMap;

use tailbound_enforcement::{ReservationRequest, Target};
use tailbound_linux::process::process_started;

/// When the processes or threads of each domain were started, as they were reserved. One that had ended by
/// then is missing, and never found again.
pub type StartTimes = BTreeMap<String, BTreeMap<u32, u64>>;

/// The processes and threads that have to be the same for a reservation to be made again.
pub fn numbers_of(target: &Target) -> &[u32] {
    match target {
        Target::Processes(numbers) => numbers,
        // An emulator's other threads come and go.
        Target::Threads(_) | Target::Machine(_) => target.single_threads().unwrap_or_default(),
        // Threads of interrupts are listed anew when their device is reserved again.
        Target::Cgroup(_)
        | Target::NamedCgroup(_)
        | Target::XenDomain(_)
        | Target::Interrupts(_)
        | Target::Topics(_) => &[],
    }
}

/// When those of requests were started. Asked before they are reserved: one whose number goes to another
/// process in between is not known then, instead of the other one.
pub fn start_times(requests: &[ReservationRequest]) -> StartTimes {
    let of_one = |request: &ReservationRequest| {
        let numbers = numbers_of(&request.target).iter();
        let started = numbers.filter_map(|pid| Some((*pid, process_started(*pid).ok()?)));
        (request.domain.clone(), started.collect())
    };
    requests.iter().map(of_one).collect()
}

/// Whether a process is still the one that was started then.
pub fn is_same(pid: u32, started: &BTreeMap<u32, u64>) -> bool {
    let start = started.get(&pid);
    start.is_some_and(|at| process_started(pid).is_ok_and(|now| now == *at))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_number_is_not_a_process() {
        let own = std::process::id();
        let at = process_started(own).unwrap();
        assert!(is_same(own, &[(own, at)].into()));
        assert!(!is_same(own, &[(own, at + 1)].into()));
        assert!(!is_same(own, &BTreeMap::new()));
        // No process has this number: neither known nor there is not the same.
        let none = u32::MAX >> 1;
        assert!(!is_same(none, &BTreeMap::new()));
        assert!(!is_same(none, &[(none, at)].into()));
    }
}
