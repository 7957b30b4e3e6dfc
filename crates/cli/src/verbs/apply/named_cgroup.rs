//! `tailbound apply --unit NAME`, `--container NAME`, `--container-label LABEL` and `--pod NAMESPACE/POD`: the reservation of what runs already,
//! without a description.

use std::collections::BTreeMap;

use tailbound_enforcement::binding::{self, BindingError};
use tailbound_enforcement::{CgroupName, ReservationRequest};
use tailbound_model::BackendOptions;

use super::grant::Grant;
use crate::arguments::{ApplyArguments, OptionPlace};
use crate::failure::Failure;
use crate::output::Output;

/// Puts the one reservation into force, or prints what that would change.
pub fn carry_out(
    arguments: &ApplyArguments,
    name: CgroupName,
    output: &Output,
) -> Result<(), Failure> {
    let request = request(arguments, name)?;
    if arguments.dry_run {
        return super::dry_run(&[request], output);
    }
    let requests = [request];
    let mut grant = Grant::begin(arguments.hold)?;
    grant.apply(&requests, BTreeMap::new(), output)?;
    grant.end(&requests, output)
}

fn request(arguments: &ApplyArguments, name: CgroupName) -> Result<ReservationRequest, Failure> {
    let interface = arguments.reservation.interface(OptionPlace::CommandLine)?;
    let domain = arguments.name.clone();
    let domain = domain.unwrap_or_else(|| domain_of(&name));
    let target = binding::named(&domain, name).map_err(|error| match error {
        BindingError::Name { source, .. } => Failure::with_help(&source, source.remedy()),
        other => Failure::from_error(other),
    })?;
    Ok(ReservationRequest {
        domain,
        target,
        interface,
        backend: arguments.reservation.backend,
        options: BackendOptions::default(),
        interference: Default::default(),
    })
}

/// The domain of a unit or container: its name, with a dash for what no domain's name may have.
fn domain_of(name: &CgroupName) -> String {
    domain_called(name.text())
}

/// A name as that of a domain.
pub fn domain_called(name: &str) -> String {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let letters = name.chars();
    let letters = letters.map(|letter| if allowed(letter) { letter } else { '-' });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_called_like_its_unit_or_container() {
        let unit = |name: &str| domain_of(&CgroupName::Unit(name.into()));
        assert_eq!(unit("redis.service"), "redis.service");
        assert_eq!(
            unit("postgresql@15-main.service"),
            "postgresql-15-main.service"
        );
        assert_eq!(unit("a\\x2db:c.scope"), "a-x2db-c.scope");
        let container = domain_of(&CgroupName::Container("web+1".into()));
        assert_eq!(container, "web-1");
        let pod = domain_of(&CgroupName::Pod("default/redis-0/redis".into()));
        assert_eq!(pod, "default-redis-0-redis");
    }
}
