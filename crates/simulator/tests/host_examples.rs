//! The example of a shared host is as its text says.

use tailbound_simulator::host::{Kept, simulate_host};
use tailbound_time::Duration;

use crate::host::query;

const SHARED: &str = include_str!("../../../examples/shared-host/shared-host.toml");

#[test]
fn the_shared_host_keeps_its_promises_and_halved_it_does_not() {
    let mut description = tailbound_model::parse(SHARED, "shared-host.toml").unwrap();
    let duration = Duration::from_secs(20);
    let simulation = simulate_host(&query(&description, duration, Kept::Classes)).unwrap();
    assert!(simulation.is_fine(), "{simulation:#?}");
    let cache = simulation.services["cache"].as_ref().unwrap();
    let p99 = cache.quantile(0.99).unwrap().high.unwrap();
    assert!(p99 <= Duration::from_millis(20), "{p99}");
    let busy: f64 = simulation
        .cpus
        .iter()
        .filter(|cpu| cpu.cpu > 0)
        .map(|cpu| cpu.busy_share)
        .sum();
    assert!(busy > 1.9, "{busy}");
    let vehicle = description.domains.get_mut("vehicle").unwrap();
    vehicle.reservation.as_mut().unwrap().budget = Some(Duration::from_millis(2));
    let halved = simulate_host(&query(&description, duration, Kept::Classes)).unwrap();
    assert!(!halved.is_fine());
}
