//! The host's fingerprint.

use std::collections::BTreeMap;

use tailbound_linux::host_facts::HostFacts;

/// What this host is: kernel, CPUs, clock source, governor, SMT, mitigations, preemption model and
/// the like, by name. What cannot be read is left out.
pub fn fingerprint() -> BTreeMap<String, String> {
    HostFacts::of_this_host().fingerprint()
}

/// The fingerprint in one line, for [`tailbound_distribution::Provenance::host`].
pub fn fingerprint_line(fingerprint: &BTreeMap<String, String>) -> String {
    let kept = [
        ("kernel", "Linux "),
        ("cpu-model", ""),
        ("cpus", "CPUs "),
        ("virtualisation", "virtualisation: "),
        ("clock-source", "clock source "),
    ];
    let parts: Vec<String> = kept
        .iter()
        .filter_map(|(key, before)| Some(format!("{before}{}", fingerprint.get(*key)?)))
        .collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_what_is_known() {
        let facts = [("kernel", "6.1"), ("cpus", "0-3"), ("memory", "1 kB")];
        let facts = facts.map(|(name, value)| (name.to_string(), value.to_string()));
        assert_eq!(
            fingerprint_line(&BTreeMap::from(facts)),
            "Linux 6.1, CPUs 0-3"
        );
    }
}
