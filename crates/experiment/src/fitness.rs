//! Whether a host can do what a variant asks of it, decided before anything is started.

use std::collections::BTreeMap;

use tailbound_enforcement::admission::{Standing, admit, check_request};
use tailbound_enforcement::backends::backend;
use tailbound_enforcement::binding::other_server;
use tailbound_enforcement::{AdmissionError, EnforcementError, ReservationRequest, Target};
use tailbound_linux::HostCapabilities;

use tailbound_analysis::resolution::ResolvedDomain;

/// Why a host cannot do what a variant asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The host, or our rights on it, lack something; the variant itself may be sound.
    Lacking(String),
    /// The variant asks for more than there is, or for what no back end can do.
    TooMuch(String),
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Lacking(reason) | Self::TooMuch(reason)) = self;
        out.write_str(reason)
    }
}

impl From<AdmissionError> for Obstacle {
    fn from(error: AdmissionError) -> Self {
        Self::TooMuch(error.to_string())
    }
}

/// Why `host` cannot enforce a variant whose domains get `resolved`, if so. What other reservations
/// hold on the host at the time does not count here.
pub fn obstacle(
    resolved: &BTreeMap<String, ResolvedDomain>,
    host: &HostCapabilities,
) -> Option<Obstacle> {
    if let Some(why) = other_server(resolved) {
        return Some(Obstacle::TooMuch(why));
    }
    let requests = resolved
        .iter()
        .filter(|(_, one)| one.backend.enforces())
        .map(|(domain, one)| ReservationRequest {
            domain: domain.clone(),
            // Who gets the time does not matter for whether there is enough.
            target: Target::Processes(Vec::new()),
            interface: one.interface.clone(),
            backend: one.backend,
            options: one.options,
        })
        .collect::<Vec<_>>();
    fits(&requests, host).err()
}

/// What is asked for is judged first, so that it is told on hosts that lack the means, too.
fn fits(requests: &[ReservationRequest], host: &HostCapabilities) -> Result<(), Obstacle> {
    for request in requests {
        check_request(request, host)?;
    }
    let standing: Vec<Standing> = requests.iter().cloned().map(Standing::from_start).collect();
    admit(&[], &standing, host)?;
    for request in requests {
        let missing = backend(request.backend).missing_for(request, host);
        if !missing.is_empty() {
            let backend = request.backend;
            let lacking = EnforcementError::Missing { backend, missing };
            return Err(Obstacle::Lacking(lacking.to_string()));
        }
        backend(request.backend).check_interface(request, host)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tailbound_linux::capabilities::{Feature, Finding};
    use tailbound_model::{BackendKind, BackendOptions, Cpu, Priority, ResourceInterface};
    use tailbound_time::Duration;

    fn host(features: &[Feature]) -> HostCapabilities {
        let mut host = HostCapabilities {
            online_cpus: [0, 1].into(),
            rt_runtime_us: Some(950_000),
            rt_period_us: Some(1_000_000),
            ..HostCapabilities::default()
        };
        for &feature in features {
            let works = Finding {
                works: true,
                found: "a test says so".into(),
                remedy: String::new(),
            };
            host.findings.insert(feature, works);
        }
        host
    }

    fn able() -> HostCapabilities {
        host(&Feature::ALL)
    }

    fn asked(domain: &str, budget_us: u64, cpu: u32) -> (String, ResolvedDomain) {
        let interface = ResourceInterface {
            budget: Duration::from_micros(budget_us),
            period: Duration::from_millis(10),
            priority: Priority(90),
            cpus: [Cpu(cpu)].into(),
        };
        let backend = BackendKind::default();
        let server_kind = None;
        let one = ResolvedDomain {
            backend,
            interface,
            server_kind,
            options: BackendOptions::default(),
        };
        (domain.into(), one)
    }

    #[test]
    fn what_fits_has_no_obstacle() {
        let resolved = [asked("a", 6_000, 0), asked("b", 9_000, 1)].into();
        assert_eq!(obstacle(&resolved, &able()), None);
    }

    #[test]
    fn more_than_a_cpu_has_is_too_much() {
        let alone = [asked("a", 9_900, 0)].into();
        let found = obstacle(&alone, &able());
        assert!(
            matches!(&found, Some(Obstacle::TooMuch(why)) if why.contains("93%")),
            "{found:?}"
        );
        let together = [asked("a", 5_000, 0), asked("b", 5_000, 0)].into();
        let found = obstacle(&together, &able());
        assert!(
            matches!(&found, Some(Obstacle::TooMuch(why)) if why.contains("\"b\"")),
            "{found:?}"
        );
    }

    #[test]
    fn a_cpu_that_is_not_there_is_too_much() {
        let found = obstacle(&[asked("a", 1_000, 7)].into(), &able());
        assert!(
            matches!(&found, Some(Obstacle::TooMuch(why)) if why.contains("CPU 7 is not online")),
            "{found:?}"
        );
    }

    #[test]
    fn a_host_without_the_means_lacks_them() {
        let found = obstacle(&[asked("a", 1_000, 0)].into(), &host(&[]));
        assert!(
            matches!(&found, Some(Obstacle::Lacking(why)) if why.contains("SCHED_FIFO")),
            "{found:?}"
        );
    }
}
