//! Times, rates, tasks, periods, axes, CPU lists and other words of command lines and descriptions.

use std::path::Path;
use std::str::FromStr;

use tailbound_analysis::notation::{PeriodRange, TaskNotation};
use tailbound_analysis::{CpuLimit, Promise};
use tailbound_linux::capabilities::Feature;
use tailbound_measurement::Endpoint;
use tailbound_model::CpuSet;
use tailbound_modes::agent::arguments;
use tailbound_modes::agent::routes::Address;
use tailbound_modes::wire::Name;
use tailbound_simulator::generate::{Deadlines, Offsets, Periods, UtilisationLaw};
use tailbound_sweep::Axis;
use tailbound_time::{Duration, Rate};

/// What is written is read as the same.
pub fn check(bytes: &[u8]) {
    let Some(text) = crate::text(bytes) else {
        return;
    };
    returns::<Duration>(text);
    returns::<TaskNotation>(text);
    returns::<CpuLimit>(text);
    returns::<Feature>(text);
    returns::<Name>(text);
    reads::<PeriodRange>(text);
    reads::<Promise>(text);
    reads::<Periods>(text);
    reads::<Deadlines>(text);
    reads::<Offsets>(text);
    reads::<UtilisationLaw>(text);
    if let Ok(rate) = text.parse::<Rate>() {
        assert_eq!(rate.to_string().parse(), Ok(rate), "{rate}");
    }
    if let Ok(axis) = text.parse::<Axis>() {
        let json = serde_json::to_string(&axis).unwrap();
        assert_eq!(serde_json::from_str::<Axis>(&json).unwrap(), axis);
    }
    if let Ok(cpus) = serde_json::from_slice::<CpuSet>(bytes) {
        let json = serde_json::to_vec(&cpus).unwrap();
        assert_eq!(serde_json::from_slice::<CpuSet>(&json).unwrap(), cpus);
    }
    if let Some(address) = Address::parse(text) {
        assert_eq!(Address::parse(&address.to_string()), Some(address));
    }
    // A host name would be looked up.
    if text.starts_with("unix:") {
        let _any = Endpoint::resolve(text, Path::new("/"));
    }
    let _any = arguments::parse(text.split('\n').map(str::to_owned));
}

fn reads<T: FromStr>(text: &str)
where
    T::Err: ToString,
{
    if let Err(error) = text.parse::<T>() {
        assert!(!error.to_string().is_empty());
    }
}

fn returns<T: FromStr + ToString + PartialEq + std::fmt::Debug>(text: &str)
where
    T::Err: ToString + std::fmt::Debug,
{
    match text.parse::<T>() {
        Ok(value) => assert_eq!(value.to_string().parse::<T>().unwrap(), value),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
